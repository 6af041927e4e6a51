#pragma once
/// @file
/// The factorisation machine of degree two: Rendle, "Factorization Machines" (ICDM 2010).

#include <nestpipe/model/factorization.hpp>
#include <nestpipe/model/linear.hpp>
#include <nestpipe/model/network.hpp>

namespace nestpipe::model {

struct fm_options {
  std::size_t labels = 1;           ///< label columns; each has a machine of its own in every row
  float embedding_scale = 0.01f;    ///< standard deviation of the first factors
};

/// logit = bias + dense . w_d + sum of w + 1/2 (|sum v|^2 - sum |v|^2); dense columns are linear only. Rows are [w | v] per label.
template <class Scalar = float, class Math = math::automatic>
class fm : public network<Scalar> {
 public:
  struct workspace {
    typename factorization<Scalar>::workspace pairs;
    typename linear_part<Scalar, Math>::workspace linear;
  };

  explicit fm(fm_options options = {}) : options_{options} { require(options_.labels > 0, "fm: labels must be at least 1"); }

  embedding_request request(std::size_t dim) const { return factorization<Scalar>::request(dim, options_.labels, options_.embedding_scale); }

  void attach(model_spec const& spec) {
    require(spec.schema.labels == options_.labels, "fm was made for " + std::to_string(options_.labels) + " labels, the data has " + std::to_string(spec.schema.labels), {},
            "set fm_options.labels");
    pairs_ = factorization<Scalar>{"fm", spec.layout, options_.labels};
    this->begin(spec);
    linear_ = {this->dense(), this->outputs()};
    this->add("dense.weight", this->dense(), this->outputs());
    this->add("bias", 1, this->outputs());
  }

  void forward(Scalar const* p, model_batch<Scalar> const& batch, workspace& ws, Scalar* logits) const {
    linear_.forward(p, batch.samples, batch.dense, logits);
    pairs_.forward(batch, ws.pairs, logits);
  }

  void backward_inputs(Scalar const*, model_batch<Scalar> const& batch, workspace& ws, Scalar const* d_logits,
                       embedding_gradients<Scalar> const& d) const {
    pairs_.backward(batch.samples, ws.pairs, d_logits, d.pooled);
    linear_.keep(batch.samples, batch.dense, d_logits, ws.linear);
  }

  void backward_weights(Scalar const*, model_batch<Scalar> const& batch, workspace& ws, Scalar const*, Scalar* gradients) const {
    linear_.backward_weights(batch.samples, ws.linear, gradients);
  }

 private:
  fm_options options_;
  factorization<Scalar> pairs_;
  linear_part<Scalar, Math> linear_;
};

}  // namespace nestpipe::model
