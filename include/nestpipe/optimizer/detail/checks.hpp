#pragma once
/// @file
/// Range checks shared by the optimizers' `check()`.

#include <nestpipe/core/error.hpp>

#include <cmath>
#include <string>
#include <string_view>

namespace nestpipe::optimizer::detail {

inline void check_at_least_zero(double value, std::string_view optimizer, std::string_view name) {
  if (!(std::isfinite(value) && value >= 0.0))
    throw config_error{"optimizer " + std::string{optimizer} + ": " + std::string{name} + " is " + std::to_string(value), {},
                       "give a finite number that is not negative"};
}

inline void check_positive(double value, std::string_view optimizer, std::string_view name) {
  if (!(std::isfinite(value) && value > 0.0))
    throw config_error{"optimizer " + std::string{optimizer} + ": " + std::string{name} + " is " + std::to_string(value), {},
                       "give a finite number above zero"};
}

inline void check_below_one(double value, std::string_view optimizer, std::string_view name) {
  if (!(value >= 0.0 && value < 1.0))
    throw config_error{"optimizer " + std::string{optimizer} + ": " + std::string{name} + " is " + std::to_string(value), {},
                       "give a number in [0, 1)"};
}

}  // namespace nestpipe::optimizer::detail
