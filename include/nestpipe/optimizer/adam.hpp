#pragma once
/// @file
/// Adam with bias corrections from the global step.

#include <nestpipe/optimizer/detail/checks.hpp>
#include <nestpipe/optimizer/optimizer.hpp>

#include <cmath>

namespace nestpipe::optimizer {

/// Kingma, Ba 2015, as torch.optim.Adam: g' = g + weight_decay w; m = beta1 m + (1 - beta1) g'; v = beta2 v + (1 - beta2) g'^2;
/// w -= rate / (1 - beta1^t) m / (sqrt(v) / sqrt(1 - beta2^t) + eps). eps stands outside the root, after its correction.
/// State: m then v, 2 dim floats. t is the global step; a row's moments decay once per update of that row (lazy Adam).
struct adam {
  double rate = 0.001;
  double beta1 = 0.9;
  double beta2 = 0.999;
  double eps = 1e-8;
  double weight_decay = 0.0;

  struct constants {
    float step_size;        ///< rate / (1 - beta1^t)
    float root_correction;  ///< 1 / sqrt(1 - beta2^t)
    float beta1;
    float beta2;
    float rest1;            ///< 1 - beta1, rounded from double as PyTorch does
    float rest2;
    float eps;
    float weight_decay;
  };

  NESTPIPE_HOST_DEVICE constexpr std::size_t state_size(std::size_t dim) const { return 2 * dim; }
  NESTPIPE_HOST_DEVICE void initialize(float* state, std::size_t dim) const {
    for (std::size_t i = 0; i < 2 * dim; ++i) state[i] = 0.0f;
  }

  /// @param step global batch number, from 1. Corrections are computed in double.
  constants prepare(std::uint64_t step, float factor) const {
    double const t = static_cast<double>(step);
    double const correction1 = 1.0 - std::pow(beta1, t);
    double const correction2 = 1.0 - std::pow(beta2, t);
    return {static_cast<float>(rate * static_cast<double>(factor) / correction1),
            static_cast<float>(1.0 / std::sqrt(correction2)),
            static_cast<float>(beta1),
            static_cast<float>(beta2),
            static_cast<float>(1.0 - beta1),
            static_cast<float>(1.0 - beta2),
            static_cast<float>(eps),
            static_cast<float>(weight_decay)};
  }

  /// One update in place. O(dim).
  template <class Dim>
  NESTPIPE_HOST_DEVICE void update(float* __restrict__ row, float* __restrict__ state, float const* __restrict__ gradient,
                                   Dim dim, constants const& c) const {
    std::size_t const n = dim;
    float* __restrict__ const second = state + n;
    NESTPIPE_ELEMENT_LOOP
    for (std::size_t i = 0; i < n; ++i) {
      float const g = gradient[i] + c.weight_decay * row[i];
      float const m = c.beta1 * state[i] + c.rest1 * g;
      float const v = c.beta2 * second[i] + c.rest2 * (g * g);
      state[i] = m;
      second[i] = v;
      row[i] -= c.step_size * (m / (std::sqrt(v) * c.root_correction + c.eps));
    }
  }

  /// @throws config_error naming the first member out of its domain
  void check() const {
    detail::check_at_least_zero(rate, "adam", "rate");
    detail::check_below_one(beta1, "adam", "beta1");
    detail::check_below_one(beta2, "adam", "beta2");
    detail::check_positive(static_cast<double>(static_cast<float>(eps)), "adam", "eps (as float)");
    detail::check_at_least_zero(weight_decay, "adam", "weight_decay");
  }
};

}  // namespace nestpipe::optimizer
