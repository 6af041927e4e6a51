#pragma once
/// @file
/// Sums in double in the library's fixed order, and the checks that all metrics share.

#include <nestpipe/core/config.hpp>
#include <nestpipe/core/error.hpp>

#include <limits>
#include <span>
#include <string>
#include <string_view>

namespace nestpipe::metric {

/// The answer where there is none: no samples, or one class only where two are needed. Reports print "n/a" for it.
inline constexpr double undefined = std::numeric_limits<double>::quiet_NaN();

/// Labels above one half are positive.
inline constexpr bool is_positive(float label) { return label > 0.5f; }

namespace detail {

/// Sum of term(i) for i below n: blocks of sum_block in order, then the blocks in order.
template <class Term>
double blocked_sum(std::size_t n, Term term) {
  double total = 0.0;
  for (std::size_t begin = 0; begin < n; begin += sum_block) {
    std::size_t const end = n - begin < sum_block ? n : begin + sum_block;
    double block = 0.0;
    for (std::size_t i = begin; i < end; ++i) block += term(i);
    total += block;
  }
  return total;
}

/// Sum of w(i) term(i); without weights each is 1.
template <class Term>
double weighted_sum(std::size_t n, std::span<float const> weights, Term term) {
  if (weights.empty()) return blocked_sum(n, term);
  return blocked_sum(n, [&](std::size_t i) { return static_cast<double>(weights[i]) * term(i); });
}

inline void check_sizes(std::string_view metric, std::size_t scores, std::size_t labels, std::size_t weights) {
  if (scores == labels && (weights == 0 || weights == scores)) return;
  throw config_error{std::string{metric} + ": " + std::to_string(scores) + " scores, " + std::to_string(labels) + " labels and " +
                         std::to_string(weights) + " weights",
                     {}, "give as many of each (or no weights)"};
}

}  // namespace detail
}  // namespace nestpipe::metric
