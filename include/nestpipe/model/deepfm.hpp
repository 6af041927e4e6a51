#pragma once
/// @file
/// DeepFM: Guo et al., "DeepFM: A Factorization-Machine based Neural Network for CTR Prediction" (IJCAI 2017).

#include <nestpipe/model/factorization.hpp>
#include <nestpipe/model/linear.hpp>
#include <nestpipe/model/network.hpp>

namespace nestpipe::model {

struct deepfm_options {
  std::vector<std::size_t> hidden{256, 128};  ///< hidden widths of the deep part
  std::size_t labels = 1;                     ///< label columns; each has a machine of its own in every row
  float embedding_scale = 0.01f;              ///< standard deviation of the first factors
};

/// logit = fm + mlp([summed factors of every feature | dense]); both parts read the same rows, [w | v] per label.
template <class Scalar = float, class Math = math::automatic>
class deepfm : public network<Scalar> {
  using stack = math::mlp<Scalar, Math>;

 public:
  struct workspace {
    typename factorization<Scalar>::workspace pairs;
    typename linear_part<Scalar, Math>::workspace linear;
    typename stack::workspace deep;
    math::scratch<Scalar> input;    ///< (n, inputs of deep)
    math::scratch<Scalar> d_input;  ///< the same shape
  };

  explicit deepfm(deepfm_options options = {}) : options_{std::move(options)} {
    require(options_.labels > 0, "deepfm: labels must be at least 1");
  }

  embedding_request request(std::size_t dim) const { return factorization<Scalar>::request(dim, options_.labels, options_.embedding_scale); }

  void attach(model_spec const& spec) {
    require(spec.schema.labels == options_.labels, "deepfm was made for " + std::to_string(options_.labels) + " labels, the data has " + std::to_string(spec.schema.labels), {},
            "set deepfm_options.labels");
    pairs_ = factorization<Scalar>{"deepfm", spec.layout, options_.labels};
    this->require_widths("deepfm", "hidden", options_.hidden);
    this->begin(spec);
    linear_ = {this->dense(), this->outputs()};
    this->add("dense.weight", this->dense(), this->outputs());
    this->add("bias", 1, this->outputs());
    std::vector<std::size_t> widths = options_.hidden;
    widths.push_back(this->outputs());
    deep_ = stack{pairs_.features() * pairs_.factors() + this->dense(), widths, math::activation::relu, math::activation::identity};
    deep_at_ = this->add("deep", deep_);
    this->cut_buckets();
  }

  void forward(Scalar const* p, model_batch<Scalar> const& batch, workspace& ws, Scalar* logits) const {
    std::size_t const n = batch.samples;
    linear_.forward(p, n, batch.dense, logits);
    pairs_.forward(batch, ws.pairs, logits);
    Scalar* const input = ws.input.reserve(n * deep_.inputs());
    for (std::size_t i = 0; i < n; ++i) {
      Scalar* out = input + i * deep_.inputs();
      for (std::size_t f = 0; f < pairs_.features(); ++f)
        out = std::copy_n(batch.pooled + i * this->pooled_width() + pairs_.factor_column(f), pairs_.factors(), out);
      std::copy_n(batch.dense + i * this->dense(), this->dense(), out);
    }
    Scalar const* const deep = deep_.forward(p + deep_at_, n, input, deep_.inputs(), ws.deep);
    for (std::size_t i = 0; i < n * this->outputs(); ++i) logits[i] += deep[i];
  }

  void backward_inputs(Scalar const* p, model_batch<Scalar> const& batch, workspace& ws, Scalar const* d_logits,
                       embedding_gradients<Scalar> const& d) const {
    std::size_t const n = batch.samples;
    pairs_.backward(n, ws.pairs, d_logits, d.pooled);
    linear_.keep(n, batch.dense, d_logits, ws.linear);
    Scalar* const d_input = ws.d_input.reserve(n * deep_.inputs());
    deep_.backward_inputs(p + deep_at_, n, d_logits, this->outputs(), ws.deep, d_input, deep_.inputs());
    for (std::size_t i = 0; i < n; ++i) {
      Scalar const* in = d_input + i * deep_.inputs();
      for (std::size_t f = 0; f < pairs_.features(); ++f) {
        Scalar* const out = d.pooled + i * this->pooled_width() + pairs_.factor_column(f);
        for (std::size_t k = 0; k < pairs_.factors(); ++k) out[k] += in[k];
        in += pairs_.factors();
      }
    }
  }

  void backward_weights(Scalar const*, model_batch<Scalar> const& batch, workspace& ws, Scalar const*, Scalar* gradients) const {
    weights(this->everything, batch.samples, ws, gradients);
  }
  void backward_weights_bucket(std::size_t b, Scalar const*, model_batch<Scalar> const& batch, workspace& ws, Scalar const*, Scalar* gradients) const {
    weights(this->bucket_range(b), batch.samples, ws, gradients);
  }

 private:
  /// Gradients of the layers that begin in `r`.
  void weights(parameter_range r, std::size_t n, workspace const& ws, Scalar* gradients) const {
    parameter_range const deep = this->from(r, deep_at_);
    deep_.backward_weights(n, ws.input.data(), deep_.inputs(), ws.deep, gradients + deep_at_, deep.first, deep.last);
    if (r.first == 0) linear_.backward_weights(n, ws.linear, gradients);
  }

  deepfm_options options_;
  factorization<Scalar> pairs_;
  linear_part<Scalar, Math> linear_;
  stack deep_;
  std::size_t deep_at_ = 0;
};

}  // namespace nestpipe::model
