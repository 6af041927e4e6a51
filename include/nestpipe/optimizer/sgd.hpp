#pragma once
/// @file
/// Stochastic gradient descent, without state.

#include <nestpipe/optimizer/detail/checks.hpp>
#include <nestpipe/optimizer/optimizer.hpp>

namespace nestpipe::optimizer {

/// w -= rate (g + weight_decay w). As torch.optim.SGD with momentum 0. State: none.
struct sgd {
  double rate = 0.01;          ///< learning rate before the schedule's factor
  double weight_decay = 0.0;   ///< l2 penalty, added to the gradient of touched rows only

  struct constants {
    float rate;
    float weight_decay;
  };

  NESTPIPE_HOST_DEVICE constexpr std::size_t state_size(std::size_t) const { return 0; }
  NESTPIPE_HOST_DEVICE void initialize(float*, std::size_t) const {}

  constants prepare(std::uint64_t, float factor) const {
    return {static_cast<float>(rate * static_cast<double>(factor)), static_cast<float>(weight_decay)};
  }

  /// One update in place. O(dim).
  template <class Dim>
  NESTPIPE_HOST_DEVICE void update(float* __restrict__ row, float*, float const* __restrict__ gradient, Dim dim,
                                   constants const& c) const {
    std::size_t const n = dim;
    NESTPIPE_ELEMENT_LOOP
    for (std::size_t i = 0; i < n; ++i) row[i] -= c.rate * (gradient[i] + c.weight_decay * row[i]);
  }

  /// @throws config_error naming the first member out of its domain
  void check() const {
    detail::check_at_least_zero(rate, "sgd", "rate");
    detail::check_at_least_zero(weight_decay, "sgd", "weight_decay");
  }
};

}  // namespace nestpipe::optimizer
