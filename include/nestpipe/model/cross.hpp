#pragma once
/// @file
/// The cross network of DCN v2: Wang et al., "DCN V2: Improved Deep & Cross Network and Practical Lessons for Web-scale
/// Learning to Rank Systems" (WWW 2021), equations 1 and 2.

#include <nestpipe/math/layers.hpp>
#include <nestpipe/math/scratch.hpp>

#include <algorithm>
#include <limits>
#include <vector>

namespace nestpipe::model {

/// x_{l+1} = x_0 * (x_l W_l + b_l) + x_l (element-wise product), W full (width, width) or, with rank > 0, W = V U with
/// V (width, rank) and U (rank, width). Parameters of a layer: W or V then U, then b.
template <class Scalar, class Math>
class cross_network {
 public:
  struct layer_state {
    math::scratch<Scalar> x;        ///< (n, width) input of the layer; that of layer 0 is the caller's
    math::scratch<Scalar> low;      ///< (n, rank) x V
    math::scratch<Scalar> u;        ///< (n, width) x W + b
    math::scratch<Scalar> d_low;    ///< (n, rank)
    math::scratch<Scalar> d_u;      ///< (n, width)
  };
  struct workspace {
    std::vector<layer_state> layers;   ///< one more than there are layers: the last x is the result
    math::scratch<Scalar> d_first;     ///< (n, width) gradient that reaches x_0 through the products
  };

  cross_network() = default;
  cross_network(std::size_t width, std::size_t layers, std::size_t rank) : width_{width}, layers_{layers}, rank_{rank} {}

  std::size_t layers() const { return layers_; }
  std::size_t matrix_size() const { return rank_ > 0 ? 2 * width_ * rank_ : width_ * width_; }
  /// Flat parameters of one layer.
  std::size_t layer_size() const { return matrix_size() + width_; }

  /// @param x (n, width), contiguous; must live until backward_weights  @return (n, width)
  Scalar const* forward(Scalar const* p, std::size_t n, Scalar const* x, workspace& ws) const {
    ws.layers.resize(layers_ + 1);
    Scalar const* const first = x;
    for (std::size_t l = 0; l < layers_; ++l, p += layer_size()) {
      layer_state& s = ws.layers[l];
      Scalar* const u = s.u.reserve(n * width_);
      Scalar const* const bias = p + matrix_size();
      if (rank_ > 0) {
        Scalar* const low = s.low.reserve(n * rank_);
        math::gemm<Math, Scalar>(false, false, n, rank_, width_, Scalar{1}, x, width_, p, rank_, Scalar{0}, low, rank_);
        math::dense_forward<Math, Scalar>(n, rank_, width_, low, rank_, p + width_ * rank_, bias, math::activation::identity, u, width_);
      } else {
        math::dense_forward<Math, Scalar>(n, width_, width_, x, width_, p, bias, math::activation::identity, u, width_);
      }
      Scalar* const next = ws.layers[l + 1].x.reserve(n * width_);
      for (std::size_t k = 0; k < n * width_; ++k) next[k] = first[k] * u[k] + x[k];
      x = next;
    }
    return x;
  }

  /// @param x the input of forward  @param d (n, width) gradient of the result, becomes that of x
  void backward_inputs(Scalar const* p, std::size_t n, Scalar const* x, workspace& ws, Scalar* d) const {
    Scalar* const d_first = ws.d_first.reserve(n * width_);
    std::fill_n(d_first, n * width_, Scalar{0});
    for (std::size_t l = layers_; l-- > 0;) {
      layer_state& s = ws.layers[l];
      Scalar const* const weights = p + l * layer_size();
      Scalar const* const u = s.u.data();
      Scalar* const d_u = s.d_u.reserve(n * width_);
      for (std::size_t k = 0; k < n * width_; ++k) {
        d_u[k] = d[k] * x[k];
        d_first[k] += d[k] * u[k];
      }
      if (rank_ > 0) {
        Scalar* const d_low = s.d_low.reserve(n * rank_);
        math::dense_backward_inputs<Math, Scalar>(n, rank_, width_, d_u, width_, weights + width_ * rank_, Scalar{0}, d_low, rank_);
        math::dense_backward_inputs<Math, Scalar>(n, width_, rank_, d_low, rank_, weights, Scalar{1}, d, width_);
      } else {
        math::dense_backward_inputs<Math, Scalar>(n, width_, width_, d_u, width_, weights, Scalar{1}, d, width_);
      }
    }
    for (std::size_t k = 0; k < n * width_; ++k) d[k] += d_first[k];
  }

  /// After backward_inputs. Overwrites the gradients.
  /// @param first,last  only layers whose parameters begin in [first, last) of the flat ones
  void backward_weights(std::size_t n, Scalar const* x, workspace const& ws, Scalar* gradients, std::size_t first = 0,
                        std::size_t last = std::numeric_limits<std::size_t>::max()) const {
    for (std::size_t l = 0; l < layers_; ++l, gradients += layer_size()) {
      if (l * layer_size() < first || l * layer_size() >= last) continue;
      layer_state const& s = ws.layers[l];
      Scalar const* const input = l == 0 ? x : s.x.data();
      if (rank_ > 0) {
        math::dense_backward_weights<Math, Scalar>(n, width_, rank_, input, width_, s.d_low.data(), rank_, gradients);
        math::dense_backward_weights<Math, Scalar>(n, rank_, width_, s.low.data(), rank_, s.d_u.data(), width_, gradients + width_ * rank_);
      } else {
        math::dense_backward_weights<Math, Scalar>(n, width_, width_, input, width_, s.d_u.data(), width_, gradients);
      }
      math::sum_rows(n, width_, s.d_u.data(), width_, gradients + matrix_size());
    }
  }

 private:
  std::size_t width_ = 0, layers_ = 0, rank_ = 0;
};

}  // namespace nestpipe::model
