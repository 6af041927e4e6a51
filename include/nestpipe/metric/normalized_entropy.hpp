#pragma once
/// @file
/// Log loss beside that of a model which knows the base rate only.

#include <nestpipe/metric/log_loss.hpp>

namespace nestpipe::metric {

/// log_loss over the entropy of the mean label (He et al. 2014, "Practical Lessons from Predicting Clicks on Ads at Facebook",
/// equation 1): below 1 is better than predicting the base rate. `undefined` when all labels are of one class.
inline double normalized_entropy_of(double loss, double base_rate) {
  if (!(base_rate > 0.0 && base_rate < 1.0)) return undefined;
  return loss / -(base_rate * std::log(base_rate) + (1.0 - base_rate) * std::log1p(-base_rate));
}

/// @param probabilities (n) in [0, 1]  @param labels (n) in [0, 1]  @param weights empty, or (n)
inline double normalized_entropy(std::span<float const> probabilities, std::span<float const> labels, std::span<float const> weights = {}) {
  double const loss = log_loss(probabilities, labels, weights);
  double const total = detail::weighted_sum(labels.size(), weights, [](std::size_t) { return 1.0; });
  double const positive = detail::weighted_sum(labels.size(), weights, [&](std::size_t i) { return static_cast<double>(labels[i]); });
  return normalized_entropy_of(loss, positive / total);
}

}  // namespace nestpipe::metric
