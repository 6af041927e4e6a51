// storage::hashed and storage::dense beside a bare copy of rows at random places of the same memory: same rows, same distance, same
// bytes, addresses known. And growth: rows inserted per second, the longest call, bytes per row.
//
//   bench.hashed [--benchmark_filter=...] [--benchmark_format=json]      NESTPIPE_BENCH_ROWS=50000000 for the full size (5.2 GB at dim 16)
//
// Rows have one float of state. The table has as many bytes at every dim: NESTPIPE_BENCH_ROWS (default 5,000,000) is the number of rows
// at dim 16.

#include "limits/beside.hpp"
#include "limits/random_rows.hpp"

#include <nestpipe/storage/dense.hpp>
#include <nestpipe/storage/hashed.hpp>

#include <cstdlib>
#include <memory>
#include <type_traits>

namespace {

namespace np = nestpipe;
namespace s = np::storage;
using np::key_type;

constexpr std::size_t batch = 65536;

std::uint64_t rows_at(std::size_t dim) {
  char const* const text = std::getenv("NESTPIPE_BENCH_ROWS");
  std::uint64_t const rows = text != nullptr ? std::strtoull(text, nullptr, 10) : 5'000'000;
  return rows * 76 / ((dim + 1) * 4 + 8);
}

/// Keys of row i: spread over 64 bits for hashed, i itself for dense.
template <class S>
key_type key_of(std::uint64_t i) {
  return std::is_same_v<S, s::dense> ? i : np::mix64(i);
}

/// What filling a store showed.
struct growth {
  double seconds = 0;
  double longest_call = 0;
  double ratio_sum = 0;      ///< bytes held over bytes of keys and rows, summed from a fiftieth of the rows on
  double ratio_peak = 0;
  std::size_t ratios = 0;
};

/// A filled store, kept from one benchmark to the next of the same dim.
template <class S>
struct filled {
  S store;
  std::size_t dim = 0;
  std::uint64_t rows = 0;
  growth grown;
};

template <class S>
filled<S>& store_of(std::size_t dim) {
  static filled<S> f;
  if (f.dim == dim) return f;
  f = {};
  f.dim = dim;
  f.rows = rows_at(dim);
  s::storage_spec spec;
  spec.table_name = "benchmark";
  spec.dim = dim;
  spec.row_floats = dim + 1;
  spec.cardinality = f.rows;
  f.store.open(spec);
  std::vector<key_type> keys(batch);
  std::vector<s::row_handle> const unknown(batch, s::no_row);
  std::vector<float> const rows(batch * (dim + 1), 1.0f);
  for (std::uint64_t i = 0; i < f.rows; i += batch) {
    std::size_t const n = std::min<std::uint64_t>(batch, f.rows - i);
    for (std::size_t k = 0; k < n; ++k) keys[k] = key_of<S>(i + k);
    double const taken = np::bench::seconds_of([&] { f.store.write({keys.data(), n}, {unknown.data(), n}, rows.data()); });
    f.grown.seconds += taken;
    f.grown.longest_call = std::max(f.grown.longest_call, taken);
    if (i < f.rows / 50) continue;
    s::storage_counters const c = f.store.counters();
    double const ratio = c.bytes_per_row() / static_cast<double>((dim + 1) * 4 + 8);
    f.grown.ratio_sum += ratio;
    f.grown.ratio_peak = std::max(f.grown.ratio_peak, ratio);
    ++f.grown.ratios;
  }
  return f;
}

/// Batches of distinct uniform keys, each batch other ones.
template <class S>
struct asker {
  explicit asker(filled<S> const& f) : rows{f.rows}, random{11, f.dim, 1} {}
  void next() {
    for (key_type& k : keys) k = key_of<S>(random.below(drawn++, rows));
  }
  std::uint64_t rows;
  np::counter_random random;
  std::uint64_t drawn = 0;
  std::vector<key_type> keys = std::vector<key_type>(batch);
};

/// In turn a batch for the store and another for the bare copy, drawn before the clock runs.
template <class S, class Figure, class Limit>
void compare(benchmark::State& state, filled<S>& f, Figure figure, Limit limit, double bar) {
  asker<S> ask{f};
  std::size_t const w = f.dim + 1;
  std::vector<s::row_handle> handles(batch);
  std::vector<float> rows(batch * w, 1.0f);
  std::vector<std::uint64_t> places(batch);
  std::vector<double> ours, theirs;
  // Handles of many batches, so that those copied were last touched long ago.
  std::vector<std::vector<s::row_handle>> known(state.max_iterations, handles);
  for (auto& h : known) {
    ask.next();
    f.store.read(ask.keys, h, rows.data());
  }
  for (auto _ : state) {
    ask.next();
    ours.push_back(np::bench::seconds_of([&] { figure(ask.keys, handles, rows.data()); }));
    theirs.push_back(np::bench::seconds_of([&] { limit(known[theirs.size()], rows.data()); }));
    state.SetIterationTime(ours.back());
  }
  double const rate = batch / np::bench::median(ours);
  double const most = batch / np::bench::median(theirs);
  state.counters["rate"] = rate;
  state.counters["limit"] = most;
  state.counters["ratio"] = rate / most;
  state.counters["bar"] = bar;
}

template <class S>
void read(benchmark::State& state) {
  filled<S>& f = store_of<S>(static_cast<std::size_t>(state.range(0)));
  std::size_t const w = f.dim + 1;
  std::unique_ptr<np::bench::row_table> bare;
  if constexpr (std::is_same_v<S, s::dense>) bare = std::make_unique<np::bench::row_table>(f.rows, w);
  float const* const base = bare ? bare->data() : nullptr;
  compare(
      state, f, [&](auto const& keys, auto& handles, float* rows) { f.store.read(keys, handles, rows); },
      [&](std::vector<s::row_handle> const& known, float* rows) {
        if constexpr (std::is_same_v<S, s::dense>) {
          np::bench::gather_rows(base, w, w, known, rows);
        } else {
          np::with_fixed_size(w, [&](auto width) {
            for (std::size_t i = 0; i < batch; ++i) {
              if (i + np::bench::rows_ahead < batch) s::detail::prefetch_bytes<false>(reinterpret_cast<std::byte*>(known[i + np::bench::rows_ahead]), width * sizeof(float));
              std::memcpy(rows + i * width, reinterpret_cast<float const*>(known[i]), width * sizeof(float));
            }
          });
        }
        np::bench::keep(rows);
      },
      std::is_same_v<S, s::dense> ? 0.95 : 0.7);
}

/// Writes of rows that are there, looked up by key.
void write_known(benchmark::State& state) {
  filled<s::hashed<>>& f = store_of<s::hashed<>>(static_cast<std::size_t>(state.range(0)));
  std::size_t const w = f.dim + 1;
  std::vector<s::row_handle> const unknown(batch, s::no_row);
  compare(
      state, f, [&](auto const& keys, auto&, float const* rows) { f.store.write(keys, unknown, rows); },
      [&](std::vector<s::row_handle> const& known, float const* rows) {
        np::with_fixed_size(w, [&](auto width) {
          for (std::size_t i = 0; i < batch; ++i) {
            if (i + np::bench::rows_ahead < batch) s::detail::prefetch_bytes<true>(reinterpret_cast<std::byte*>(known[i + np::bench::rows_ahead]), width * sizeof(float));
            std::memcpy(reinterpret_cast<float*>(known[i]), rows + i * width, width * sizeof(float));
          }
        });
      },
      0.7);
}

/// How the table came to be; the limit is how many rows' worth of huge pages the kernel clears per second.
void grow(benchmark::State& state) {
  filled<s::hashed<>> const& f = store_of<s::hashed<>>(static_cast<std::size_t>(state.range(0)));
  std::size_t const record = (f.dim + 1) * 4 + 8;
  double cleared = 0;
  constexpr std::size_t probe = std::size_t{256} << 20;
  for (auto _ : state) {
    np::huge_memory const fresh{probe, "benchmark"};
    cleared = np::bench::seconds_of([&] {
      for (std::size_t b = 0; b < probe; b += 4096) fresh.data()[b] = std::byte{1};
    });
    state.SetIterationTime(cleared);
  }
  s::storage_counters const c = f.store.counters();
  state.counters["rows"] = static_cast<double>(c.rows);
  state.counters["rate"] = static_cast<double>(f.rows) / f.grown.seconds;
  state.counters["limit"] = static_cast<double>(probe) / cleared / static_cast<double>(record);
  state.counters["longest_call_ms"] = f.grown.longest_call * 1e3;
  state.counters["load"] = c.load();
  state.counters["bytes_per_row"] = c.bytes_per_row();
  state.counters["mean_overhead"] = f.grown.ratio_sum / static_cast<double>(std::max<std::size_t>(1, f.grown.ratios));
  state.counters["peak_overhead"] = f.grown.ratio_peak;
}

// By dim, so that a filled table serves all three.
#define NESTPIPE_BENCH_DIM(dim)                                                                                     \
  BENCHMARK(grow)->ArgName("dim")->Arg(dim)->UseManualTime()->Iterations(1)->Unit(benchmark::kMillisecond);        \
  BENCHMARK(read<s::hashed<>>)->ArgName("dim")->Arg(dim)->UseManualTime()->Iterations(61)->Unit(benchmark::kMillisecond); \
  BENCHMARK(write_known)->ArgName("dim")->Arg(dim)->UseManualTime()->Iterations(61)->Unit(benchmark::kMillisecond)
NESTPIPE_BENCH_DIM(16);
NESTPIPE_BENCH_DIM(32);
NESTPIPE_BENCH_DIM(64);
#undef NESTPIPE_BENCH_DIM
BENCHMARK(read<s::dense>)->ArgName("dim")->Arg(16)->Arg(64)->UseManualTime()->Iterations(61)->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
