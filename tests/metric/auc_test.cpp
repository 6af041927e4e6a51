#include <doctest/doctest.h>

#include <nestpipe/core/random.hpp>
#include <nestpipe/metric/auc.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>
#include <vector>

namespace m = nestpipe::metric;
using floats = std::vector<float>;

namespace {

/// By its definition, in O(n^2).
double naive_auc(floats const& scores, floats const& labels, floats const& weights = {}) {
  double won = 0, pairs = 0;
  for (std::size_t p = 0; p < scores.size(); ++p) {
    if (labels[p] <= 0.5f) continue;
    for (std::size_t n = 0; n < scores.size(); ++n) {
      if (labels[n] > 0.5f) continue;
      double const w = weights.empty() ? 1.0 : static_cast<double>(weights[p]) * static_cast<double>(weights[n]);
      pairs += w;
      won += scores[p] > scores[n] ? w : scores[p] == scores[n] ? 0.5 * w : 0.0;
    }
  }
  return won / pairs;
}

struct sample {
  floats scores, labels, weights;
};
/// @param levels  scores take this many values: few make many ties
sample random_sample(std::size_t n, std::uint64_t levels, std::uint64_t seed) {
  sample s;
  nestpipe::counter_random const random{seed, n, levels};
  for (std::size_t i = 0; i < n; ++i) {
    float const level = static_cast<float>(random.below(3 * i, levels));
    s.scores.push_back(level / static_cast<float>(levels) - 0.25f);   // negative ones too
    s.labels.push_back(random.uniform(3 * i + 1) < 0.2f + 0.6f * s.scores.back() ? 1.0f : 0.0f);
    s.weights.push_back(static_cast<float>(1 + random.below(3 * i + 2, 7)));
  }
  return s;
}

}  // namespace

TEST_CASE("exact AUC equals the definition, ties included") {
  for (std::uint64_t const levels : {1, 2, 3, 10, 1000, 1000000}) {
    for (std::size_t const n : {2, 3, 10, 101, 1000}) {
      CAPTURE(levels);
      CAPTURE(n);
      sample s = random_sample(n, levels, 1);
      s.labels[0] = 0.0f;
      s.labels[1] = 1.0f;
      CHECK(m::auc(s.scores, s.labels) == naive_auc(s.scores, s.labels));
      CHECK(m::auc(s.scores, s.labels, s.weights) == doctest::Approx(naive_auc(s.scores, s.labels, s.weights)).epsilon(1e-12));
    }
  }
}

TEST_CASE("values by hand") {
  CHECK(m::auc(floats{0.1f, 0.4f, 0.35f, 0.8f}, floats{0, 0, 1, 1}) == 0.75);   // scikit-learn's example
  CHECK(m::auc(floats{1, 2, 3}, floats{0, 0, 1}) == 1.0);
  CHECK(m::auc(floats{3, 2, 1}, floats{0, 0, 1}) == 0.0);
  CHECK(m::auc(floats{5, 5, 5}, floats{0, 1, 1}) == 0.5);
  CHECK(m::auc(floats{-0.0f, 0.0f}, floats{0, 1}) == 0.5);
  float const inf = std::numeric_limits<float>::infinity();
  CHECK(m::auc(floats{-inf, inf, 0}, floats{0, 1, 0}) == 1.0);
}

TEST_CASE("weights count like copies") {
  floats const scores{0.1f, 0.2f, 0.3f}, labels{1, 0, 1};
  CHECK(m::auc(scores, labels, floats{1, 1, 3}) == m::auc(floats{0.1f, 0.2f, 0.3f, 0.3f, 0.3f}, floats{1, 0, 1, 1, 1}));
}

TEST_CASE("where there is no answer it is NaN") {
  CHECK(std::isnan(m::auc(floats{}, floats{})));
  CHECK(std::isnan(m::auc(floats{0.5f, 0.6f}, floats{1, 1})));
  CHECK(std::isnan(m::auc(floats{0.5f, 0.6f}, floats{0, 0})));
  CHECK(std::isnan(m::auc(floats{0.5f, std::nanf("")}, floats{0, 1})));
  CHECK_THROWS_WITH_AS(m::auc(floats{0.5f}, floats{}), doctest::Contains("1 scores, 0 labels"), nestpipe::config_error);
  CHECK_THROWS_AS(m::auc(floats{0.5f}, floats{1}, floats{1, 2}), nestpipe::config_error);
}

TEST_CASE("the order of samples does not matter, bit by bit") {
  sample s = random_sample(5000, 100, 3);
  double const plain = m::auc(s.scores, s.labels), weighted = m::auc(s.scores, s.labels, s.weights);
  sample r = s;
  std::vector<std::size_t> order(5000);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [](std::size_t a, std::size_t b) { return nestpipe::mix64(a) < nestpipe::mix64(b); });
  for (std::size_t i = 0; i < order.size(); ++i) {
    r.scores[i] = s.scores[order[i]];
    r.labels[i] = s.labels[order[i]];
    r.weights[i] = s.weights[order[i]];
  }
  CHECK(m::auc(r.scores, r.labels) == plain);
  CHECK(m::auc(r.scores, r.labels, r.weights) == weighted);
}

TEST_CASE("packed pairs keep their values, and sort as numbers do") {
  floats const values{-std::numeric_limits<float>::infinity(), -3.5f, -1e-30f, 0.0f, 1e-40f, 0.5f, 1.0f, std::numeric_limits<float>::infinity()};
  std::vector<m::score_label> pairs, scratch;
  for (float const score : values) {
    for (float const label : {-2.0f, 0.0f, 1.0f}) {
      m::score_label const p = m::score_label::pack(score, label);
      CHECK(p.score() == score);
      CHECK(p.label() == label);
      pairs.push_back(p);
    }
  }
  std::vector<m::score_label> shuffled = pairs;
  std::reverse(shuffled.begin(), shuffled.end());
  std::swap(shuffled[3], shuffled[20]);
  m::sort(shuffled, scratch);
  for (std::size_t i = 0; i < pairs.size(); ++i) CHECK(shuffled[i].bits == pairs[i].bits);
  CHECK(std::isnan(m::score_label::pack(-std::nanf(""), 0.0f).score()));
}
