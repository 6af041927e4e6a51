// One optimizer update per row of a window, beside a bare read-modify-write of the same rows with the same gradients.
//
//   bench.update [--full] [flags of Google Benchmark]

#include "limits/beside.hpp"
#include "limits/program.hpp"
#include "limits/random_rows.hpp"
#include "setup/one_batch.hpp"

#include <nestpipe/engine/row_part.hpp>
#include <nestpipe/optimizer/adagrad.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/optimizer/ftrl.hpp>
#include <nestpipe/optimizer/momentum.hpp>
#include <nestpipe/optimizer/rowwise_adagrad.hpp>
#include <nestpipe/optimizer/sgd.hpp>
#include <nestpipe/storage/dense.hpp>

namespace {

namespace np = nestpipe;
using np::bench::batch_options;

/// Adds to embedding and state, `stride` floats, of every row in the order of the window.
void update_all(float* rows, std::size_t stride, std::size_t dim, std::size_t n, float const* gradients, float a) {
  np::with_fixed_size(dim, [&](auto width) {
    for (std::size_t i = 0; i < n; ++i) {
      float* const row = rows + i * stride;
      float const* const g = gradients + i * width;
      for (std::size_t k = 0; k < stride; ++k) row[k] += a * g[k < width ? k : width - 1];
    }
  });
}

template <class Optimizer>
void update(benchmark::State& state, batch_options const& o, double bar) {
  np::bench::one_batch const b{o};
  Optimizer const optimizer{};
  np::engine::row_part<np::storage::dense, Optimizer> part{np::storage::dense{}, optimizer};
  part.open(b.layout, 1, 0, 1);
  np::embedding::window w;
  part.shape(w);
  np::exec::worker_pool helpers;
  part.retrieve(b.owner, w, np::engine::absent_row::initial, helpers);
  double rows = 0;
  for (std::size_t t = 0; t < w.tables(); ++t) {
    rows += static_cast<double>(w.slots(t));
    for (std::size_t i = 0; i < w.slots(t) * w.dim(t); ++i) w.gradients(t)[i] = 1e-3f * static_cast<float>(i % 7);
  }
  // What fold() leaves behind is set before each call, as in a step: one byte a row, part of the figure.
  np::bench::beside(
      state, rows,
      [&] {
        for (std::size_t t = 0; t < w.tables(); ++t) std::memset(w.has_gradient(t).data(), 1, w.slots(t));
        part.update(b.owner, w, nullptr, np::exec::portion::early, {}, 1, 1.0f, helpers);
      },
      rows,
      [&] {
        for (std::size_t t = 0; t < w.tables(); ++t) {
          np::with_fixed_size(w.row_floats(t), [&](auto stride) { update_all(w.rows(t), stride, w.dim(t), w.slots(t), w.gradients(t), 1e-6f); });
        }
        np::bench::keep(w.rows(0));
      },
      bar);
}

template <class Optimizer>
void add(std::string const& name, batch_options const& o, double bar = 0) {
  benchmark::RegisterBenchmark(("update/" + name + "/dim:" + std::to_string(o.dim) + "/batch:" + std::to_string(o.samples) + "/tables:" +
                                std::to_string(o.tables) + "/zipf:" + std::to_string(o.exponent).substr(0, 4)).c_str(),
                               update<Optimizer>, o, bar)
      ->UseManualTime()->Iterations(15)->Unit(benchmark::kMicrosecond);
}

}  // namespace

int main(int argc, char** argv) {
  return np::bench::program(argc, argv, [](bool full) {
    namespace opt = np::optimizer;
    for (std::size_t const dim : {16, 64}) {
      for (std::size_t const samples : {2048, 16384, 65536}) add<opt::rowwise_adagrad>("rowwise_adagrad", {.samples = samples, .dim = dim}, 0.9);
    }
    for (std::size_t const dim : {16, 64}) {
      add<opt::sgd>("sgd", {.dim = dim});
      add<opt::momentum>("momentum", {.dim = dim});
      add<opt::adagrad>("adagrad", {.dim = dim});
      add<opt::adam>("adam", {.dim = dim});
      add<opt::ftrl>("ftrl", {.dim = dim});
    }
    if (!full) return;
    for (std::size_t const dim : {8, 16, 32, 64, 128}) {
      for (double const exponent : {0.0, 0.8, 1.05, 1.2}) add<opt::rowwise_adagrad>("rowwise_adagrad", {.dim = dim, .exponent = exponent}, 0.9);
      for (std::size_t const samples : {512, 65536}) add<opt::rowwise_adagrad>("rowwise_adagrad", {.samples = samples, .tables = 8, .dim = dim}, 0.9);
      for (std::size_t const tables : {1, 1000}) add<opt::rowwise_adagrad>("rowwise_adagrad", {.tables = tables, .dim = dim, .vocabulary = 100'000}, 0.9);
    }
  });
}
