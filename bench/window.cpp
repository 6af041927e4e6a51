// Rows of a batch from their store into the window and back, beside a bare copy of rows at the same places between arrays of the
// same stride. Batches differ from call to call, so rows are in a cache only where the distribution of keys puts them there.
//
//   bench.window [--full] [flags of Google Benchmark]      up to 4 GB of memory, 9 GB with --full

#include "limits/beside.hpp"
#include "limits/program.hpp"
#include "limits/random_rows.hpp"
#include "setup/one_batch.hpp"

#include <nestpipe/engine/row_part.hpp>
#include <nestpipe/optimizer/rowwise_adagrad.hpp>
#include <nestpipe/storage/dense.hpp>
#include <nestpipe/storage/hashed.hpp>

namespace {

namespace np = nestpipe;
using np::bench::batch_options;

constexpr std::size_t batches = 6;

/// A store of one table in which every row exists, and routed batches of its keys.
template <class Storage>
struct setting {
  explicit setting(batch_options o) : part{Storage{}, np::optimizer::rowwise_adagrad{}} {
    for (std::size_t i = 0; i < batches; ++i) {
      o.seed = i + 1;
      routed.emplace_back(o);
    }
    part.open(routed[0].layout, 1, 0, 1);
    part.shape(window);
    // All rows, in portions of a window.
    constexpr np::key_type portion = 1 << 18;
    std::vector<np::key_type> keys;
    std::vector<np::storage::row_handle> handles;
    std::vector<float> rows(portion * part.row_floats(0), 0.5f);
    for (np::key_type first = 0; first < o.vocabulary; first += portion) {
      keys.clear();
      for (np::key_type k = first; k < std::min<np::key_type>(first + portion, o.vocabulary); ++k) keys.push_back(k);
      handles.assign(keys.size(), np::storage::no_row);
      part.store(0).write(keys, handles, rows.data());
    }
  }

  np::engine::row_part<Storage, np::optimizer::rowwise_adagrad> part;
  std::vector<np::bench::one_batch> routed;
  np::embedding::window window;
  np::exec::worker_pool helpers;
};

template <class Storage>
void move_rows(benchmark::State& state, batch_options const& o, bool back, double bar) {
  setting<Storage> s{o};
  std::size_t const floats = s.part.row_floats(0);
  np::bench::row_table const table{o.vocabulary, floats};
  std::size_t most = 0;
  double rows = 0;
  for (auto const& b : s.routed) {
    most = std::max(most, b.owner.table_keys(0).size());
    rows += static_cast<double>(b.owner.table_keys(0).size()) / batches;
  }
  np::huge_memory const out{most * floats * sizeof(float), "benchmark"};
  float* const to = reinterpret_cast<float*>(out.data());
  std::memset(out.data(), 0, out.size());
  std::vector<double> ours, bare;
  std::size_t turn = 0;
  for (auto _ : state) {
    // Each in its turn, on different batches: the second would find the addresses of the first translated.
    auto const& b = s.routed[turn % batches];
    auto const& c = s.routed[(turn + batches / 2) % batches];
    ++turn;
    double const read = np::bench::seconds_of([&] { s.part.retrieve(b.owner, s.window, np::engine::absent_row::initial, s.helpers); });
    double const write = np::bench::seconds_of([&] { s.part.write_back(b.owner, s.window, s.helpers); });
    std::span<std::uint64_t const> const places = c.owner.table_keys(0);
    double const bare_read = np::bench::seconds_of([&] { np::bench::gather_rows(table.data(), floats, floats, places, to); });
    double const bare_write = np::bench::seconds_of([&] { np::bench::scatter_rows(table.data(), floats, floats, places, to); });
    np::bench::keep(to);
    ours.push_back(back ? write : read);
    bare.push_back(back ? bare_write : bare_read);
    state.SetIterationTime(ours.back());
  }
  state.counters["rate"] = rows / np::bench::median(ours);
  state.counters["limit"] = rows / np::bench::median(bare);
  state.counters["ratio"] = np::bench::median(bare) / np::bench::median(ours);
  if (bar > 0) state.counters["bar"] = bar;
}

template <class Storage>
void add(std::string const& storage, batch_options o, double bar = 0) {
  o.tables = 1;
  std::string const name = storage + "/dim:" + std::to_string(o.dim) + "/rows:" + std::to_string(o.vocabulary) + "/keys:" +
                           std::to_string(o.samples) + "/zipf:" + std::to_string(o.exponent).substr(0, 4);
  benchmark::RegisterBenchmark(("retrieve/" + name).c_str(), move_rows<Storage>, o, false, bar)->UseManualTime()->Iterations(18)->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark(("write_back/" + name).c_str(), move_rows<Storage>, o, true, bar)->UseManualTime()->Iterations(18)->Unit(benchmark::kMicrosecond);
}

}  // namespace

int main(int argc, char** argv) {
  return np::bench::program(argc, argv, [](bool full) {
    using np::storage::dense;
    using hashed = np::storage::hashed<>;
    for (double const exponent : {0.0, 1.05}) {
      add<dense>("dense", {.samples = 65536, .dim = 16, .exponent = exponent, .vocabulary = 10'000'000}, 0.95);
      add<hashed>("hashed", {.samples = 65536, .dim = 16, .exponent = exponent, .vocabulary = 10'000'000}, 0.7);
    }
    if (!full) return;
    for (std::size_t const dim : {8, 16, 32, 64}) {
      for (std::uint64_t const rows : {10'000, 1'000'000, 20'000'000}) {
        for (double const exponent : {0.0, 0.8, 1.05, 1.2}) {
          if (rows * dim > 400'000'000) continue;
          add<dense>("dense", {.samples = 65536, .dim = dim, .exponent = exponent, .vocabulary = rows}, 0.95);
          add<hashed>("hashed", {.samples = 65536, .dim = dim, .exponent = exponent, .vocabulary = rows}, 0.7);
        }
      }
    }
  });
}
