#pragma once
/// @file
/// The compute half of a step for one micro-batch: pool, forward, loss, backward, per-key gradients.

#include <nestpipe/core/jagged.hpp>
#include <nestpipe/embedding/pooling.hpp>
#include <nestpipe/model/model.hpp>

namespace nestpipe::engine {

/// Scratch of one micro-batch between its stages; two of them alternate, so that weight gradients may come late.
template <class Model>
class micro_batch {
 public:
  using scalar = typename Model::scalar;
  static_assert(std::is_same_v<scalar, float>, "the engine trains in float: use the double-precision model for oracles only");

  /// Pools and runs the network forward. `block`, `route` and `landing` stay unchanged until backward is done.
  void forward(Model const& model, float const* parameters, embedding_layout const& layout, sample_block const& block,
               embedding::micro_route const& route, float const* landing) {
    std::size_t const n = block.samples;
    pooled_.resize(n * layout.pooled_width());
    dense_.resize(block.dense.size());
    labels_.resize(block.labels.size());
    logits_.resize(n * model.outputs());
    d_logits_.resize(n * model.outputs());
    if (!block.dense.empty()) std::memcpy(dense_.data(), block.dense.data(), block.dense.size() * sizeof(float));
    if (!block.labels.empty()) std::memcpy(labels_.data(), block.labels.data(), block.labels.size() * sizeof(float));
    shape_sequences(layout, block.ids);
    pooler_.forward(layout, block.ids, route, landing, pooled_.data(), row_pointers_);
    batch_.samples = n;
    batch_.dense = dense_.data();
    batch_.pooled = pooled_.data();
    batch_.sequences = inputs_;
    batch_.labels = labels_.data();
    model.forward(parameters, batch_, workspace_, logits_.data());
  }

  /// Sum of the losses of the samples; prepares the backward pass for `scale` times that sum.
  double loss(Model const& model, float scale) { return model.loss(batch_, logits_.data(), scale, d_logits_.data()); }

  /// Gradients of the embeddings, then of each distinct key into `out` (laid out as the rows landed).
  void backward_inputs(Model const& model, float const* parameters, embedding_layout const& layout, sample_block const& block,
                       embedding::micro_route const& route, float const* landing, float* out) {
    d_pooled_.resize(pooled_.size());
    model::embedding_gradients<float> const d{d_pooled_.data(), outputs_};
    model.backward_inputs(parameters, batch_, workspace_, d_logits_.data(), d);
    pooler_.backward(layout, block.ids, route, landing, d_pooled_.data(), d_row_pointers_, out);
  }

  void backward_weights(Model const& model, float const* parameters, float* gradients) {
    model.backward_weights(parameters, batch_, workspace_, d_logits_.data(), gradients);
  }

  void backward_weights_bucket(Model const& model, std::size_t bucket, float const* parameters, float* gradients) {
    model::backward_weights_bucket(model, bucket, parameters, batch_, workspace_, d_logits_.data(), gradients);
  }

  std::span<float const> logits() const { return logits_.span(); }

 private:
  // Rows and gradients of features with pooling none, one buffer a feature.
  void shape_sequences(embedding_layout const& layout, jagged const& ids) {
    std::size_t count = 0;
    for (auto const& f : layout.features()) count += f.pooling == pooling::none ? 1 : 0;
    if (rows_.size() != count) {
      rows_ = std::vector<exec::buffer<float>>(count);
      d_rows_ = std::vector<exec::buffer<float>>(count);
      offsets_ = std::vector<exec::buffer<std::uint32_t>>(count);
    }
    inputs_.clear();
    outputs_.clear();
    row_pointers_.clear();
    d_row_pointers_.clear();
    std::size_t s = 0;
    for (std::size_t f = 0; f < layout.features().size(); ++f) {
      if (layout.features()[f].pooling != pooling::none) continue;
      std::size_t const dim = layout.dim_of_feature(f);
      std::uint32_t const first = ids.offsets[f * ids.samples];
      offsets_[s].resize(ids.samples + 1);
      for (std::size_t i = 0; i <= ids.samples; ++i) offsets_[s][i] = ids.offsets[f * ids.samples + i] - first;
      rows_[s].resize(offsets_[s][ids.samples] * dim);
      d_rows_[s].resize(rows_[s].size());
      inputs_.push_back({offsets_[s].span(), rows_[s].data(), dim});
      outputs_.push_back({offsets_[s].span(), d_rows_[s].data(), dim});
      row_pointers_.push_back(rows_[s].data());
      d_row_pointers_.push_back(d_rows_[s].data());
      ++s;
    }
  }

  embedding::pooler pooler_;
  typename Model::workspace workspace_;
  model::model_batch<float> batch_;
  exec::buffer<float> pooled_, d_pooled_, dense_, labels_, logits_, d_logits_;
  std::vector<exec::buffer<float>> rows_, d_rows_;
  std::vector<exec::buffer<std::uint32_t>> offsets_;
  std::vector<model::sequence<float const>> inputs_;
  std::vector<model::sequence<float>> outputs_;
  std::vector<float*> row_pointers_;
  std::vector<float const*> d_row_pointers_;
};

}  // namespace nestpipe::engine
