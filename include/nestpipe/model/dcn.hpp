#pragma once
/// @file
/// DCN v2 in its stacked form: Wang et al., "DCN V2" (WWW 2021), section 3.

#include <nestpipe/model/cross.hpp>
#include <nestpipe/model/network.hpp>

namespace nestpipe::model {

struct dcn_options {
  std::size_t cross_layers = 3;
  std::size_t rank = 0;                       ///< of the cross matrices; 0: full matrices
  std::vector<std::size_t> hidden{256, 128};  ///< hidden widths of the network behind the cross layers
  float embedding_scale = 0.05f;              ///< first embeddings are uniform in +- this
};

/// x_0 = [pooled embeddings | dense]; logits = mlp(cross(x_0)). Dims of tables may differ.
template <class Scalar = float, class Math = math::automatic>
class dcn : public network<Scalar> {
  using stack = math::mlp<Scalar, Math>;
  using crosses = cross_network<Scalar, Math>;

 public:
  struct workspace {
    typename crosses::workspace cross;
    typename stack::workspace deep;
    math::scratch<Scalar> input;    ///< (n, width) x_0
    math::scratch<Scalar> d_input;  ///< (n, width)
  };

  explicit dcn(dcn_options options = {}) : options_{std::move(options)} {}

  embedding_request request(std::size_t dim) const { return {dim, {row_init::kind::uniform, options_.embedding_scale, 0}, pooling::sum}; }

  void attach(model_spec const& spec) {
    this->require_sums("dcn", spec.layout);
    this->require_widths("dcn", "hidden", options_.hidden);
    std::size_t const width = spec.layout.pooled_width() + spec.schema.dense;
    require(width > 0, "dcn needs at least one feature or dense column", {}, "name the columns to read");
    this->begin(spec);
    cross_ = crosses{width, options_.cross_layers, options_.rank};
    cross_at_ = 0;
    for (std::size_t l = 0; l < options_.cross_layers; ++l) {
      std::string const name = "cross." + std::to_string(l);
      this->begin_layer();
      if (options_.rank > 0) {
        this->add_weights(name + ".v", width, options_.rank);
        this->add_weights(name + ".u", options_.rank, width);
      } else {
        this->add_weights(name + ".weight", width, width);
      }
      this->add(name + ".bias", 1, width);
    }
    std::vector<std::size_t> widths = options_.hidden;
    widths.push_back(this->outputs());
    deep_ = stack{width, widths, math::activation::relu, math::activation::identity};
    deep_at_ = this->add("deep", deep_);
    this->cut_buckets();
  }

  void forward(Scalar const* p, model_batch<Scalar> const& batch, workspace& ws, Scalar* logits) const {
    std::size_t const n = batch.samples;
    std::size_t const width = deep_.inputs();
    Scalar* const input = ws.input.reserve(n * width);
    this->copy(n, this->pooled_width(), batch.pooled, this->pooled_width(), input, width);
    this->copy(n, this->dense(), batch.dense, this->dense(), input + this->pooled_width(), width);
    Scalar const* const crossed = cross_.forward(p + cross_at_, n, input, ws.cross);
    Scalar const* const out = deep_.forward(p + deep_at_, n, crossed, width, ws.deep);
    std::copy_n(out, n * this->outputs(), logits);
  }

  void backward_inputs(Scalar const* p, model_batch<Scalar> const& batch, workspace& ws, Scalar const* d_logits,
                       embedding_gradients<Scalar> const& d) const {
    std::size_t const n = batch.samples;
    std::size_t const width = deep_.inputs();
    Scalar* const d_input = ws.d_input.reserve(n * width);
    deep_.backward_inputs(p + deep_at_, n, d_logits, this->outputs(), ws.deep, d_input, width);
    cross_.backward_inputs(p + cross_at_, n, ws.input.data(), ws.cross, d_input);
    this->copy(n, this->pooled_width(), d_input, width, d.pooled, this->pooled_width());
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
    Scalar const* const input = ws.input.data();
    Scalar const* const crossed = cross_.layers() > 0 ? ws.cross.layers[cross_.layers()].x.data() : input;
    parameter_range const cross = this->from(r, cross_at_), deep = this->from(r, deep_at_);
    deep_.backward_weights(n, crossed, deep_.inputs(), ws.deep, gradients + deep_at_, deep.first, deep.last);
    cross_.backward_weights(n, input, ws.cross, gradients + cross_at_, cross.first, cross.last);
  }

  dcn_options options_;
  crosses cross_;
  stack deep_;
  std::size_t cross_at_ = 0, deep_at_ = 0;
};

}  // namespace nestpipe::model
