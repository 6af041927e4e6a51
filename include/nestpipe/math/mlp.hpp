#pragma once
/// @file
/// A stack of fully connected layers over flat parameters. The two halves of backward are separate: the input half leaves
/// the gradient before each activation in the workspace, and the weight half needs nothing but the workspace and the input.

#include <nestpipe/math/layers.hpp>
#include <nestpipe/math/scratch.hpp>

#include <limits>
#include <span>
#include <vector>

namespace nestpipe::math {

/// One layer of an mlp: weights (in, out) row-major at `offset` of the flat parameters, then its bias (out).
struct dense_layer {
  std::size_t in = 0;
  std::size_t out = 0;
  activation function = activation::identity;
  std::size_t offset = 0;
  std::size_t bias_offset() const { return offset + in * out; }
};

template <class Scalar, class Math>
class mlp {
 public:
  struct workspace {
    std::vector<scratch<Scalar>> outputs;  ///< per layer (n, out), after the activation
    std::vector<scratch<Scalar>> deltas;   ///< per layer (n, out), gradients before the activation
  };

  mlp() = default;

  /// @param inputs width of x  @param widths outputs of each layer, at least one
  mlp(std::size_t inputs, std::span<std::size_t const> widths, activation hidden, activation last) {
    for (std::size_t l = 0; l < widths.size(); ++l) {
      layers_.push_back({inputs, widths[l], l + 1 < widths.size() ? hidden : last, size_});
      size_ += (inputs + 1) * widths[l];
      inputs = widths[l];
    }
  }

  std::span<dense_layer const> layers() const { return layers_; }
  std::size_t inputs() const { return layers_.front().in; }
  std::size_t outputs() const { return layers_.back().out; }
  /// Number of flat parameters.
  std::size_t size() const { return size_; }

  /// @param p flat parameters  @param x (n, inputs); must live until backward_weights
  /// @return (n, outputs), contiguous, in the workspace
  Scalar const* forward(Scalar const* p, std::size_t n, Scalar const* x, std::size_t ldx, workspace& ws) const {
    ws.outputs.resize(layers_.size());
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      dense_layer const& layer = layers_[l];
      Scalar* const y = ws.outputs[l].reserve(n * layer.out);
      dense_forward<Math>(n, layer.in, layer.out, x, ldx, p + layer.offset, p + layer.bias_offset(), layer.function, y, layer.out);
      x = y;
      ldx = layer.out;
    }
    return x;
  }

  /// @param d_out (n, outputs) gradient of forward's result  @param dx (n, inputs), overwritten; null: not wanted
  void backward_inputs(Scalar const* p, std::size_t n, Scalar const* d_out, std::size_t ldd, workspace& ws, Scalar* dx,
                       std::size_t lddx) const {
    ws.deltas.resize(layers_.size());
    Scalar* delta = ws.deltas.back().reserve(n * outputs());
    for (std::size_t i = 0; i < n; ++i) std::copy_n(d_out + i * ldd, outputs(), delta + i * outputs());
    for (std::size_t l = layers_.size(); l-- > 0;) {
      dense_layer const& layer = layers_[l];
      activation_backward<Scalar>(n, layer.out, layer.function, ws.outputs[l].data(), layer.out, delta, layer.out);
      if (l > 0) {
        Scalar* const below = ws.deltas[l - 1].reserve(n * layer.in);
        dense_backward_inputs<Math>(n, layer.in, layer.out, static_cast<Scalar const*>(delta), layer.out, p + layer.offset, Scalar{0}, below, layer.in);
        delta = below;
      } else if (dx != nullptr) {
        dense_backward_inputs<Math>(n, layer.in, layer.out, static_cast<Scalar const*>(delta), layer.out, p + layer.offset, Scalar{0}, dx, lddx);
      }
    }
  }

  /// After backward_inputs. @param x the input of forward  @param gradients flat, overwritten
  /// @param first,last  only layers whose parameters begin in [first, last) of the stack's flat ones
  void backward_weights(std::size_t n, Scalar const* x, std::size_t ldx, workspace const& ws, Scalar* gradients, std::size_t first = 0,
                        std::size_t last = std::numeric_limits<std::size_t>::max()) const {
    for (std::size_t l = 0; l < layers_.size(); ++l) {
      dense_layer const& layer = layers_[l];
      if (layer.offset >= first && layer.offset < last) {
        Scalar const* const delta = ws.deltas[l].data();
        dense_backward_weights<Math>(n, layer.in, layer.out, x, ldx, delta, layer.out, gradients + layer.offset);
        sum_rows(n, layer.out, delta, layer.out, gradients + layer.bias_offset());
      }
      x = ws.outputs[l].data();
      ldx = layer.out;
    }
  }

 private:
  std::vector<dense_layer> layers_;
  std::size_t size_ = 0;
};

}  // namespace nestpipe::math
