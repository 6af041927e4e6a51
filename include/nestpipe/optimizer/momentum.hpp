#pragma once
/// @file
/// Gradient descent with heavy-ball or Nesterov momentum.

#include <nestpipe/optimizer/detail/checks.hpp>
#include <nestpipe/optimizer/optimizer.hpp>

namespace nestpipe::optimizer {

/// As torch.optim.SGD with momentum and dampening 0: g' = g + weight_decay w; b = momentum b + g';
/// w -= rate b, or with `nesterov` w -= rate (g' + momentum b). State: b, dim floats, starting at zero (PyTorch sets b = g'
/// on the first step, which is the same). Lazy: the buffer of a row decays once per update of that row.
struct momentum {
  double rate = 0.01;
  double momentum_factor = 0.9;   ///< PyTorch's `momentum`
  bool nesterov = false;
  double weight_decay = 0.0;

  struct constants {
    float rate;
    float momentum;
    float weight_decay;
  };

  NESTPIPE_HOST_DEVICE constexpr std::size_t state_size(std::size_t dim) const { return dim; }
  NESTPIPE_HOST_DEVICE void initialize(float* state, std::size_t dim) const {
    for (std::size_t i = 0; i < dim; ++i) state[i] = 0.0f;
  }

  constants prepare(std::uint64_t, float factor) const {
    return {static_cast<float>(rate * static_cast<double>(factor)), static_cast<float>(momentum_factor),
            static_cast<float>(weight_decay)};
  }

  /// One update in place. O(dim).
  template <class Dim>
  NESTPIPE_HOST_DEVICE void update(float* __restrict__ row, float* __restrict__ state, float const* __restrict__ gradient,
                                   Dim dim, constants const& c) const {
    std::size_t const n = dim;
    if (nesterov) {
      NESTPIPE_ELEMENT_LOOP
      for (std::size_t i = 0; i < n; ++i) {
        float const g = gradient[i] + c.weight_decay * row[i];
        float const b = c.momentum * state[i] + g;
        state[i] = b;
        row[i] -= c.rate * (g + c.momentum * b);
      }
    } else {
      NESTPIPE_ELEMENT_LOOP
      for (std::size_t i = 0; i < n; ++i) {
        float const g = gradient[i] + c.weight_decay * row[i];
        float const b = c.momentum * state[i] + g;
        state[i] = b;
        row[i] -= c.rate * b;
      }
    }
  }

  /// @throws config_error naming the first member out of its domain
  void check() const {
    detail::check_at_least_zero(rate, "momentum", "rate");
    detail::check_below_one(momentum_factor, "momentum", "momentum_factor");
    detail::check_at_least_zero(weight_decay, "momentum", "weight_decay");
  }
};

}  // namespace nestpipe::optimizer
