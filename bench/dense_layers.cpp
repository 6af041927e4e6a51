// A stack of dense layers, forward and backward with bias and activation, beside oneDNN called alone on the same shapes: its matrix
// products without bias and activation, and its own inner products with both. The limit is the faster of the two.
//
//   bench.dense_layers [--full] [flags of Google Benchmark]

#include "limits/arithmetic.hpp"
#include "limits/beside.hpp"
#include "limits/onednn_layers.hpp"
#include "limits/program.hpp"

#include <nestpipe/math/default.hpp>
#include <nestpipe/math/mlp.hpp>

#include <omp.h>

#include <string>

namespace {

namespace np = nestpipe;
namespace math = nestpipe::math;

struct stack {
  std::string name;
  std::vector<std::size_t> widths;  ///< inputs, then outputs of each layer
  bool input_gradient;
};

template <class Backend>
class ours {
 public:
  ours(std::size_t n, stack const& s)
      : n_{n}, input_gradient_{s.input_gradient},
        mlp_{s.widths[0], std::span{s.widths}.subspan(1), math::activation::relu, math::activation::identity} {
    float* const p = parameters_.reserve(mlp_.size());
    for (std::size_t i = 0; i < mlp_.size(); ++i) p[i] = 0.01f * static_cast<float>(i % 13) - 0.06f;
    float* const x = x_.reserve(n * mlp_.inputs());
    for (std::size_t i = 0; i < n * mlp_.inputs(); ++i) x[i] = 0.01f * static_cast<float>(i % 17);
    float* const d = d_.reserve(n * mlp_.outputs());
    for (std::size_t i = 0; i < n * mlp_.outputs(); ++i) d[i] = 0.01f * static_cast<float>(i % 19);
    dx_.reserve(n * mlp_.inputs());
    gradients_.reserve(mlp_.size());
  }

  void forward() { mlp_.forward(parameters_.data(), n_, x_.data(), mlp_.inputs(), ws_); }
  void backward_inputs() {
    mlp_.backward_inputs(parameters_.data(), n_, d_.data(), mlp_.outputs(), ws_, input_gradient_ ? dx_.data() : nullptr, mlp_.inputs());
  }
  void backward_weights() { mlp_.backward_weights(n_, x_.data(), mlp_.inputs(), ws_, gradients_.data()); }
  void operator()() {
    forward();
    backward_inputs();
    backward_weights();
  }

 private:
  std::size_t n_;
  bool input_gradient_;
  math::mlp<float, Backend> mlp_;
  typename math::mlp<float, Backend>::workspace ws_;
  math::scratch<float> parameters_, x_, d_, dx_, gradients_;
};

double operations(std::size_t n, stack const& s) {
  double total = 0;
  for (std::size_t l = 1; l < s.widths.size(); ++l)
    total += 2.0 * static_cast<double>(n * s.widths[l - 1] * s.widths[l]) * (l > 1 || s.input_gradient ? 3 : 2);
  return total;
}

/// Rates in operations of the matrix products per second.
template <class Backend>
void dense(benchmark::State& state, std::size_t n, stack const& s, double bar) {
  omp_set_num_threads(1);
  ours<Backend> mine{n, s};
  np::bench::onednn_products products{n, s.widths, s.input_gradient};
  np::bench::onednn_layers layers{n, s.widths, s.input_gradient, false};
  np::bench::onednn_layers free_layers{n, s.widths, s.input_gradient, true};
  std::vector<double> t[4], half[3];
  for (int warm = 0; warm < 2; ++warm) {
    mine();
    products();
    layers();
    free_layers();
  }
  for (auto _ : state) {
    half[0].push_back(np::bench::seconds_of([&] { mine.forward(); }));
    half[1].push_back(np::bench::seconds_of([&] { mine.backward_inputs(); }));
    half[2].push_back(np::bench::seconds_of([&] { mine.backward_weights(); }));
    t[0].push_back(half[0].back() + half[1].back() + half[2].back());
    t[1].push_back(np::bench::seconds_of(products));
    t[2].push_back(np::bench::seconds_of(layers));
    t[3].push_back(np::bench::seconds_of(free_layers));
    state.SetIterationTime(t[0].back());
  }
  double const work = operations(n, s);
  double rate[4];
  for (std::size_t i = 0; i < 4; ++i) rate[i] = work / np::bench::median(t[i]);
  double const limit = std::max({rate[1], rate[2], rate[3]});
  state.counters["rate"] = rate[0];
  state.counters["limit"] = limit;
  state.counters["ratio"] = rate[0] / limit;
  if (bar > 0) state.counters["bar"] = bar;
  state.counters["products"] = rate[1];
  state.counters["layers"] = rate[2];
  state.counters["free_layout"] = rate[3];
  state.counters["fma_peak"] = np::bench::fma_peak(3);
  state.counters["forward_us"] = 1e6 * np::bench::median(half[0]);
  state.counters["inputs_us"] = 1e6 * np::bench::median(half[1]);
  state.counters["weights_us"] = 1e6 * np::bench::median(half[2]);
}

template <class Backend>
void add(std::size_t n, stack const& s, double bar = 0) {
  benchmark::RegisterBenchmark((std::string{"dense_layers/"} + Backend::name + "/" + s.name + "/samples:" + std::to_string(n)).c_str(),
                               dense<Backend>, n, s, bar)
      ->UseManualTime()->Iterations(n > 4096 ? 7 : 15)->Unit(benchmark::kMicrosecond);
}

}  // namespace

int main(int argc, char** argv) {
  return np::bench::program(argc, argv, [](bool full) {
    stack const bottom{"13-512-256-64", {13, 512, 256, 64}, false};
    stack const top{"415-512-256-1", {415, 512, 256, 1}, true};
    stack const square{"1024-1024-1024", {1024, 1024, 1024}, true};
    for (std::size_t const n : {512, 2048}) {
      for (stack const& s : {bottom, top}) add<math::onednn>(n, s, 0.85);
    }
    if (!full) return;
    for (std::size_t const n : {256, 1024, 4096, 16384}) {
      for (stack const& s : {bottom, top, square}) add<math::onednn>(n, s, 0.85);
    }
#if defined(NESTPIPE_WITH_EIGEN)
    for (stack const& s : {bottom, top, square}) add<math::eigen>(2048, s);
#endif
  });
}
