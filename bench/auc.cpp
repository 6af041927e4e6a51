// The exact AUC of a whole evaluation, beside the bare radix sort of its scores and labels; and the binned one.
//
//   bench.auc [--full] [flags of Google Benchmark]

#include "limits/beside.hpp"
#include "limits/program.hpp"
#include "limits/sorting.hpp"

#include <nestpipe/core/random.hpp>
#include <nestpipe/metric/auc.hpp>
#include <nestpipe/metric/binned_auc.hpp>

#include <string>

namespace {

namespace np = nestpipe;

struct scored {
  explicit scored(std::size_t n) : scores(n), labels(n), keys(n), work(n), other(n) {
    np::counter_random const random{1, 2, 3};
    for (std::size_t i = 0; i < n; ++i) {
      scores[i] = random.uniform(2 * i);
      labels[i] = random.uniform(2 * i + 1) < scores[i] ? 1.0f : 0.0f;
      keys[i] = np::metric::score_label::pack(scores[i], labels[i]).bits;
    }
  }
  std::vector<float> scores, labels;
  std::vector<std::uint64_t> keys, work, other;
};

void exact(benchmark::State& state, std::size_t n) {
  scored s{n};
  np::bench::beside(
      state, static_cast<double>(n),
      [&] {
        double const value = np::metric::auc(std::span<float const>{s.scores}, std::span<float const>{s.labels});
        np::bench::keep(&value);
      },
      static_cast<double>(n),
      [&] {
        s.work = s.keys;
        np::bench::radix_sort(s.work, s.other);
        np::bench::keep(s.work.data());
      });
}

void binned(benchmark::State& state, std::size_t n) {
  scored s{n};
  np::metric::binned_auc counts;
  np::bench::beside(
      state, static_cast<double>(n),
      [&] {
        counts.clear();
        counts.add(s.scores, s.labels);
        double const value = counts.value();
        np::bench::keep(&value);
      },
      static_cast<double>(n),
      [&] {
        std::vector<std::uint64_t> count(8192);
        for (std::size_t i = 0; i < n; ++i) ++count[static_cast<std::size_t>(s.scores[i] * 4096.0f) * 2 + (s.labels[i] > 0.5f ? 1 : 0)];
        np::bench::keep(count.data());
      });
}

}  // namespace

int main(int argc, char** argv) {
  return np::bench::program(argc, argv, [](bool full) {
    for (std::size_t const n : full ? std::vector<std::size_t>{10'000, 100'000, 1'000'000, 10'000'000} : std::vector<std::size_t>{1'000'000}) {
      benchmark::RegisterBenchmark(("auc/exact/samples:" + std::to_string(n)).c_str(), exact, n)->UseManualTime()->Iterations(7)->Unit(benchmark::kMillisecond);
      benchmark::RegisterBenchmark(("auc/binned/samples:" + std::to_string(n)).c_str(), binned, n)->UseManualTime()->Iterations(7)->Unit(benchmark::kMillisecond);
    }
  });
}
