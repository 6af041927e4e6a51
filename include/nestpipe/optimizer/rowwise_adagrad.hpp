#pragma once
/// @file
/// Adagrad with one accumulator per row.

#include <nestpipe/math/pack.hpp>
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

#if !defined(__CUDACC__)
/// Embeddings of whole registers, eight at most: row and gradient are read once and stay there until the row is written.
template <class Dim>
class row_in_registers {
  using lanes = math::pack<float>;

 public:
  static constexpr bool possible = [] {
    if constexpr (requires { Dim::value; }) return Dim::value % lanes::size == 0 && Dim::value <= 8 * lanes::size;
    return false;
  }();

  row_in_registers(float const* row, float const* gradient, float decay) {
    for (std::size_t i = 0; i < packs; ++i) {
      row_[i].load(row + i * lanes::size);
      gradient_[i].load(gradient + i * lanes::size);
      gradient_[i].values += decay * row_[i].values;
    }
  }

  /// sum_of_squares, in its order; without the zeros it begins with, which change no square.
  float sum_of_squares() const {
    constexpr std::size_t per_block = sum_block / lanes::size;
    float total = 0.0f;
    for (std::size_t begin = 0; begin < packs; begin += per_block) {
      lanes partial;
      partial.values = gradient_[begin].values * gradient_[begin].values;
      for (std::size_t i = begin + 1; i < packs && i < begin + per_block; ++i) partial.values += gradient_[i].values * gradient_[i].values;
      total = begin == 0 ? fold(partial) : total + fold(partial);
    }
    return total;
  }

  /// row -= step * gradient
  void store_step(float step, float* row) {
    for (std::size_t i = 0; i < packs; ++i) {
      row_[i].values -= step * gradient_[i].values;
      row_[i].store(row + i * lanes::size);
    }
  }

 private:
  static constexpr std::size_t packs = [] {
    if constexpr (possible) return Dim::value / lanes::size;
    return std::size_t{1};
  }();

  /// By halves, as above: in registers, which an array of them would leave.
  static float fold(lanes const& partial) {
    typedef float eight __attribute__((vector_size(32)));
    typedef float four __attribute__((vector_size(16)));
    auto const& v = partial.values;
    eight const w = eight{v[0], v[1], v[2], v[3], v[4], v[5], v[6], v[7]} + eight{v[8], v[9], v[10], v[11], v[12], v[13], v[14], v[15]};
    four const x = four{w[0], w[1], w[2], w[3]} + four{w[4], w[5], w[6], w[7]};
    return (x[0] + x[2]) + (x[1] + x[3]);
  }

  lanes row_[packs];
  lanes gradient_[packs];
};
#endif

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
#if !defined(__CUDACC__)
    if constexpr (detail::row_in_registers<Dim>::possible) {
      detail::row_in_registers<Dim> values{row, gradient, c.weight_decay};
      float const sum = state[0] + values.sum_of_squares() / static_cast<float>(n);
      state[0] = sum;
      values.store_step(c.rate / (std::sqrt(sum) + c.eps), row);
      return;
    }
#endif
    float const s = state[0] + detail::sum_of_squares(row, gradient, dim, c.weight_decay) / static_cast<float>(n);
    state[0] = s;
    float const step = c.rate / (std::sqrt(s) + c.eps);
    NESTPIPE_ELEMENT_LOOP
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
