#pragma once
/// @file
/// Adagrad with one accumulator per row.

#include <nestpipe/optimizer/detail/checks.hpp>
#include <nestpipe/optimizer/optimizer.hpp>

#include <cmath>

namespace nestpipe::optimizer {

namespace detail {

/// Sum of (g + decay w)^2. Blocks of sum_block terms, inside a block 16 interleaved partial sums folded by halves, then the
/// blocks in order: a fixed order that fills vector registers, the same for compile-time and run-time dims.
template <class Dim>
NESTPIPE_HOST_DEVICE float sum_of_squares(float const* __restrict__ row, float const* __restrict__ gradient, Dim dim, float decay) {
  constexpr std::size_t lanes = 16;
  static_assert(sum_block % lanes == 0);
  std::size_t const n = dim;
  float total = 0.0f;
  for (std::size_t begin = 0; begin < n; begin += sum_block) {
    std::size_t const end = n - begin < sum_block ? n : begin + sum_block;
    float partial[lanes] = {};
    std::size_t i = begin;
    for (; i + lanes <= end; i += lanes) {
      for (std::size_t k = 0; k < lanes; ++k) {
        float const g = gradient[i + k] + decay * row[i + k];
        partial[k] += g * g;
      }
    }
    for (std::size_t k = 0; i + k < end; ++k) {
      float const g = gradient[i + k] + decay * row[i + k];
      partial[k] += g * g;
    }
    for (std::size_t k = 0; k < 8; ++k) partial[k] += partial[k + 8];
    for (std::size_t k = 0; k < 4; ++k) partial[k] += partial[k + 4];
    total += (partial[0] + partial[2]) + (partial[1] + partial[3]);
  }
  return total;
}

}  // namespace detail

/// FBGEMM's EXACT_ROWWISE_ADAGRAD: g' = g + weight_decay w; s += mean over the row of g'^2; w -= rate / (sqrt(s) + eps) g'.
/// State: s, one float. eps stands outside the root, default 1e-8 as in FBGEMM.
struct rowwise_adagrad {
  double rate = 0.01;
  double eps = 1e-8;
  double initial_accumulator = 0.0;
  double weight_decay = 0.0;

  struct constants {
    float rate;
    float eps;
    float weight_decay;
  };

  NESTPIPE_HOST_DEVICE constexpr std::size_t state_size(std::size_t) const { return 1; }
  NESTPIPE_HOST_DEVICE void initialize(float* state, std::size_t) const { state[0] = static_cast<float>(initial_accumulator); }

  constants prepare(std::uint64_t, float factor) const {
    return {static_cast<float>(rate * static_cast<double>(factor)), static_cast<float>(eps), static_cast<float>(weight_decay)};
  }

  /// One update in place. O(dim). dim is at least 1.
  template <class Dim>
  NESTPIPE_HOST_DEVICE void update(float* __restrict__ row, float* __restrict__ state, float const* __restrict__ gradient,
                                   Dim dim, constants const& c) const {
    std::size_t const n = dim;
    float const s = state[0] + detail::sum_of_squares(row, gradient, dim, c.weight_decay) / static_cast<float>(n);
    state[0] = s;
    float const step = c.rate / (std::sqrt(s) + c.eps);
    for (std::size_t i = 0; i < n; ++i) row[i] -= step * (gradient[i] + c.weight_decay * row[i]);
  }

  /// @throws config_error naming the first member out of its domain
  void check() const {
    detail::check_at_least_zero(rate, "rowwise_adagrad", "rate");
    detail::check_positive(static_cast<double>(static_cast<float>(eps)), "rowwise_adagrad", "eps (as float)");
    detail::check_at_least_zero(initial_accumulator, "rowwise_adagrad", "initial_accumulator");
    detail::check_at_least_zero(weight_decay, "rowwise_adagrad", "weight_decay");
  }
};

}  // namespace nestpipe::optimizer
