#pragma once
/// @file
/// One fully connected layer, in pieces: forward, gradient of its input, gradients of its weights. Weights are (in, out),
/// matrices row-major with explicit row distances, activations element-wise; every sum has a fixed order.

#include <nestpipe/core/config.hpp>
#include <nestpipe/math/backend.hpp>

#include <algorithm>
#include <cmath>

namespace nestpipe::math {

enum class activation : std::uint8_t { identity, relu, sigmoid };

/// 1 / (1 + exp(-x)) without overflow.
template <class Scalar>
Scalar sigmoid(Scalar x) {
  Scalar const e = std::exp(-std::abs(x));
  return (x >= Scalar{0} ? Scalar{1} : e) / (Scalar{1} + e);
}

/// y = f(y + bias), in place. y (n, width).
template <class Scalar>
void add_bias_and_activate(std::size_t n, std::size_t width, Scalar const* bias, activation f, Scalar* y, std::size_t ldy) {
  for (std::size_t i = 0; i < n; ++i) {
    Scalar* const row = y + i * ldy;
    if (f == activation::relu) {
      for (std::size_t j = 0; j < width; ++j) {
        Scalar const v = row[j] + bias[j];
        row[j] = v <= Scalar{0} ? Scalar{0} : v;  // this way round a NaN stays visible
      }
    } else {
      for (std::size_t j = 0; j < width; ++j) row[j] += bias[j];
      if (f == activation::sigmoid)
        for (std::size_t j = 0; j < width; ++j) row[j] = sigmoid(row[j]);
    }
  }
}

/// d *= f'(.), in place, from the outputs y = f(.).
template <class Scalar>
void activation_backward(std::size_t n, std::size_t width, activation f, Scalar const* y, std::size_t ldy, Scalar* d, std::size_t ldd) {
  if (f == activation::identity) return;
  for (std::size_t i = 0; i < n; ++i) {
    Scalar const* const out = y + i * ldy;
    Scalar* const row = d + i * ldd;
    if (f == activation::relu) {
      for (std::size_t j = 0; j < width; ++j) row[j] = out[j] > Scalar{0} ? row[j] : Scalar{0};
    } else {
      for (std::size_t j = 0; j < width; ++j) row[j] *= out[j] * (Scalar{1} - out[j]);
    }
  }
}

/// y (n, out) = f(x (n, in) w (in, out) + bias).
template <class Math, class Scalar>
void dense_forward(std::size_t n, std::size_t in, std::size_t out, Scalar const* x, std::size_t ldx, Scalar const* w,
                   Scalar const* bias, activation f, Scalar* y, std::size_t ldy) {
  gemm<Math, Scalar>(false, false, n, out, in, Scalar{1}, x, ldx, w, out, Scalar{0}, y, ldy);
  add_bias_and_activate(n, out, bias, f, y, ldy);
}

/// dx (n, in) = delta (n, out) w^T + beta dx, where delta is the gradient before the activation.
template <class Math, class Scalar>
void dense_backward_inputs(std::size_t n, std::size_t in, std::size_t out, Scalar const* delta, std::size_t ldd, Scalar const* w,
                           Scalar beta, Scalar* dx, std::size_t lddx) {
  gemm<Math, Scalar>(false, true, n, in, out, Scalar{1}, delta, ldd, w, out, beta, dx, lddx);
}

/// dw (in, out) = x^T delta. Overwrites.
template <class Math, class Scalar>
void dense_backward_weights(std::size_t n, std::size_t in, std::size_t out, Scalar const* x, std::size_t ldx, Scalar const* delta,
                            std::size_t ldd, Scalar* dw) {
  gemm<Math, Scalar>(true, false, in, out, n, Scalar{1}, x, ldx, delta, ldd, Scalar{0}, dw, out);
}

/// sums[j] = sum over rows of d[., j]: blocks of `sum_block` rows, then over the blocks in order. Overwrites.
template <class Scalar>
void sum_rows(std::size_t n, std::size_t width, Scalar const* d, std::size_t ldd, Scalar* sums) {
  constexpr std::size_t strip = 64;  // columns at a time: partial sums stay in the nearest cache
  for (std::size_t j0 = 0; j0 < width; j0 += strip) {
    std::size_t const columns = std::min(strip, width - j0);
    Scalar total[strip] = {};
    for (std::size_t i0 = 0; i0 < n; i0 += sum_block) {
      std::size_t const end = std::min(n, i0 + sum_block);
      Scalar part[strip] = {};
      for (std::size_t i = i0; i < end; ++i)
        for (std::size_t j = 0; j < columns; ++j) part[j] += d[i * ldd + j0 + j];
      for (std::size_t j = 0; j < columns; ++j) total[j] += part[j];
    }
    for (std::size_t j = 0; j < columns; ++j) sums[j0 + j] = total[j];
  }
}

}  // namespace nestpipe::math
