#pragma once
/// @file
/// What the models of this library share: the list of parameters, the losses, the checks of attach. A user's own model may
/// derive from it or do without.

#include <nestpipe/math/automatic.hpp>
#include <nestpipe/math/loss.hpp>
#include <nestpipe/math/mlp.hpp>
#include <nestpipe/model/model.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>
#include <vector>

namespace nestpipe::model {

/// One logit per label of the schema; binary cross entropy or squared error, summed over the labels of a sample.
template <class Scalar>
class network {
 public:
  using scalar = Scalar;

  std::span<parameter const> parameters() const { return parameters_; }
  std::size_t outputs() const { return outputs_; }

  double loss(model_batch<Scalar> const& batch, Scalar const* logits, Scalar scale, Scalar* d_logits) const {
    std::size_t const count = batch.samples * outputs_;
    return task_ == task::binary ? math::binary_cross_entropy(count, logits, batch.labels, scale, d_logits)
                                 : math::squared_error(count, logits, batch.labels, scale, d_logits);
  }
  /// Of a model that calls cut_buckets in attach and has backward_weights_bucket.
  std::size_t weight_buckets() const { return edges_.size() - 1; }
  parameter_range bucket_range(std::size_t b) const { return {edges_[b + 1], edges_[b]}; }

  Scalar score(Scalar logit) const { return task_ == task::binary ? math::sigmoid(logit) : logit; }

 protected:
  /// Call first in attach.
  void begin(model_spec const& spec) {
    require(spec.schema.labels > 0, "the model needs at least one label", {}, "name a label column");
    parameters_.clear();
    layers_.clear();
    size_ = 0;
    outputs_ = spec.schema.labels;
    task_ = spec.task;
    dense_ = spec.schema.dense;
    pooled_width_ = spec.layout.pooled_width();
  }

  /// Adds a parameter (none if it is empty). @return its place in the flat array
  std::size_t add(std::string name, std::size_t rows, std::size_t cols, row_init init = {row_init::kind::zeros, 0.0f, 0}) {
    std::size_t const offset = size_;
    if (rows * cols > 0) parameters_.push_back({std::move(name), rows, cols, init});
    size_ += rows * cols;
    return offset;
  }

  /// Weights (in, out) from the uniform distribution of Glorot and Bengio (2010), equation 16.
  std::size_t add_weights(std::string name, std::size_t in, std::size_t out) {
    float const bound = static_cast<float>(std::sqrt(6.0 / static_cast<double>(in + out)));
    return add(std::move(name), in, out, {row_init::kind::uniform, bound, 0});
  }

  /// The parameters of a stack, in its order. @return their place in the flat array
  template <class Math>
  std::size_t add(std::string const& name, math::mlp<Scalar, Math> const& stack) {
    std::size_t const offset = size_;
    for (std::size_t l = 0; l < stack.layers().size(); ++l) {
      begin_layer();
      add_weights(name + "." + std::to_string(l) + ".weight", stack.layers()[l].in, stack.layers()[l].out);
      add(name + "." + std::to_string(l) + ".bias", 1, stack.layers()[l].out);
    }
    return offset;
  }

  /// A bucket may begin with the parameter added next.
  void begin_layer() { layers_.push_back(size_); }

  /// Call last in attach: groups layers, from the last one, until a bucket has `bucket_floats`; what is left in front belongs
  /// to the last bucket. Parts much smaller cost a round of messages each and bring no overlap.
  void cut_buckets() {
    edges_.assign(1, size_);
    for (std::size_t l = layers_.size(); l-- > 0;) {
      if (edges_.back() - layers_[l] >= bucket_floats) edges_.push_back(layers_[l]);
    }
    if (edges_.size() == 1) edges_.push_back(0);
    edges_.back() = 0;
  }
  static constexpr std::size_t bucket_floats = 65'536;
  static constexpr parameter_range everything{0, std::numeric_limits<std::size_t>::max()};

  /// The part of `r` at or behind flat parameter `at`, counted from there.
  static parameter_range from(parameter_range r, std::size_t at) { return {r.first > at ? r.first - at : 0, r.last > at ? r.last - at : 0}; }

  static std::string place(embedding_layout const& layout, std::size_t f) {
    return "feature " + layout.features()[f].name + ", table " + layout.features()[f].table;
  }

  /// Every feature must be pooled to a sum or a mean. @throws config_error naming the first that is not
  static void require_sums(std::string const& model, embedding_layout const& layout) {
    for (std::size_t f = 0; f < layout.features().size(); ++f) {
      enum pooling const p = layout.features()[f].pooling;
      require(p == pooling::sum || p == pooling::mean, model + " needs pooling sum or mean", place(layout, f), "change the feature's pooling");
    }
  }

  static void require_widths(std::string const& model, std::string const& option, std::span<std::size_t const> widths) {
    for (std::size_t const w : widths) require(w > 0, model + ": a layer of width 0", option, "give widths of at least 1");
  }

  std::size_t dense() const { return dense_; }
  std::size_t pooled_width() const { return pooled_width_; }

  /// Copies a (n, width) matrix. Weight gradients read such copies only, so the batch may be gone by then.
  static void copy(std::size_t n, std::size_t width, Scalar const* from, std::size_t ld_from, Scalar* to, std::size_t ld_to) {
    for (std::size_t i = 0; i < n; ++i) std::copy_n(from + i * ld_from, width, to + i * ld_to);
  }

 private:
  std::vector<parameter> parameters_;
  std::vector<std::size_t> layers_;         // where layers begin, ascending
  std::vector<std::size_t> edges_{0, 0};    // of buckets, descending
  std::size_t size_ = 0;
  std::size_t outputs_ = 1;
  std::size_t dense_ = 0;
  std::size_t pooled_width_ = 0;
  enum task task_ = task::binary;
};

}  // namespace nestpipe::model
