#pragma once
/// @file
/// Zipf-distributed ranks without tables.

#include <nestpipe/core/error.hpp>
#include <nestpipe/core/random.hpp>

#include <cmath>
#include <cstdint>

namespace nestpipe::data {

/// Rank k in [0, n) with probability proportional to (k + 1)^-s, by rejection-inversion
/// (Hoermann and Derflinger, ACM TOMACS 6(3), 1996). Constant expected time, no memory.
class zipf {
 public:
  zipf() = default;
  /// @param n  number of ranks, at least 1    @param s  exponent, at least 0
  zipf(std::uint64_t n, double s) : n_{static_cast<double>(n)}, s_{s}, one_minus_s_{1 - s} {
    require(n >= 1, "a zipf distribution needs at least one value");
    require(s >= 0 && s < 50, "the zipf exponent must be from 0 to 50");
    low_ = integral(1.5) - 1;
    high_ = integral(n_ + 0.5);
    shortcut_ = 2 - inverse(integral(2.5) - density(2));
  }

  /// @param random  stream of this draw    @param first  its first counter; a draw may use several from there on
  std::uint64_t operator()(counter_random const& random, std::uint64_t first) const {
    for (std::uint64_t i = first;; ++i) {
      double const u = high_ + random.uniform_double(i) * (low_ - high_);
      double const x = inverse(u);
      double k = std::floor(x + 0.5);
      if (k < 1) k = 1;
      if (k > n_) k = n_;
      if (k - x <= shortcut_ || u >= integral(k + 0.5) - density(k)) return static_cast<std::uint64_t>(k) - 1;
    }
  }

 private:
  double density(double x) const { return std::exp(-s_ * std::log(x)); }
  /// Integral of the density, up to a constant: (x^(1-s) - 1) / (1-s), or log x.
  double integral(double x) const {
    double const log_x = std::log(x);
    double const t = one_minus_s_ * log_x;
    return std::fabs(t) > 1e-8 ? std::expm1(t) / one_minus_s_ : log_x * (1 + 0.5 * t);
  }
  double inverse(double u) const {
    double const t = u * one_minus_s_;
    if (t <= -1) return n_;
    return std::exp(std::fabs(t) > 1e-8 ? std::log1p(t) / one_minus_s_ : u * (1 - 0.5 * t));
  }

  double n_ = 1;
  double s_ = 1;
  double one_minus_s_ = 0;
  double low_ = 0;
  double high_ = 0;
  double shortcut_ = 0;
};

}  // namespace nestpipe::data
