// Pooled look-up of a micro-batch and its transpose, beside the same sums over rows whose places are known.
//
//   bench.pooling [--full] [flags of Google Benchmark]

#include "limits/beside.hpp"
#include "limits/pooled_rows.hpp"
#include "limits/program.hpp"
#include "setup/one_batch.hpp"

#include <nestpipe/embedding/pooling.hpp>

namespace {

namespace np = nestpipe;
using np::bench::batch_options;
using np::bench::one_batch;

struct floats {
  explicit floats(std::size_t n) : memory{n * sizeof(float), "benchmark"} {
    for (std::size_t i = 0; i < n; ++i) data()[i] = 0.25f;
  }
  float* data() const { return reinterpret_cast<float*>(memory.data()); }
  np::huge_memory memory;
};

void forward(benchmark::State& state, batch_options const& o) {
  one_batch const b{o};
  floats const landing{b.source.landing_floats}, pooled{o.samples * b.layout.pooled_width()};
  np::embedding::pooler pooler;
  std::vector<std::uint32_t> place, to;
  for (std::uint32_t const e : b.micro().occurrence_entry.span()) place.push_back(b.micro().landing()[e]);
  for (std::size_t f = 0; f < o.tables; ++f)
    for (std::size_t i = 0; i < o.samples; ++i) to.push_back(static_cast<std::uint32_t>(i * b.layout.pooled_width() + b.layout.column(f)));
  double const rows = static_cast<double>(place.size());
  np::bench::beside(
      state, rows, [&] { pooler.forward(b.layout, b.ids(), b.micro(), landing.data(), pooled.data(), {}); }, rows,
      [&] { np::bench::sum_rows_at(landing.data(), o.dim, place, b.ids().offsets, to, pooled.data()); });
}

void backward(benchmark::State& state, batch_options const& o) {
  one_batch const b{o};
  floats const landing{b.source.landing_floats}, d_pooled{o.samples * b.layout.pooled_width()}, out{b.micro().floats};
  np::embedding::pooler pooler;
  std::vector<std::uint32_t> place;
  for (auto const& use : b.micro().uses.span())
    place.push_back(static_cast<std::uint32_t>(use.sample * b.layout.pooled_width() + b.layout.column(use.feature)));
  double const rows = static_cast<double>(place.size());
  np::bench::beside(
      state, rows, [&] { pooler.backward(b.layout, b.ids(), b.micro(), landing.data(), d_pooled.data(), {}, out.data()); }, rows,
      [&] { np::bench::sum_rows_at(d_pooled.data(), o.dim, place, b.micro().entry_start.span(), b.micro().entry_offset.span(), out.data()); });
}

void add(batch_options const& o) {
  std::string const name = "/dim:" + std::to_string(o.dim) + "/bag:" + std::to_string(o.bag) + "/batch:" + std::to_string(o.samples) +
                           "/tables:" + std::to_string(o.tables) + "/zipf:" + std::to_string(o.exponent).substr(0, 4) +
                           "/vocabulary:" + std::to_string(o.vocabulary);
  benchmark::RegisterBenchmark(("pooling_forward" + name).c_str(), forward, o)->UseManualTime()->Iterations(25)->Unit(benchmark::kMicrosecond);
  benchmark::RegisterBenchmark(("pooling_backward" + name).c_str(), backward, o)->UseManualTime()->Iterations(25)->Unit(benchmark::kMicrosecond);
}

}  // namespace

int main(int argc, char** argv) {
  return np::bench::program(argc, argv, [](bool full) {
    for (std::size_t const dim : {16, 64}) add({.dim = dim});
    add({.samples = 16384, .dim = 16});
    add({.samples = 2048, .tables = 8, .dim = 64, .bag = 20});
    add({.samples = 2048, .tables = 8, .dim = 64, .bag = 20, .exponent = 0});
    add({.samples = 65536, .tables = 1, .dim = 128, .bag = 10, .exponent = 0});
    if (!full) return;
    for (std::size_t const dim : {8, 16, 32, 64, 128}) {
      for (std::size_t const bag : {1, 10, 100}) {
        for (double const exponent : {0.0, 0.8, 1.05, 1.2}) add({.samples = 2048, .tables = 4, .dim = dim, .bag = bag, .exponent = exponent});
      }
      for (std::size_t const samples : {512, 4096, 16384, 65536}) add({.samples = samples, .dim = dim});
      for (std::size_t const tables : {1, 100, 1000}) add({.samples = 2048, .tables = tables, .dim = dim});
    }
  });
}
