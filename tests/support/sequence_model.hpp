#pragma once
/// @file
/// A user's own network for tests: it reads rows unpooled and in order, beside pooled features, weights every sample, and
/// is built on nothing but the model concept.

#include <nestpipe/model/model.hpp>

#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

namespace nestpipe::test {

/// With e_k the rows of a bag of m ids in order, a_k = q . e_k and s = sum over k of (k + 1) / m a_k:
/// logit = bias + sum over unpooled features of (s + s^2 / 2 + r . e_last) + sum over pooled features of t . pooled.
/// Labels are (label) or (label, weight): the loss of a sample is weight times its binary cross entropy.
template <class Scalar>
class sequence_model {
 public:
  using scalar = Scalar;
  struct workspace {
    std::vector<Scalar> logits;  ///< only its size matters: proof that a workspace is per micro-batch
    std::vector<Scalar> d_weights;  ///< weight gradients, found in the input half: rows may be gone later
  };

  model::embedding_request request(std::size_t dim) const { return {dim, {row_init::kind::normal, 0.1f, 0}, pooling::none}; }

  void attach(model::model_spec const& spec) {
    layout_ = spec.layout;
    labels_ = spec.schema.labels;
    require(spec.task == model::task::binary, "sequence_model is for binary labels");
    require(labels_ == 1 || labels_ == 2, "sequence_model reads a label and perhaps a weight");
    parameters_.clear();
    at_.clear();
    std::size_t size = 0;
    auto const add = [&](std::string name, std::size_t cols) {
      parameters_.push_back({std::move(name), 1, cols, {row_init::kind::uniform, 0.3f, 0}});
      size += cols;
      return size - cols;
    };
    bias_ = add("bias", 1);
    for (std::size_t f = 0; f < layout_.features().size(); ++f) {
      enum pooling const p = layout_.features()[f].pooling;
      require(p != pooling::sum_and_squares, "sequence_model cannot read squares", "feature " + layout_.features()[f].name);
      at_.push_back(add(layout_.features()[f].name + (p == pooling::none ? ".query" : ".weight"), layout_.dim_of_feature(f)));
      if (p == pooling::none) add(layout_.features()[f].name + ".last", layout_.dim_of_feature(f));
    }
    size_ = size;
  }

  std::span<model::parameter const> parameters() const { return parameters_; }
  std::size_t outputs() const { return 1; }

  void forward(Scalar const* p, model::model_batch<Scalar> const& batch, workspace& ws, Scalar* logits) const {
    ws.logits.assign(batch.samples, Scalar{0});
    for (std::size_t i = 0; i < batch.samples; ++i) {
      Scalar z = p[bias_];
      std::size_t q = 0;
      for (std::size_t f = 0; f < at_.size(); ++f) {
        std::size_t const dim = layout_.dim_of_feature(f);
        Scalar const* const w = p + at_[f];
        if (layout_.features()[f].pooling != pooling::none) {
          z += dot(w, batch.pooled + i * layout_.pooled_width() + layout_.column(f), dim);
          continue;
        }
        auto const& s = batch.sequences[q++];
        std::size_t const first = s.offsets[i], last = s.offsets[i + 1];
        if (first == last) continue;
        Scalar const sum = position_sum(w, s, first, last);
        z += sum + sum * sum / Scalar{2} + dot(w + dim, s.rows + (last - 1) * dim, dim);
      }
      logits[i] = ws.logits[i] = z;
    }
  }

  double loss(model::model_batch<Scalar> const& batch, Scalar const* logits, Scalar scale, Scalar* d_logits) const {
    double total = 0;
    for (std::size_t i = 0; i < batch.samples; ++i) {
      double const z = static_cast<double>(logits[i]);
      double const y = static_cast<double>(batch.labels[i * labels_]);
      double const weight = labels_ == 2 ? static_cast<double>(batch.labels[i * labels_ + 1]) : 1.0;
      total += weight * (std::max(z, 0.0) - z * y + std::log1p(std::exp(-std::abs(z))));
      d_logits[i] = static_cast<Scalar>(static_cast<double>(scale) * weight * (1.0 / (1.0 + std::exp(-z)) - y));
    }
    return total;
  }
  Scalar score(Scalar logit) const { return Scalar{1} / (Scalar{1} + std::exp(-logit)); }

  void backward_inputs(Scalar const* p, model::model_batch<Scalar> const& batch, workspace& ws, Scalar const* d_logits,
                       model::embedding_gradients<Scalar> const& d) const {
    ws.d_weights.assign(size_, Scalar{0});
    for (std::size_t i = 0; i < batch.samples; ++i) {
      Scalar const g = d_logits[i];
      ws.d_weights[bias_] += g;
      std::size_t q = 0;
      for (std::size_t f = 0; f < at_.size(); ++f) {
        std::size_t const dim = layout_.dim_of_feature(f);
        Scalar const* const w = p + at_[f];
        Scalar* const dw = ws.d_weights.data() + at_[f];
        if (layout_.features()[f].pooling != pooling::none) {
          std::size_t const at = i * layout_.pooled_width() + layout_.column(f);
          for (std::size_t k = 0; k < dim; ++k) {
            d.pooled[at + k] = g * w[k];
            dw[k] += g * batch.pooled[at + k];
          }
          continue;
        }
        auto const& s = batch.sequences[q];
        Scalar* const d_rows = d.sequences[q++].rows;
        std::size_t const first = s.offsets[i], last = s.offsets[i + 1];
        if (first == last) continue;
        Scalar const d_sum = g * (Scalar{1} + position_sum(w, s, first, last));
        for (std::size_t r = first; r < last; ++r) {
          Scalar const c = d_sum * static_cast<Scalar>(r - first + 1) / static_cast<Scalar>(last - first);
          for (std::size_t k = 0; k < dim; ++k) {
            d_rows[r * dim + k] = c * w[k] + (r + 1 == last ? g * w[dim + k] : Scalar{0});
            dw[k] += c * s.rows[r * dim + k];
            if (r + 1 == last) dw[dim + k] += g * s.rows[r * dim + k];
          }
        }
      }
    }
  }

  void backward_weights(Scalar const*, model::model_batch<Scalar> const&, workspace& ws, Scalar const*, Scalar* gradients) const {
    std::copy(ws.d_weights.begin(), ws.d_weights.end(), gradients);
  }

 private:
  static Scalar dot(Scalar const* a, Scalar const* b, std::size_t dim) {
    Scalar sum = 0;
    for (std::size_t k = 0; k < dim; ++k) sum += a[k] * b[k];
    return sum;
  }
  static Scalar position_sum(Scalar const* query, model::sequence<Scalar const> const& s, std::size_t first, std::size_t last) {
    Scalar sum = 0;
    for (std::size_t r = first; r < last; ++r)
      sum += static_cast<Scalar>(r - first + 1) / static_cast<Scalar>(last - first) * dot(query, s.rows + r * s.dim, s.dim);
    return sum;
  }

  embedding_layout layout_;
  std::vector<model::parameter> parameters_;
  std::vector<std::size_t> at_;
  std::size_t labels_ = 1, bias_ = 0, size_ = 0;
};

}  // namespace nestpipe::test
