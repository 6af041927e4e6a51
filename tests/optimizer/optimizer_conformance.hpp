#pragma once
/// The suite that every optimizer passes, a user's own included: `check_optimizer(o)`.

#include <doctest/doctest.h>

#include <nestpipe/core/fixed_size.hpp>
#include <nestpipe/core/random.hpp>
#include <nestpipe/optimizer/optimizer.hpp>

#include <bit>
#include <cmath>
#include <cstring>
#include <vector>

namespace optimizer_conformance {

inline bool same_bits(std::vector<float> const& a, std::vector<float> const& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

/// Row, state and a guard of 16 floats on either side; `guard_intact` fails when an update leaves its row.
struct guarded_row {
  static constexpr std::size_t guard = 16;
  static constexpr float mark = 12345.5f;
  std::vector<float> memory;
  std::size_t dim;
  std::size_t state_floats;

  template <class O>
  guarded_row(O const& o, std::size_t d, std::uint64_t seed)
      : memory(2 * guard + d + o.state_size(d), mark), dim{d}, state_floats{o.state_size(d)} {
    nestpipe::counter_random const random{seed, d, 1};
    for (std::size_t i = 0; i < dim; ++i) row()[i] = 2.0f * random.uniform(i) - 1.0f;
    o.initialize(state(), dim);
  }
  float* row() { return memory.data() + guard; }
  float* state() { return row() + dim; }
  bool guard_intact() const {
    for (std::size_t i = 0; i < guard; ++i) {
      if (memory[i] != mark || memory[memory.size() - 1 - i] != mark) return false;
    }
    return true;
  }
};

template <class O, class Dim>
std::vector<float> train(O const& o, Dim dim, std::uint64_t seed, std::uint64_t steps) {
  guarded_row r{o, dim, seed};
  std::vector<float> gradient(static_cast<std::size_t>(dim));
  for (std::uint64_t t = 1; t <= steps; ++t) {
    nestpipe::counter_random const random{seed, t, 2};
    for (std::size_t i = 0; i < gradient.size(); ++i) gradient[i] = random.normal(i) * 0.1f;
    std::vector<float> const before = gradient;
    o.update(r.row(), r.state(), gradient.data(), dim, o.prepare(t, 1.0f));
    CHECK(same_bits(before, gradient));
  }
  CHECK(r.guard_intact());
  return r.memory;
}

template <std::size_t Dim, class O>
void check_dim(O const& o) {
  CAPTURE(Dim);
  // A compile-time dim and a run-time dim compute the same bits, and twice the same is the same.
  std::vector<float> const fixed = train(o, nestpipe::fixed_size<Dim>{}, 7, 5);
  CHECK(same_bits(fixed, train(o, Dim, 7, 5)));
  CHECK(same_bits(fixed, train(o, Dim, 7, 5)));
  CHECK_FALSE(same_bits(fixed, train(o, Dim, 8, 5)));
  for (std::size_t i = 0; i < Dim + o.state_size(Dim); ++i) CHECK(std::isfinite(fixed[guarded_row::guard + i]));
}

/// Nothing but row, state, gradient and constants matters: rows updated between each other's steps do not interfere.
template <class O>
void check_purity(O const& o) {
  constexpr std::size_t dim = 19;
  guarded_row a{o, dim, 1}, b{o, dim, 2};
  std::vector<float> gradient(dim);
  for (std::uint64_t t = 1; t <= 5; ++t) {
    nestpipe::counter_random const ra{1, t, 2};
    for (std::size_t i = 0; i < dim; ++i) gradient[i] = ra.normal(i) * 0.1f;
    o.update(a.row(), a.state(), gradient.data(), dim, o.prepare(t, 1.0f));
    nestpipe::counter_random const rb{2, t, 2};
    for (std::size_t i = 0; i < dim; ++i) gradient[i] = rb.normal(i) * 0.1f;
    o.update(b.row(), b.state(), gradient.data(), dim, o.prepare(t, 1.0f));
  }
  CHECK(same_bits(a.memory, train(o, dim, 1, 5)));
  CHECK(same_bits(b.memory, train(o, dim, 2, 5)));
}

/// The rate factor matters, and a step against the gradient lowers a convex loss.
template <class O>
void check_descends(O const& o) {
  constexpr std::size_t dim = 8;
  guarded_row slow{o, dim, 3}, fast{o, dim, 3};
  auto const loss = [](float const* row) {
    double sum = 0;
    for (std::size_t i = 0; i < dim; ++i) sum += static_cast<double>(row[i]) * static_cast<double>(row[i]);
    return sum;
  };
  double const before = loss(slow.row());
  for (std::uint64_t t = 1; t <= 20; ++t) {
    std::vector<float> gradient(slow.row(), slow.row() + dim);
    o.update(slow.row(), slow.state(), gradient.data(), dim, o.prepare(t, 0.5f));
    gradient.assign(fast.row(), fast.row() + dim);
    o.update(fast.row(), fast.state(), gradient.data(), dim, o.prepare(t, 1.0f));
  }
  CHECK(loss(slow.row()) < before);
  CHECK(loss(fast.row()) < loss(slow.row()));
}

template <class O>
void check_optimizer(O const& o) {
  static_assert(nestpipe::optimizer::optimizer<O>);
  static_assert(nestpipe::optimizer::audit<O>());
  check_dim<1>(o);
  check_dim<3>(o);
  check_dim<16>(o);
  check_dim<33>(o);
  check_dim<64>(o);
  check_dim<129>(o);
  check_purity(o);
  check_descends(o);
}

}  // namespace optimizer_conformance
