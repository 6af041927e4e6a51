#pragma once
/// @file
/// Losses over logits. Each returns the sum over all elements in double (blocks of 64, then over blocks) and writes
/// the gradient of `scale` times that sum.

#include <nestpipe/core/config.hpp>

#include <algorithm>
#include <cmath>

namespace nestpipe::math {

/// Sum over count elements of max(z, 0) - z y + log(1 + exp(-|z|)); labels in [0, 1] (soft labels are fine).
/// d = scale (sigmoid(z) - y). Finite for every finite z.
template <class Scalar>
double binary_cross_entropy(std::size_t count, Scalar const* logits, Scalar const* labels, Scalar scale, Scalar* d) {
  double total = 0;
  for (std::size_t i0 = 0; i0 < count; i0 += sum_block) {
    double part = 0;
    for (std::size_t i = i0; i < std::min(count, i0 + sum_block); ++i) {
      double const z = static_cast<double>(logits[i]);
      double const y = static_cast<double>(labels[i]);
      double const e = std::exp(-std::abs(z));
      part += (z <= 0 ? 0.0 : z) - z * y + std::log1p(e);
      double const p = (z >= 0 ? 1.0 : e) / (1.0 + e);
      d[i] = static_cast<Scalar>(static_cast<double>(scale) * (p - y));
    }
    total += part;
  }
  return total;
}

/// Sum over count elements of (z - y)^2, without a factor 1/2. d = 2 scale (z - y).
template <class Scalar>
double squared_error(std::size_t count, Scalar const* values, Scalar const* labels, Scalar scale, Scalar* d) {
  double total = 0;
  for (std::size_t i0 = 0; i0 < count; i0 += sum_block) {
    double part = 0;
    for (std::size_t i = i0; i < std::min(count, i0 + sum_block); ++i) {
      double const r = static_cast<double>(values[i]) - static_cast<double>(labels[i]);
      part += r * r;
      d[i] = static_cast<Scalar>(2.0 * static_cast<double>(scale) * r);
    }
    total += part;
  }
  return total;
}

}  // namespace nestpipe::math
