#pragma once
/// @file
/// Learning-rate schedules as values: a factor for every step, applied to every optimizer's `rate`.

#include <nestpipe/core/error.hpp>

#include <cmath>
#include <cstdint>

namespace nestpipe::optimizer {

/// Factor step / steps until step `steps`, then 1. Steps count from 1, so the first factor is 1 / steps, never 0.
struct warm_up {
  std::uint64_t steps = 0;   ///< 0: no warm-up

  double factor(std::uint64_t step) const {
    return step >= steps ? 1.0 : static_cast<double>(step) / static_cast<double>(steps);
  }
};

/// Factor 1 up to step `start`, then end + (1 - end) (1 - (step - start) / steps)^power, and `end` from start + steps on.
struct polynomial_decay {
  std::uint64_t start = 0;
  std::uint64_t steps = 0;   ///< 0: no decay
  double power = 1.0;
  double end = 0.0;          ///< last factor, in [0, 1]

  double factor(std::uint64_t step) const {
    if (steps == 0 || step <= start) return 1.0;
    if (step - start >= steps) return end;
    double const left = 1.0 - static_cast<double>(step - start) / static_cast<double>(steps);
    return end + (1.0 - end) * std::pow(left, power);
  }
};

/// Warm-up times decay; as it stands after `rate_schedule{}` the constant 1. A pure function of the step, so that resuming needs
/// no state.
struct rate_schedule {
  warm_up rise{};
  polynomial_decay fall{};

  static rate_schedule constant() { return {}; }

  /// @param step global batch number, from 1
  float factor(std::uint64_t step) const { return static_cast<float>(rise.factor(step) * fall.factor(step)); }

  /// @throws config_error when the decay's power or end factor is out of its domain
  void check() const {
    require(std::isfinite(fall.power) && fall.power > 0.0, "learning-rate decay: power must be a finite number above zero");
    require(fall.end >= 0.0 && fall.end <= 1.0, "learning-rate decay: the end factor must be in [0, 1]");
  }

  bool operator==(rate_schedule const& other) const {
    return rise.steps == other.rise.steps && fall.start == other.fall.start && fall.steps == other.fall.steps &&
           fall.power == other.fall.power && fall.end == other.fall.end;
  }
};

}  // namespace nestpipe::optimizer
