#pragma once
/// @file
/// The compute half of a step for one micro-batch: pooling and its transpose on the device, the dense network of a host model between.

#include <nestpipe/embedding/cuda/pooling.cuh>
#include <nestpipe/model/model.hpp>

namespace nestpipe::engine {

/// As micro_batch. Pooled features come to the host and their gradients go back through pinned memory.
template <class Model>
class device_micro_batch {
 public:
  static_assert(std::is_same_v<typename Model::scalar, float>, "the engine trains in float: use the double-precision model for oracles only");

  void forward(Model const& model, float const* parameters, embedding_layout const& layout, sample_block const& block, embedding::micro_route const& route,
               float const* landing) {
    cudaStream_t const stream = exec::this_stream();
    std::size_t const n = block.samples, pooled_floats = n * layout.pooled_width();
    exec::wait_for_device();  // nothing is on its way from or to the pinned buffers
    tables_.build(layout, block.ids, route, stream);
    pooled_.resize(pooled_floats, stream);
    rows_.resize(tables_.sequence_floats(), stream);
    pooler_.forward(tables_, landing, pooled_.data(), rows_.data(), stream);
    host_pooled_.resize(pooled_floats);
    host_rows_.resize(tables_.sequence_floats());
    exec::copy_to_host(host_pooled_.data(), pooled_.data(), pooled_floats, stream);
    exec::copy_to_host(host_rows_.data(), rows_.data(), host_rows_.size(), stream);
    dense_.resize(block.dense.size());
    labels_.resize(block.labels.size());
    logits_.resize(n * model.outputs());
    d_logits_.resize(n * model.outputs());
    if (!block.dense.empty()) std::memcpy(dense_.data(), block.dense.data(), block.dense.size() * sizeof(float));
    if (!block.labels.empty()) std::memcpy(labels_.data(), block.labels.data(), block.labels.size() * sizeof(float));
    host_d_pooled_.resize(pooled_floats);
    host_d_rows_.resize(host_rows_.size());
    shape_sequences(layout, block.ids);
    batch_.samples = n;
    batch_.dense = dense_.data();
    batch_.pooled = host_pooled_.data();
    batch_.sequences = inputs_;
    batch_.labels = labels_.data();
    exec::wait_for_device();
    model.forward(parameters, batch_, workspace_, logits_.data());
  }

  double loss(Model const& model, float scale) { return model.loss(batch_, logits_.data(), scale, d_logits_.data()); }

  void backward_inputs(Model const& model, float const* parameters, embedding_layout const&, sample_block const&, embedding::micro_route const&, float const* landing,
                       float* out) {
    cudaStream_t const stream = exec::this_stream();
    model::embedding_gradients<float> const d{host_d_pooled_.data(), outputs_};
    model.backward_inputs(parameters, batch_, workspace_, d_logits_.data(), d);
    d_pooled_.resize(host_d_pooled_.size(), stream);
    d_rows_.resize(host_d_rows_.size(), stream);
    exec::copy_to_device(d_pooled_.data(), host_d_pooled_.data(), host_d_pooled_.size(), stream);
    exec::copy_to_device(d_rows_.data(), host_d_rows_.data(), host_d_rows_.size(), stream);
    pooler_.backward(tables_, landing, d_pooled_.data(), d_rows_.data(), out, stream);
  }

  void backward_weights(Model const& model, float const* parameters, float* gradients) {
    model.backward_weights(parameters, batch_, workspace_, d_logits_.data(), gradients);
  }
  void backward_weights_bucket(Model const& model, std::size_t bucket, float const* parameters, float* gradients) {
    model::backward_weights_bucket(model, bucket, parameters, batch_, workspace_, d_logits_.data(), gradients);
  }

  std::span<float const> logits() const { return logits_.span(); }

 private:
  void shape_sequences(embedding_layout const& layout, jagged const& ids) {
    std::size_t count = 0;
    for (auto const& f : layout.features()) count += f.pooling == pooling::none ? 1 : 0;
    if (offsets_.size() != count) offsets_ = std::vector<exec::buffer<std::uint32_t>>(count);
    inputs_.clear();
    outputs_.clear();
    std::size_t s = 0;
    for (std::size_t f = 0; f < layout.features().size(); ++f) {
      if (layout.features()[f].pooling != pooling::none) continue;
      std::size_t const dim = layout.dim_of_feature(f), at = tables_.first_row(f);
      std::uint32_t const first = ids.offsets[f * ids.samples];
      offsets_[s].resize(ids.samples + 1);
      for (std::size_t i = 0; i <= ids.samples; ++i) offsets_[s][i] = ids.offsets[f * ids.samples + i] - first;
      inputs_.push_back({offsets_[s].span(), host_rows_.data() + at, dim});
      outputs_.push_back({offsets_[s].span(), host_d_rows_.data() + at, dim});
      ++s;
    }
  }

  embedding::micro_tables tables_;
  embedding::device_pooler pooler_;
  typename Model::workspace workspace_;
  model::model_batch<float> batch_;
  exec::buffer<float, exec::cuda> pooled_, d_pooled_, rows_, d_rows_;
  exec::pinned_buffer<float> host_pooled_, host_d_pooled_, host_rows_, host_d_rows_;
  exec::buffer<float> dense_, labels_, logits_, d_logits_;
  std::vector<exec::buffer<std::uint32_t>> offsets_;
  std::vector<model::sequence<float const>> inputs_;
  std::vector<model::sequence<float>> outputs_;
};

}  // namespace nestpipe::engine
