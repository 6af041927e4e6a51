#pragma once
/// @file
/// Mean logarithmic loss of probabilities.

#include <nestpipe/metric/detail/blocked_sum.hpp>

#include <algorithm>
#include <cmath>

namespace nestpipe::metric {

/// Probabilities are kept within [least_probability, 1 - least_probability] before the logarithm, so that one certain and wrong
/// prediction costs 16.1 and not infinity.
inline constexpr double least_probability = 1e-7;

/// -(y log p + (1 - y) log(1 - p)); NaN when p is.
inline double log_loss_of(float probability, float label) {
  double const p = static_cast<double>(probability);
  if (std::isnan(p)) return p;
  double const clamped = std::clamp(p, least_probability, 1.0 - least_probability);
  double const y = static_cast<double>(label);
  return -(y * std::log(clamped) + (1.0 - y) * std::log1p(-clamped));
}

/// Mean over samples, weighted where weights are given; `undefined` for no samples. O(n).
/// @param probabilities (n) in [0, 1]  @param labels (n) in [0, 1]  @param weights empty, or (n)
inline double log_loss(std::span<float const> probabilities, std::span<float const> labels, std::span<float const> weights = {}) {
  detail::check_sizes("log_loss", probabilities.size(), labels.size(), weights.size());
  std::size_t const n = labels.size();
  double const total = detail::weighted_sum(n, weights, [](std::size_t) { return 1.0; });
  if (!(total > 0.0)) return undefined;
  return detail::weighted_sum(n, weights, [&](std::size_t i) { return log_loss_of(probabilities[i], labels[i]); }) / total;
}

}  // namespace nestpipe::metric
