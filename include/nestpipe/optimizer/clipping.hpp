#pragma once
/// @file
/// Gradient clipping by norm: of a row for tables, of all values together for dense parameters.

#include <nestpipe/core/config.hpp>
#include <nestpipe/core/error.hpp>

#include <cmath>

namespace nestpipe::optimizer {

/// Sum of squares in double: blocks of sum_block terms, inside a block 8 interleaved partial sums folded by halves, then the
/// blocks in order. Cannot overflow on finite input. O(n).
NESTPIPE_HOST_DEVICE inline double squared_norm(float const* values, std::size_t n) {
  constexpr std::size_t lanes = 8;
  static_assert(sum_block % lanes == 0);
  double total = 0.0;
  for (std::size_t begin = 0; begin < n; begin += sum_block) {
    std::size_t const end = n - begin < sum_block ? n : begin + sum_block;
    double partial[lanes] = {};
    std::size_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      for (std::size_t k = 0; k < lanes; ++k) {
        double const v = values[i + k];
        partial[k] += v * v;
      }
    }
    for (std::size_t k = 0; i + k < end; ++k) {
      double const v = values[i + k];
      partial[k] += v * v;
    }
    for (std::size_t k = 0; k < 4; ++k) partial[k] += partial[k + 4];
    total += (partial[0] + partial[2]) + (partial[1] + partial[3]);
  }
  return total;
}

/// Scales a gradient whose norm exceeds `max_norm` down to it. A gradient whose norm is not finite is left as it is, so that
/// what is wrong reaches the loss and its checks instead of being hidden.
struct clip_by_norm {
  double max_norm = 0.0;   ///< 0: off

  NESTPIPE_HOST_DEVICE bool active() const { return max_norm > 0.0; }

  /// Factor for a gradient with this sum of squares: exactly 1 where nothing is to be clipped.
  NESTPIPE_HOST_DEVICE float factor(double squared) const {
    if (!active() || !(squared > max_norm * max_norm) || !std::isfinite(squared)) return 1.0f;
    return static_cast<float>(max_norm / std::sqrt(squared));
  }

  /// Clips `values` in place by their own norm and returns the factor used. For one row, or for all dense parameters laid
  /// out flat. O(n).
  NESTPIPE_HOST_DEVICE float apply(float* values, std::size_t n) const {
    if (!active()) return 1.0f;
    float const f = factor(squared_norm(values, n));
    if (f != 1.0f) {
      for (std::size_t i = 0; i < n; ++i) values[i] *= f;
    }
    return f;
  }

  /// @throws config_error unless max_norm is a finite number that is not negative
  void check() const {
    require(std::isfinite(max_norm) && max_norm >= 0.0, "gradient clipping: max_norm must be a finite number that is not negative", {},
            "give 0 to switch it off");
  }
};

}  // namespace nestpipe::optimizer
