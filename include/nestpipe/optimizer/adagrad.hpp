#pragma once
/// @file
/// Adagrad, one accumulator per element.

#include <nestpipe/optimizer/detail/checks.hpp>
#include <nestpipe/optimizer/optimizer.hpp>

#include <cmath>

namespace nestpipe::optimizer {

/// Duchi, Hazan, Singer 2011. g' = g + weight_decay w; s += g'^2; w -= rate g' / (sqrt(s) + eps). State: s, dim floats.
/// eps stands outside the root and its default is 1e-10 as in torch.optim.Adagrad; FBGEMM places it likewise but uses 1e-8.
struct adagrad {
  double rate = 0.01;
  double eps = 1e-10;
  double initial_accumulator = 0.0;
  double weight_decay = 0.0;

  struct constants {
    float rate;
    float eps;
    float weight_decay;
  };

  NESTPIPE_HOST_DEVICE constexpr std::size_t state_size(std::size_t dim) const { return dim; }
  NESTPIPE_HOST_DEVICE void initialize(float* state, std::size_t dim) const {
    for (std::size_t i = 0; i < dim; ++i) state[i] = static_cast<float>(initial_accumulator);
  }

  constants prepare(std::uint64_t, float factor) const {
    return {static_cast<float>(rate * static_cast<double>(factor)), static_cast<float>(eps), static_cast<float>(weight_decay)};
  }

  /// One update in place. O(dim).
  template <class Dim>
  NESTPIPE_HOST_DEVICE void update(float* __restrict__ row, float* __restrict__ state, float const* __restrict__ gradient,
                                   Dim dim, constants const& c) const {
    std::size_t const n = dim;
    NESTPIPE_ELEMENT_LOOP
    for (std::size_t i = 0; i < n; ++i) {
      float const g = gradient[i] + c.weight_decay * row[i];
      float const s = state[i] + g * g;
      state[i] = s;
      row[i] -= c.rate * (g / (std::sqrt(s) + c.eps));
    }
  }

  /// @throws config_error naming the first member out of its domain
  void check() const {
    detail::check_at_least_zero(rate, "adagrad", "rate");
    detail::check_positive(static_cast<double>(static_cast<float>(eps)), "adagrad", "eps (as float)");
    detail::check_at_least_zero(initial_accumulator, "adagrad", "initial_accumulator");
    detail::check_at_least_zero(weight_decay, "adagrad", "weight_decay");
  }
};

}  // namespace nestpipe::optimizer
