#pragma once
/// @file
/// A model that writes down every label it is asked to learn: with row numbers as labels, it says which samples were trained.

#include <nestpipe/model/model.hpp>

#include <algorithm>
#include <memory>
#include <mutex>
#include <vector>

namespace nestpipe::test {

/// What the ranks of one process have trained.
class ledger {
 public:
  void add(float const* labels, std::size_t n) {
    std::lock_guard lock{mutex_};
    labels_.insert(labels_.end(), labels, labels + n);
  }
  std::vector<float> sorted() const {
    std::lock_guard lock{mutex_};
    std::vector<float> all = labels_;
    std::sort(all.begin(), all.end());
    return all;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<float> labels_;
};

/// logit = bias + every pooled column; loss of a sample = its logit, so that the gradient of the bias is 1 at every step and
/// that of a row is its share of the samples.
class ledger_model {
 public:
  using scalar = float;
  struct workspace {};

  std::shared_ptr<ledger> book = std::make_shared<ledger>();

  model::embedding_request request(std::size_t dim) const { return {dim, {row_init::kind::uniform, 0.1f, 0}, pooling::sum}; }
  void attach(model::model_spec const& spec) { width_ = spec.layout.pooled_width(); }
  std::span<model::parameter const> parameters() const { return parameters_; }
  std::size_t outputs() const { return 1; }
  void forward(float const* p, model::model_batch<float> const& batch, workspace&, float* logits) const {
    for (std::size_t i = 0; i < batch.samples; ++i) {
      logits[i] = p[0];
      for (std::size_t k = 0; k < width_; ++k) logits[i] += batch.pooled[i * width_ + k];
    }
  }
  double loss(model::model_batch<float> const& batch, float const* logits, float scale, float* d_logits) const {
    double sum = 0;
    for (std::size_t i = 0; i < batch.samples; ++i) {
      sum += static_cast<double>(logits[i]);
      d_logits[i] = scale;
    }
    book->add(batch.labels, batch.samples);
    return sum;
  }
  float score(float logit) const { return logit; }
  void backward_inputs(float const*, model::model_batch<float> const& batch, workspace&, float const* d_logits, model::embedding_gradients<float> const& d) const {
    for (std::size_t i = 0; i < batch.samples; ++i) std::fill_n(d.pooled + i * width_, width_, d_logits[i]);
  }
  void backward_weights(float const*, model::model_batch<float> const& batch, workspace&, float const* d_logits, float* gradients) const {
    gradients[0] = 0;
    for (std::size_t i = 0; i < batch.samples; ++i) gradients[0] += d_logits[i];
  }

 private:
  std::vector<model::parameter> parameters_{{"bias", 1, 1, {row_init::kind::zeros, 0.0f, 0}}};
  std::size_t width_ = 0;
};

}  // namespace nestpipe::test
