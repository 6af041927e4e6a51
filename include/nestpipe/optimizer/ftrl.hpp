#pragma once
/// @file
/// Follow the regularised leader, per coordinate.

#include <nestpipe/optimizer/detail/checks.hpp>
#include <nestpipe/optimizer/optimizer.hpp>

#include <cmath>

namespace nestpipe::optimizer {

/// FTRL-Proximal, McMahan et al. 2013 ("Ad Click Prediction: a View from the Trenches"), algorithm 1:
/// sigma = (sqrt(n + g^2) - sqrt(n)) / rate; z += g - sigma w; n += g^2;
/// w = 0 where |z| <= lambda1, else -(z - sign(z) lambda1) / ((beta + sqrt(n)) / rate + lambda2).
/// State: z then n, 2 dim floats. The parameter is a function of (z, n), so a fresh row (z = n = 0) takes its z from its first
/// value at the first update: z = -w (beta / rate + lambda2), which gives back w when lambda1 is 0; with lambda1 above 0 it is
/// then shrunk like any other. Elements that start at zero follow the paper to the letter. The paper's alpha is
/// `rate` times the schedule's factor (kept above a millionth of `rate`). Since w depends on alpha, a factor that changes
/// rescales every parameter when it is next touched, as in TensorFlow; per-coordinate rates decay by themselves, so a constant
/// schedule is the usual choice.
struct ftrl {
  double rate = 0.1;      ///< alpha of the paper
  double beta = 1.0;
  double lambda1 = 0.0;
  double lambda2 = 0.0;

  struct constants {
    float inverse_rate;
    float beta_over_rate_plus_lambda2;
    float lambda1;
  };

  NESTPIPE_HOST_DEVICE constexpr std::size_t state_size(std::size_t dim) const { return 2 * dim; }
  NESTPIPE_HOST_DEVICE void initialize(float* state, std::size_t dim) const {
    for (std::size_t i = 0; i < 2 * dim; ++i) state[i] = 0.0f;
  }

  constants prepare(std::uint64_t, float factor) const {
    double const alpha = rate * (factor > 1e-6f ? static_cast<double>(factor) : 1e-6);
    return {static_cast<float>(1.0 / alpha), static_cast<float>(beta / alpha + lambda2), static_cast<float>(lambda1)};
  }

  /// One update in place. O(dim).
  template <class Dim>
  NESTPIPE_HOST_DEVICE void update(float* __restrict__ row, float* __restrict__ state, float const* __restrict__ gradient,
                                   Dim dim, constants const& c) const {
    std::size_t const count = dim;
    float* __restrict__ const squares = state + count;
    NESTPIPE_ELEMENT_LOOP
    for (std::size_t i = 0; i < count; ++i) {
      float const g = gradient[i];
      float const n = squares[i];
      float const fresh = -row[i] * c.beta_over_rate_plus_lambda2;
      float const z0 = (state[i] == 0.0f && n == 0.0f) ? fresh : state[i];
      float const n1 = n + g * g;
      float const root1 = std::sqrt(n1);
      float const sum = root1 + std::sqrt(n);
      // (root1 - root0) / rate without the cancellation: g^2 / (root1 + root0).
      float const sigma = sum > 0.0f ? (g * g) / sum * c.inverse_rate : 0.0f;
      float const z = z0 + (g - sigma * row[i]);
      float const magnitude = std::fabs(z) - c.lambda1;
      float const shrunk = magnitude > 0.0f ? magnitude : 0.0f;
      state[i] = z;
      squares[i] = n1;
      float const denominator = root1 * c.inverse_rate + c.beta_over_rate_plus_lambda2;
      row[i] = (z > 0.0f ? -shrunk : shrunk) / denominator;
    }
  }

  /// @throws config_error naming the first member out of its domain
  void check() const {
    detail::check_positive(rate, "ftrl", "rate");
    detail::check_positive(beta, "ftrl", "beta");
    detail::check_at_least_zero(lambda1, "ftrl", "lambda1");
    detail::check_at_least_zero(lambda2, "ftrl", "lambda2");
  }
};

}  // namespace nestpipe::optimizer
