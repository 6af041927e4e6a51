#pragma once
/// @file
/// DLRM: Naumov et al., "Deep Learning Recommendation Model for Personalization and Recommendation Systems" (2019).

#include <nestpipe/model/interaction.hpp>
#include <nestpipe/model/network.hpp>

namespace nestpipe::model {

struct dlrm_options {
  std::vector<std::size_t> bottom{512, 256};  ///< hidden widths; a layer to the embedding size follows
  std::vector<std::size_t> top{512, 256};     ///< hidden widths; a layer to the logits follows
  float embedding_scale = 0.05f;              ///< first embeddings are uniform in +- this
};

/// z = bottom(dense); vectors are z and every feature's pooled embedding; logits = top([z | dot products of all pairs]).
/// Without dense columns there is no z: the pooled embeddings themselves take its place beside the dot products (the paper
/// always has dense columns). All tables have one dim.
template <class Scalar = float, class Math = math::automatic>
class dlrm : public network<Scalar> {
  using stack = math::mlp<Scalar, Math>;

 public:
  struct workspace {
    typename stack::workspace bottom, top;
    math::scratch<Scalar> dense;      ///< (n, dense)
    math::scratch<Scalar> input;      ///< (n, inputs of top)
    math::scratch<Scalar> d_input;    ///< the same shape
    math::scratch<Scalar> d_bottom;   ///< (n, dim)
    math::scratch<Scalar> sample;     ///< vectors, their gradients and scratch of one sample
  };

  explicit dlrm(dlrm_options options = {}) : options_{std::move(options)} {}

  embedding_request request(std::size_t dim) const { return {dim, {row_init::kind::uniform, options_.embedding_scale, 0}, pooling::sum}; }

  void attach(model_spec const& spec) {
    embedding_layout const& layout = spec.layout;
    features_ = layout.features().size();
    require(features_ > 0, "dlrm needs at least one categorical feature", {}, "use another model for dense columns alone");
    this->require_sums("dlrm", layout);
    dim_ = layout.dim_of_feature(0);
    for (std::size_t f = 0; f < features_; ++f)
      require(layout.dim_of_feature(f) == dim_, "dlrm needs one dim for all tables: expected " + std::to_string(dim_) + " as in the first feature, got " + std::to_string(layout.dim_of_feature(f)),
              this->place(layout, f), "give all tables the same dim");
    this->require_widths("dlrm", "bottom", options_.bottom);
    this->require_widths("dlrm", "top", options_.top);
    this->begin(spec);
    has_bottom_ = this->dense() > 0;
    if (has_bottom_) {
      std::vector<std::size_t> widths = options_.bottom;
      widths.push_back(dim_);
      bottom_ = stack{this->dense(), widths, math::activation::relu, math::activation::relu};
      bottom_at_ = this->add("bottom", bottom_);
    }
    vectors_ = features_ + (has_bottom_ ? 1 : 0);
    pairs_ = pair_interaction<Scalar>{vectors_, dim_};
    direct_ = has_bottom_ ? dim_ : features_ * dim_;
    std::vector<std::size_t> widths = options_.top;
    widths.push_back(this->outputs());
    top_ = stack{direct_ + pairs_.pairs(), widths, math::activation::relu, math::activation::identity};
    top_at_ = this->add("top", top_);
    this->cut_buckets();
  }

  void forward(Scalar const* p, model_batch<Scalar> const& batch, workspace& ws, Scalar* logits) const {
    std::size_t const n = batch.samples;
    std::size_t const width = top_.inputs();
    Scalar const* z = nullptr;
    if (has_bottom_) {
      Scalar* const dense = ws.dense.reserve(n * this->dense());
      this->copy(n, this->dense(), batch.dense, this->dense(), dense, this->dense());
      z = bottom_.forward(p + bottom_at_, n, dense, this->dense(), ws.bottom);
    }
    Scalar* const input = ws.input.reserve(n * width);
    Scalar* const vectors = ws.sample.reserve(2 * vectors_ * dim_ + pairs_.scratch_size());
    for (std::size_t i = 0; i < n; ++i) {
      gather(batch, z, i, vectors);
      std::copy_n(vectors, direct_, input + i * width);
      pairs_.forward(vectors, vectors + 2 * vectors_ * dim_, input + i * width + direct_);
    }
    Scalar const* const out = top_.forward(p + top_at_, n, input, width, ws.top);
    std::copy_n(out, n * this->outputs(), logits);
  }

  void backward_inputs(Scalar const* p, model_batch<Scalar> const& batch, workspace& ws, Scalar const* d_logits,
                       embedding_gradients<Scalar> const& d) const {
    std::size_t const n = batch.samples;
    std::size_t const width = top_.inputs();
    Scalar* const d_input = ws.d_input.reserve(n * width);
    top_.backward_inputs(p + top_at_, n, d_logits, this->outputs(), ws.top, d_input, width);
    Scalar const* const z = has_bottom_ ? ws.bottom.outputs.back().data() : nullptr;
    Scalar* const d_bottom = ws.d_bottom.reserve(has_bottom_ ? n * dim_ : 0);
    Scalar* const vectors = ws.sample.data();
    Scalar* const d_vectors = vectors + vectors_ * dim_;
    for (std::size_t i = 0; i < n; ++i) {
      gather(batch, z, i, vectors);
      pairs_.backward(vectors, d_input + i * width + direct_, d_vectors + vectors_ * dim_, d_vectors);
      for (std::size_t k = 0; k < direct_; ++k) d_vectors[k] += d_input[i * width + k];
      if (has_bottom_) std::copy_n(d_vectors, dim_, d_bottom + i * dim_);
      std::copy_n(d_vectors + (has_bottom_ ? dim_ : 0), features_ * dim_, d.pooled + i * this->pooled_width());
    }
    if (has_bottom_) bottom_.backward_inputs(p + bottom_at_, n, d_bottom, dim_, ws.bottom, nullptr, 0);
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
    parameter_range const top = this->from(r, top_at_), bottom = this->from(r, bottom_at_);
    top_.backward_weights(n, ws.input.data(), top_.inputs(), ws.top, gradients + top_at_, top.first, top.last);
    if (has_bottom_) bottom_.backward_weights(n, ws.dense.data(), this->dense(), ws.bottom, gradients + bottom_at_, bottom.first, bottom.last);
  }

  /// Vectors of sample i: z first (if there is one), then the features in order.
  void gather(model_batch<Scalar> const& batch, Scalar const* z, std::size_t i, Scalar* vectors) const {
    if (has_bottom_) vectors = std::copy_n(z + i * dim_, dim_, vectors);
    std::copy_n(batch.pooled + i * this->pooled_width(), features_ * dim_, vectors);
  }

  dlrm_options options_;
  stack bottom_, top_;
  pair_interaction<Scalar> pairs_;
  std::size_t features_ = 0, dim_ = 0, vectors_ = 0, direct_ = 0;
  std::size_t bottom_at_ = 0, top_at_ = 0;
  bool has_bottom_ = false;
};

}  // namespace nestpipe::model
