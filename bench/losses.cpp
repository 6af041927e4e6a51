// Losses with their gradients, beside the exponentials and logarithms alone that they need (bare memory traffic for the squared error).
//
//   bench.losses [--full] [flags of Google Benchmark]

#include "limits/beside.hpp"
#include "limits/program.hpp"

#include <nestpipe/math/loss.hpp>

#include <cmath>
#include <string>

namespace {

namespace np = nestpipe;

struct logits {
  explicit logits(std::size_t n) : z(n), y(n), d(n) {
    for (std::size_t i = 0; i < n; ++i) {
      z[i] = 0.001f * static_cast<float>(i % 8191) - 4.0f;
      y[i] = i % 4 == 0 ? 1.0f : 0.0f;
    }
  }
  std::vector<float> z, y, d;
};

void cross_entropy(benchmark::State& state, std::size_t n) {
  logits v{n};
  np::bench::beside(
      state, static_cast<double>(n),
      [&] {
        double const sum = np::math::binary_cross_entropy<float>(n, v.z.data(), v.y.data(), 1.0f / 2048, v.d.data());
        np::bench::keep(&sum);
      },
      static_cast<double>(n),
      [&] {
        double sum = 0;
        for (std::size_t i = 0; i < n; ++i) {
          double const e = std::exp(-std::fabs(static_cast<double>(v.z[i])));
          sum += std::log1p(e);
          v.d[i] = static_cast<float>(e);
        }
        np::bench::keep(&sum);
      });
}

void squared(benchmark::State& state, std::size_t n) {
  logits v{n};
  np::bench::beside(
      state, static_cast<double>(n),
      [&] {
        double const sum = np::math::squared_error<float>(n, v.z.data(), v.y.data(), 1.0f / 2048, v.d.data());
        np::bench::keep(&sum);
      },
      static_cast<double>(n),
      [&] {
        for (std::size_t i = 0; i < n; ++i) v.d[i] = v.z[i] - v.y[i];
        np::bench::keep(v.d.data());
      });
}

}  // namespace

int main(int argc, char** argv) {
  return np::bench::program(argc, argv, [](bool full) {
    for (std::size_t const n : full ? std::vector<std::size_t>{512, 2048, 16384, 65536} : std::vector<std::size_t>{2048}) {
      benchmark::RegisterBenchmark(("loss/binary_cross_entropy/samples:" + std::to_string(n)).c_str(), cross_entropy, n)->UseManualTime()->Iterations(51);
      benchmark::RegisterBenchmark(("loss/squared_error/samples:" + std::to_string(n)).c_str(), squared, n)->UseManualTime()->Iterations(51);
    }
  });
}
