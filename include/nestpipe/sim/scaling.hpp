#pragma once
/// @file
/// Laws through two points, for sizes beyond what was measured.

#include <nestpipe/core/error.hpp>

#include <cmath>

namespace nestpipe::sim {

/// y = scale * x^exponent.
struct power_law {
  double scale = 0;
  double exponent = 0;
  double operator()(double x) const { return scale * std::pow(x, exponent); }
};

/// y = base + slope * x.
struct straight_line {
  double base = 0;
  double slope = 0;
  double operator()(double x) const { return base + slope * x; }
};

/// @throws config_error unless the two points are positive and different in x
inline power_law fit_power(double x0, double y0, double x1, double y1) {
  require(x0 > 0 && x1 > 0 && y0 > 0 && y1 > 0 && x0 != x1, "a power law needs two positive points");
  double const exponent = std::log(y1 / y0) / std::log(x1 / x0);
  return {y0 / std::pow(x0, exponent), exponent};
}

/// @throws config_error unless the two points differ in x
inline straight_line fit_line(double x0, double y0, double x1, double y1) {
  require(x0 != x1, "a line needs two different points");
  double const slope = (y1 - y0) / (x1 - x0);
  return {y0 - slope * x0, slope};
}

}  // namespace nestpipe::sim
