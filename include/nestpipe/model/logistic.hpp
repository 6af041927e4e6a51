#pragma once
/// @file
/// Logistic regression (linear regression under task::regression) over ids and dense columns.

#include <nestpipe/model/linear.hpp>
#include <nestpipe/model/network.hpp>

namespace nestpipe::model {

struct logistic_options {
  std::size_t labels = 1;  ///< label columns; each has its own weight in every row
};

/// logit_l = bias_l + sum over features of pooled_l + dense . w_l. Table rows hold one weight a label, zero at first.
template <class Scalar = float, class Math = math::automatic>
class logistic : public network<Scalar> {
 public:
  using workspace = typename linear_part<Scalar, Math>::workspace;

  explicit logistic(logistic_options options = {}) : options_{options} {
    require(options_.labels > 0, "logistic: labels must be at least 1");
  }

  embedding_request request(std::size_t) const { return {options_.labels, {row_init::kind::zeros, 0.0f, 0}, pooling::sum}; }

  void attach(model_spec const& spec) {
    require(spec.schema.labels == options_.labels, "logistic was made for " + std::to_string(options_.labels) + " labels, the data has " + std::to_string(spec.schema.labels), {},
            "set logistic_options.labels");
    this->require_sums("logistic", spec.layout);
    features_ = spec.layout.features().size();
    for (std::size_t f = 0; f < features_; ++f)
      require(spec.layout.dim_of_feature(f) == options_.labels, "logistic needs tables of dim " + std::to_string(options_.labels) + " (one weight a label), got " + std::to_string(spec.layout.dim_of_feature(f)),
              this->place(spec.layout, f), "take the dim from request()");
    this->begin(spec);
    linear_ = {this->dense(), this->outputs()};
    this->add("dense.weight", this->dense(), this->outputs());
    this->add("bias", 1, this->outputs());
  }

  void forward(Scalar const* p, model_batch<Scalar> const& batch, workspace&, Scalar* logits) const {
    std::size_t const n = batch.samples;
    std::size_t const labels = this->outputs();
    linear_.forward(p, n, batch.dense, logits);
    for (std::size_t i = 0; i < n; ++i) {
      Scalar const* const row = batch.pooled + i * this->pooled_width();
      for (std::size_t l = 0; l < labels; ++l) {
        Scalar total = logits[i * labels + l];
        for (std::size_t f0 = 0; f0 < features_; f0 += sum_block) {
          Scalar part = 0;
          for (std::size_t f = f0; f < std::min(features_, f0 + sum_block); ++f) part += row[f * labels + l];
          total += part;
        }
        logits[i * labels + l] = total;
      }
    }
  }

  void backward_inputs(Scalar const*, model_batch<Scalar> const& batch, workspace& ws, Scalar const* d_logits,
                       embedding_gradients<Scalar> const& d) const {
    std::size_t const n = batch.samples;
    std::size_t const labels = this->outputs();
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t f = 0; f < features_; ++f)
        std::copy_n(d_logits + i * labels, labels, d.pooled + i * this->pooled_width() + f * labels);
    linear_.keep(n, batch.dense, d_logits, ws);
  }

  void backward_weights(Scalar const*, model_batch<Scalar> const& batch, workspace& ws, Scalar const*, Scalar* gradients) const {
    linear_.backward_weights(batch.samples, ws, gradients);
  }

 private:
  logistic_options options_;
  std::size_t features_ = 0;
  linear_part<Scalar, Math> linear_;
};

}  // namespace nestpipe::model
