#pragma once
/// @file
/// Predicted clicks over clicks.

#include <nestpipe/metric/detail/blocked_sum.hpp>

namespace nestpipe::metric {

/// Sum of predictions over sum of labels: 1 is calibrated, above 1 predicts too much. `undefined` when the labels sum to 0. O(n).
inline double calibration(std::span<float const> scores, std::span<float const> labels, std::span<float const> weights = {}) {
  detail::check_sizes("calibration", scores.size(), labels.size(), weights.size());
  std::size_t const n = labels.size();
  double const seen = detail::weighted_sum(n, weights, [&](std::size_t i) { return static_cast<double>(labels[i]); });
  if (seen == 0.0) return undefined;
  return detail::weighted_sum(n, weights, [&](std::size_t i) { return static_cast<double>(scores[i]); }) / seen;
}

}  // namespace nestpipe::metric
