#pragma once
/// @file
/// Root of the mean squared error.

#include <nestpipe/metric/detail/blocked_sum.hpp>

#include <cmath>

namespace nestpipe::metric {

/// sqrt(mean (score - label)^2), weighted where weights are given; `undefined` for no samples. O(n).
inline double rmse(std::span<float const> scores, std::span<float const> labels, std::span<float const> weights = {}) {
  detail::check_sizes("rmse", scores.size(), labels.size(), weights.size());
  std::size_t const n = labels.size();
  double const total = detail::weighted_sum(n, weights, [](std::size_t) { return 1.0; });
  if (!(total > 0.0)) return undefined;
  double const squares = detail::weighted_sum(n, weights, [&](std::size_t i) {
    double const d = static_cast<double>(scores[i]) - static_cast<double>(labels[i]);
    return d * d;
  });
  return std::sqrt(squares / total);
}

}  // namespace nestpipe::metric
