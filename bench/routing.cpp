// Host routing: de-duplication with inverse of one list of keys, and the whole route stage of a rank, beside a bare radix sort of
// the same keys (which alone does not even give the inverse).
//
//   bench.routing [--benchmark_filter=...] [--benchmark_format=json]
//
// Counters: `rate` keys/s, `limit` keys/s of the sort, `ratio`; `bar` is what rate must reach where something is promised.

#include "limits/beside.hpp"
#include "limits/sorting.hpp"

#include <nestpipe/data/zipf.hpp>
#include <nestpipe/embedding/owner_route.hpp>

#include <string>

namespace {

namespace np = nestpipe;
using np::key_type;

constexpr std::uint64_t universe = 100'000'000;

/// `n` keys, zipf-distributed with exponent s / 100 over the universe, spread over all 64 bits.
std::vector<key_type> keys_of(std::size_t n, int s, std::uint64_t stream) {
  np::data::zipf const rank{universe, s / 100.0};
  np::counter_random const random{7, stream, 1};
  std::vector<key_type> keys(n);
  for (std::size_t i = 0; i < n; ++i) keys[i] = np::mix64(rank(random, 64 * i));
  return keys;
}

/// Sorts without std::sort's help: eight passes of a radix sort over copies kept between calls.
struct radix {
  std::vector<std::uint64_t> a, b;
  void operator()(std::vector<key_type> const& keys) {
    a.assign(keys.begin(), keys.end());
    b.resize(keys.size());
    for (unsigned shift = 0; shift < 64; shift += 8) {
      std::size_t start[257] = {};
      for (std::uint64_t const k : a) ++start[(k >> shift & 255) + 1];
      for (std::size_t d = 0; d < 256; ++d) start[d + 1] += start[d];
      for (std::uint64_t const k : a) b[start[k >> shift & 255]++] = k;
      a.swap(b);
    }
    np::bench::keep(a.data());
  }
};

/// Arguments: keys, 100 * zipf exponent.
void deduplicate(benchmark::State& state) {
  auto const n = static_cast<std::size_t>(state.range(0));
  auto const keys = keys_of(n, static_cast<int>(state.range(1)), 1);
  np::embedding::key_index index;
  std::vector<std::uint32_t> inverse(n);
  radix sort;
  np::bench::beside(
      state, static_cast<double>(n),
      [&] {
        index.reset(n);
        index.insert(keys, inverse.data());
        np::bench::keep(inverse.data());
      },
      static_cast<double>(n), [&] { sort(keys); }, n == 1'000'000 && state.range(1) == 105 ? 75e6 : 0.0);
  state.counters["distinct"] = static_cast<double>(index.size());
}

/// Everything between the ids of a rank's batch and the messages, and back from messages to window slots; the messages
/// themselves are not sent. Arguments: samples, tables, bag length, ranks (this rank plays one, the others ask it for the same keys
/// that it asks them for).
void route(benchmark::State& state) {
  auto const samples = static_cast<std::size_t>(state.range(0));
  auto const tables = static_cast<std::uint32_t>(state.range(1));
  auto const bag = static_cast<std::size_t>(state.range(2));
  std::vector<np::table> specs(tables);
  std::vector<np::feature> features(tables);
  for (std::uint32_t t = 0; t < tables; ++t) {
    specs[t].name = "t" + std::to_string(t);
    features[t] = {"f" + std::to_string(t), specs[t].name};
  }
  np::embedding_layout const layout{specs, features};
  np::embedding::route_shape shape;
  shape.world_size = static_cast<std::uint32_t>(state.range(3));
  shape.tables = tables;

  std::size_t const n = samples * tables * bag;
  std::vector<key_type> const keys = keys_of(n, 105, 2);
  std::vector<np::sample_block> blocks(1);
  np::jagged& ids = blocks[0].ids;
  blocks[0].samples = samples;
  ids.features = tables;
  ids.samples = samples;
  ids.values = keys;
  for (std::size_t b = 1; b <= samples * tables; ++b) ids.offsets.push_back(static_cast<std::uint32_t>(b * bag));

  np::embedding::source_route source;
  np::embedding::owner_route owner;
  radix sort;
  np::bench::beside(
      state, static_cast<double>(n),
      [&] {
        source.build(layout, blocks, shape);
        source.land(layout, shape, false, {});
        // What rank 0 gets when all ranks ask for the same: its share, once per rank.
        owner.counts.resize(shape.world_size * shape.counts());
        for (std::size_t s = 0; s < shape.world_size; ++s) std::copy_n(source.counts.data(), shape.counts(), owner.counts.data() + s * shape.counts());
        owner.expect(shape);
        for (std::size_t s = 0; s < shape.world_size; ++s) {
          std::copy_n(source.keys.data(), source.owner_keys[0], owner.received.data() + s * source.owner_keys[0]);
          std::copy_n(source.lists.data(), source.owner_lists[0], owner.slots.data() + s * source.owner_lists[0]);
        }
        owner.build(shape, true);
        np::bench::keep(owner.slots.data());
      },
      static_cast<double>(n), [&] { sort(keys); });
}

BENCHMARK(deduplicate)
    ->ArgNames({"keys", "zipf"})
    ->ArgsProduct({{65536, 1'000'000}, {0, 80, 105, 120}})
    ->UseManualTime()
    ->Iterations(15)
    ->Unit(benchmark::kMillisecond);
BENCHMARK(route)
    ->ArgNames({"samples", "tables", "bag", "ranks"})
    ->Args({512, 26, 1, 1})
    ->Args({2048, 26, 1, 1})
    ->Args({16384, 26, 1, 1})
    ->Args({65536, 26, 1, 1})
    ->Args({16384, 26, 1, 2})
    ->Args({16384, 1, 10, 1})
    ->Args({16384, 1, 100, 1})
    ->Args({2048, 1000, 1, 1})
    ->UseManualTime()
    ->Iterations(11)
    ->Unit(benchmark::kMillisecond);

}  // namespace

BENCHMARK_MAIN();
