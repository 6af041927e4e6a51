#pragma once
/// @file
/// Area under the ROC curve, exact.

#include <nestpipe/exec/buffer.hpp>
#include <nestpipe/metric/detail/blocked_sum.hpp>
#include <nestpipe/metric/score_label.hpp>

#include <algorithm>
#include <cmath>
#include <numeric>
#include <vector>

namespace nestpipe::metric {

namespace detail {

/// Mann-Whitney over samples in ascending order of score; `score(i)`, `positive(i)`, `weight(i)`.
template <class Score, class Positive, class Weight>
double auc_of_sorted(std::size_t n, Score score, Positive positive, Weight weight) {
  double below = 0.0, won = 0.0, positives = 0.0;
  for (std::size_t i = 0; i < n;) {
    double tied_positive = 0.0, tied_negative = 0.0;
    float const s = score(i);
    if (std::isnan(s)) return undefined;
    for (; i < n && score(i) == s; ++i) (positive(i) ? tied_positive : tied_negative) += weight(i);
    won += tied_positive * (below + 0.5 * tied_negative);
    below += tied_negative;
    positives += tied_positive;
  }
  double const pairs = positives * below;
  return pairs > 0.0 ? won / pairs : undefined;
}

}  // namespace detail

/// AUC of pairs already in canonical order (see sort). Ties count one half. `undefined` for one class only, no samples, or a
/// score that is NaN. Exact while twice the number of pairs stays below 2^53. O(n).
inline double auc(std::span<score_label const> sorted) {
  return detail::auc_of_sorted(
      sorted.size(), [&](std::size_t i) { return sorted[i].score(); }, [&](std::size_t i) { return is_positive(sorted[i].label()); },
      [](std::size_t) { return 1.0; });
}

/// AUC in any order of samples; with weights, a pair counts the product of its weights. O(n log n).
/// @param scores (n) any real numbers  @param labels (n) positive above one half  @param weights empty, or (n) not negative
inline double auc(std::span<float const> scores, std::span<float const> labels, std::span<float const> weights = {}) {
  detail::check_sizes("auc", scores.size(), labels.size(), weights.size());
  exec::buffer<score_label> memory{2 * scores.size()};  // on huge pages where large: a first touch of small ones takes longer than the sort
  std::span<score_label> const pairs = memory.span().first(scores.size());
  for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] = score_label::pack(scores[i], labels[i]);
  if (weights.empty()) {
    return auc(std::span<score_label const>{sort(pairs, memory.span().last(scores.size()))});
  }
  std::vector<std::size_t> order(pairs.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return pairs[a].bits != pairs[b].bits ? pairs[a].bits < pairs[b].bits : weights[a] < weights[b];
  });
  return detail::auc_of_sorted(
      order.size(), [&](std::size_t i) { return pairs[order[i]].score(); },
      [&](std::size_t i) { return is_positive(pairs[order[i]].label()); },
      [&](std::size_t i) { return static_cast<double>(weights[order[i]]); });
}

}  // namespace nestpipe::metric
