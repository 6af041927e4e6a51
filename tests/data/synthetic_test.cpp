#include "data_conformance.hpp"

#include <nestpipe/data/synthetic.hpp>

#include <map>

using namespace nestpipe;
using namespace nestpipe::data;

TEST_CASE("zipf: the frequencies are those of the law") {
  for (double const s : {0.0, 0.5, 1.0, 1.05, 2.0}) {
    CAPTURE(s);
    constexpr std::uint64_t n = 50;
    zipf const draw{n, s};
    std::vector<double> counts(n);
    constexpr int draws = 200000;
    for (std::uint64_t i = 0; i < draws; ++i) {
      std::uint64_t const rank = draw(counter_random{9, 1, i}, 0);
      REQUIRE(rank < n);
      counts[rank] += 1;
    }
    double norm = 0;
    for (std::uint64_t r = 0; r < n; ++r) norm += std::pow(static_cast<double>(r + 1), -s);
    double chi2 = 0;
    for (std::uint64_t r = 0; r < n; ++r) {
      double const want = draws * std::pow(static_cast<double>(r + 1), -s) / norm;
      chi2 += (counts[r] - want) * (counts[r] - want) / want;
    }
    CHECK(chi2 < 95);  // 49 degrees of freedom: exceeded with probability 1e-4
  }
  CHECK(zipf{1, 1.0}(counter_random{1, 2, 3}, 0) == 0);
  std::uint64_t largest = 0;
  for (std::uint64_t i = 0; i < 10000; ++i) largest = std::max(largest, zipf{std::uint64_t{1} << 40, 0.2}(counter_random{1, 2, i}, 0));
  CHECK(largest > (std::uint64_t{1} << 38));
  CHECK_THROWS_AS((zipf{0, 1.0}), config_error);
  CHECK_THROWS_AS((zipf{1, -1.0}), config_error);
}

TEST_CASE("a row is a function of seed and number only") {
  synthetic a{{.rows = 100}};
  synthetic b{{.rows = 50, .first_row = 50}};
  auto const all = data_conformance::read(a, 100, 100).samples;
  auto const half = data_conformance::read(b, 7, 7).samples;
  for (std::size_t i = 0; i < 50; ++i) {
    CHECK(half[i].ids == all[50 + i].ids);
    CHECK(half[i].dense == all[50 + i].dense);
    CHECK(half[i].labels == all[50 + i].labels);
  }
  synthetic c{{.rows = 100, .seed = 2}};
  CHECK(data_conformance::read(c, 100, 100).samples != all);
}

TEST_CASE("shape: names, key ranges, bag sizes, share of missing") {
  synthetic d{{.rows = 5000, .features = 3, .dense = 2, .vocabularies = {10, 1000, 1}, .max_bag = 4, .missing = 0.25}};
  CHECK(d.schema().features == std::vector<std::string>{"cat_0", "cat_1", "cat_2"});
  auto const samples = data_conformance::read(d, 5000, 5000).samples;
  double empty = 0;
  std::map<std::size_t, int> sizes;
  for (auto const& s : samples) {
    for (std::size_t f = 0; f < 3; ++f) {
      empty += s.ids[f].empty() ? 1 : 0;
      ++sizes[s.ids[f].size()];
      for (key_type const key : s.ids[f]) CHECK(key < (f == 0 ? 10 : f == 1 ? 1000 : 1));
    }
    for (float const x : s.dense) CHECK((x >= 0 && x < 3));
  }
  CHECK(empty / 15000 == doctest::Approx(0.25).epsilon(0.1));
  CHECK(sizes.size() == 5);
  CHECK(sizes.rbegin()->first == 4);
  CHECK_THROWS_AS((synthetic{{.features = 2, .vocabularies = {1}}}), config_error);
  CHECK_THROWS_AS((synthetic{{.max_bag = 0}}), config_error);
  CHECK_THROWS_AS((synthetic{{.missing = 1.5}}), config_error);
}

TEST_CASE("the teacher's AUC on its own labels is the best AUC, and near 0.8") {
  synthetic d{{.rows = 100000}};
  synthetic::block block;
  sample_block samples;
  std::vector<std::pair<double, float>> scored;
  double sum_p = 0;
  while (d.frame(block, 4096) > 0) {
    d.parse(block, 0, 4096, samples);
    for (std::size_t i = 0; i < samples.samples; ++i) {
      scored.emplace_back(d.probability(samples.row[i]), samples.labels[i]);
      sum_p += scored.back().first;
    }
  }
  std::sort(scored.begin(), scored.end());
  double negatives = 0;
  double positives = 0;
  double good = 0;
  for (auto const& [p, label] : scored) {
    if (label > 0) {
      ++positives;
      good += negatives;
    } else {
      ++negatives;
    }
  }
  double const best = d.best_auc();
  CHECK(best > 0.78);
  CHECK(best < 0.84);
  CHECK(good / (positives * negatives) == doctest::Approx(best).epsilon(0.006));
  CHECK(positives == doctest::Approx(sum_p).epsilon(0.02));  // calibrated
  CHECK(d.best_auc() == best);
}

TEST_CASE("the best AUC of a stream without signal is one half") {
  CHECK(synthetic{{.key_effect = 0, .dense_effect = 0}}.best_auc(1000) == doctest::Approx(0.5));
}

TEST_CASE("effects of keys: common ones matter more, and the mean is zero") {
  synthetic const d;
  double sum = 0;
  double head = 0;
  double tail = 0;
  for (std::size_t f = 0; f < 26; ++f) {
    for (key_type key = 0; key < 4096; ++key) {
      double const e = d.effect(f, key);
      sum += e;
      (key < 8 ? head : tail) += std::fabs(e) / (key < 8 ? 8 : 4088);
    }
  }
  CHECK(std::fabs(sum / (26 * 4096)) < 0.01);
  CHECK(head > 3 * tail);
}
