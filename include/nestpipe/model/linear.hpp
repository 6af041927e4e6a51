#pragma once
/// @file
/// The linear part over dense columns that logistic, fm and deepfm share.

#include <nestpipe/math/layers.hpp>
#include <nestpipe/math/scratch.hpp>

#include <algorithm>

namespace nestpipe::model {

/// logits (n, out) = dense (n, in) w + bias.
template <class Scalar, class Math>
struct linear_part {
  struct workspace {
    math::scratch<Scalar> dense;   ///< (n, in)
    math::scratch<Scalar> deltas;  ///< (n, out)
  };
  std::size_t in = 0;
  std::size_t out = 0;

  std::size_t bias_offset() const { return in * out; }

  /// p: weights (in, out), then bias (out)
  void forward(Scalar const* p, std::size_t n, Scalar const* dense, Scalar* logits) const {
    math::dense_forward<Math>(n, in, out, dense, in, p, p + bias_offset(), math::activation::identity, logits, out);
  }
  /// Keeps what backward_weights reads.
  void keep(std::size_t n, Scalar const* dense, Scalar const* d_logits, workspace& ws) const {
    std::copy_n(dense, n * in, ws.dense.reserve(n * in));
    std::copy_n(d_logits, n * out, ws.deltas.reserve(n * out));
  }
  void backward_weights(std::size_t n, workspace const& ws, Scalar* gradients) const {
    math::dense_backward_weights<Math>(n, in, out, ws.dense.data(), in, ws.deltas.data(), out, gradients);
    math::sum_rows(n, out, ws.deltas.data(), out, gradients + bias_offset());
  }
};

}  // namespace nestpipe::model
