#pragma once
/// @file
/// What one core of this machine reaches, measured in a fraction of a second, for comparison with what a step takes.

#include <nestpipe/core/random.hpp>
#include <nestpipe/engine/step_work.hpp>
#include <nestpipe/exec/algorithms.hpp>
#include <nestpipe/exec/buffer.hpp>
#include <nestpipe/math/backend.hpp>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstring>

namespace nestpipe::engine {

namespace detail {

/// Units a second of `f`, which does `units` of work: the best of several runs in `seconds`.
template <class F>
double best_rate(double units, double seconds, F f) {
  using clock = std::chrono::steady_clock;
  auto const begin = clock::now();
  double best = 0;
  for (int run = 0; run < 3 || std::chrono::duration<double>(clock::now() - begin).count() < seconds; ++run) {
    auto const start = clock::now();
    f();
    best = std::max(best, units / std::max(1e-9, std::chrono::duration<double>(clock::now() - start).count()));
  }
  return best;
}

inline double copy_rate(std::size_t bytes, double seconds) {
  exec::buffer<std::byte> from{bytes}, to{bytes};
  from.assign_zero(bytes);
  to.assign_zero(bytes);
  std::size_t const repeats = std::max<std::size_t>(1, (std::size_t{1} << 22) / bytes);
  return best_rate(static_cast<double>(bytes * repeats), seconds, [&] {
    for (std::size_t r = 0; r < repeats; ++r) {
      std::memcpy(to.data(), from.data(), bytes);
      asm volatile("" : : "r"(to.data()) : "memory");  // every repeat is wanted
    }
  });
}

}  // namespace detail

/// @param w            of the run that is judged: sizes of rows, of tables and of a micro-batch are taken from it
/// @param table_bytes  all rows stored on this rank; tables beyond `most_bytes` are measured at that size
/// @tparam Math        the backend whose matrix product is the limit of dense work
/// @note About a quarter of a second, and memory of two tables of `most_bytes` at most.
template <class Math>
machine_limits measure_limits(step_work const& w, std::uint64_t table_bytes, std::uint64_t most_bytes = std::uint64_t{1} << 28) {
  constexpr double seconds = 0.03;
  machine_limits m;
  double const batches = std::max(1.0, w.batches);
  double const near = w.sent_bytes / 2 / batches / std::max(1.0, w.micro_batches);
  m.copy_bytes = detail::copy_rate(static_cast<std::size_t>(std::clamp(near, 65'536.0, 6.7e7)), seconds);
  m.far_copy_bytes = detail::copy_rate(std::size_t{1} << 27, seconds);

  std::size_t const row = std::max<std::size_t>(1, static_cast<std::size_t>(std::lround(w.stored_bytes / std::max(1.0, w.rows) / sizeof(float))));
  std::size_t const table_rows = static_cast<std::size_t>(std::max<std::uint64_t>(1024, std::min(table_bytes, most_bytes) / (row * sizeof(float))));
  std::size_t const asked = std::clamp<std::size_t>(static_cast<std::size_t>(w.rows / batches), 1024, 1 << 18);
  exec::buffer<float> table, copies;
  table.assign_zero(table_rows * row);
  copies.assign_zero(asked * row);
  exec::buffer<std::uint32_t> places{asked};
  counter_random const random{1, 0, 0};
  std::uint64_t turn = 0;
  auto const choose = [&] {
    for (std::size_t i = 0; i < asked; ++i) places[i] = static_cast<std::uint32_t>(random.bits(turn * asked + i) % table_rows);
    ++turn;
  };
  auto const rows = [&](auto move) {
    double best = 0;
    for (int run = 0; run < 8; ++run) {  // other rows every time: these are in no cache, as the rows of a batch are not
      choose();
      auto const start = std::chrono::steady_clock::now();
      move();
      best = std::max(best, static_cast<double>(asked) / std::max(1e-9, std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count()));
    }
    return best;
  };
  constexpr std::size_t ahead = 16;
  m.read_rows = rows([&] {
    for (std::size_t i = 0; i < asked; ++i) {
      if (i + ahead < asked) {
        for (std::size_t k = 0; k < row; k += 16) __builtin_prefetch(table.data() + places[i + ahead] * row + k);
      }
      std::memcpy(copies.data() + i * row, table.data() + places[i] * row, row * sizeof(float));
    }
  });
  m.write_rows = rows([&] {
    for (std::size_t i = 0; i < asked; ++i) {
      if (i + ahead < asked) {
        for (std::size_t k = 0; k < row; k += 16) __builtin_prefetch(table.data() + places[i + ahead] * row + k, 1);
      }
      std::memcpy(table.data() + places[i] * row, copies.data() + i * row, row * sizeof(float));
    }
  });

  std::size_t const keys = 1 << 16;
  exec::buffer<key_type> drawn{keys}, sorted{keys};
  exec::sort_space space;
  for (std::size_t i = 0; i < keys; ++i) drawn[i] = random.bits(i) % 1'000'000;
  m.sorted_keys = detail::best_rate(static_cast<double>(keys), seconds, [&] {
    std::memcpy(sorted.data(), drawn.data(), keys * sizeof(key_type));
    exec::sort(exec::host{}, sorted.span(), space);
  });

  std::size_t const n = 512;
  exec::buffer<float> a, b, c;
  a.assign_zero(n * n);
  b.assign_zero(n * n);
  c.assign_zero(n * n);
  m.products = detail::best_rate(2.0 * static_cast<double>(n * n * n), 2 * seconds, [&] {
    math::gemm<Math, float>(false, false, n, n, n, 1.0f, a.data(), n, b.data(), n, 0.0f, c.data(), n);
  });
  return m;
}

}  // namespace nestpipe::engine
