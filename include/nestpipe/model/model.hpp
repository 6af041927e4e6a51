#pragma once
/// @file
/// What a model is: the dense network over pooled embeddings. It owns no parameters: they are one flat array that the
/// trainer keeps, so that several micro-batches can run at once against the same values.
///
/// | requirement on M | meaning |
/// |---|---|
/// | `typename M::scalar` | float (training) or double (oracles) |
/// | `typename M::workspace` | default-constructible scratch of one micro-batch between forward and backward; grows, never shrinks |
/// | `m.request(dim)` | `embedding_request`: row width, first values and pooling that each feature's table needs at embedding size `dim` |
/// | `m.attach(model_spec)` | fixes shapes. @throws config_error naming the feature or table that does not fit |
/// | `m.parameters()` | `std::span<parameter const>`: dense parameters in flat order |
/// | `m.outputs()` | logits per sample |
/// | `m.forward(p, batch, ws, logits)` | logits (samples, outputs) |
/// | `m.loss(batch, logits, scale, d_logits)` | returns the *sum* of the samples' losses (double); writes d(scale * sum) / d logits |
/// | `m.backward_inputs(p, batch, ws, d_logits, d)` | gradients of the embeddings: overwrites all of `d` |
/// | `m.backward_weights(p, batch, ws, d_logits, gradients)` | overwrites all parameter gradients (flat); reads ws only, may run after the gradients of the embeddings are gone |
/// | `m.score(logit)` | what evaluation and predict report: a probability, or the value itself |
/// | `m.weight_buckets()` (optional with the next two, 1) | parts B >= 1 of the flat parameters whose gradients can be computed, and reduced, one by one |
/// | `m.bucket_range(b)` | `parameter_range` of bucket b; together they partition the parameters, in the order in which backward can finish them (last layers first) |
/// | `m.backward_weights_bucket(b, p, batch, ws, d_logits, gradients)` | writes exactly that range of the flat gradients, the bits that backward_weights writes there; the buckets of a workspace may come in any order |
///
/// All members but attach are const and may run concurrently with distinct workspaces. `samples` may be 0.
/// No statistic may cross samples of different micro-batches, and the result of a sample block must depend on that block only.

#include <nestpipe/core/config.hpp>
#include <nestpipe/core/error.hpp>
#include <nestpipe/core/schema.hpp>

#include <concepts>
#include <cstdint>
#include <span>
#include <string>

namespace nestpipe::model {

/// Rows of a feature with pooling none: bag of sample i is rows [offsets[i], offsets[i + 1]).
template <class Scalar>
struct sequence {
  std::span<std::uint32_t const> offsets;  ///< (samples + 1), starting at 0
  Scalar* rows = nullptr;                  ///< (offsets.back(), dim) row-major
  std::size_t dim = 0;
};

/// Input of one micro-batch. All matrices are row-major and contiguous, base pointers 64-byte aligned.
template <class Scalar>
struct model_batch {
  std::size_t samples = 0;
  Scalar const* dense = nullptr;    ///< (samples, schema.dense)
  Scalar const* pooled = nullptr;   ///< (samples, layout.pooled_width()); feature f at layout.column(f)
  std::span<sequence<Scalar const> const> sequences;  ///< one per feature with pooling none, in feature order
  Scalar const* labels = nullptr;   ///< (samples, schema.labels)
};

/// Gradients of the embeddings, shaped like the input.
template <class Scalar>
struct embedding_gradients {
  Scalar* pooled = nullptr;                    ///< (samples, layout.pooled_width())
  std::span<sequence<Scalar> const> sequences;
};

/// A dense parameter array (rows, cols) and its first values, drawn by counter from (seed, index of the parameter).
struct parameter {
  std::string name;
  std::size_t rows = 1;
  std::size_t cols = 1;
  row_init init{row_init::kind::zeros, 0.0f, 0};
  std::size_t size() const { return rows * cols; }
};

/// What a model needs of each feature's table.
struct embedding_request {
  std::size_t dim = 1;                       ///< floats per row
  row_init init{};
  enum pooling pooling = pooling::sum;
};

/// Elements [first, last) of the flat parameters.
struct parameter_range {
  std::size_t first = 0;
  std::size_t last = 0;
  std::size_t size() const { return last - first; }
  bool operator==(parameter_range const&) const = default;
};

enum class task : std::uint8_t { binary, regression };

/// Everything `attach` may look at.
struct model_spec {
  struct schema schema;
  embedding_layout layout;
  enum task task = task::binary;
};

template <class M>
concept has_types = requires {
  typename M::scalar;
  typename M::workspace;
};
template <class M>
concept has_request = requires(M const& m, std::size_t dim) {
  { m.request(dim) } -> std::convertible_to<embedding_request>;
};
template <class M>
concept has_attach = requires(M& m, model_spec const& spec) { m.attach(spec); };
template <class M>
concept has_parameters = requires(M const& m) {
  { m.parameters() } -> std::convertible_to<std::span<parameter const>>;
  { m.outputs() } -> std::convertible_to<std::size_t>;
};
template <class M>
concept has_forward = has_types<M> && requires(M const& m, typename M::scalar const* p, model_batch<typename M::scalar> const& b,
                                               typename M::workspace& ws, typename M::scalar* out) { m.forward(p, b, ws, out); };
template <class M>
concept has_loss = has_types<M> && requires(M const& m, model_batch<typename M::scalar> const& b, typename M::scalar const* logits,
                                            typename M::scalar scale, typename M::scalar* d) {
  { m.loss(b, logits, scale, d) } -> std::convertible_to<double>;
  { m.score(scale) } -> std::convertible_to<typename M::scalar>;
};
template <class M>
concept has_backward_inputs = has_types<M> && requires(M const& m, typename M::scalar const* p, model_batch<typename M::scalar> const& b,
                                                       typename M::workspace& ws, embedding_gradients<typename M::scalar> const& d) {
  m.backward_inputs(p, b, ws, p, d);
};
template <class M>
concept has_backward_weights = has_types<M> && requires(M const& m, typename M::scalar const* p, model_batch<typename M::scalar> const& b,
                                                        typename M::workspace& ws, typename M::scalar* g) {
  m.backward_weights(p, b, ws, p, g);
};
/// Whether the gradients of the weights come in parts too. Not required of a model.
template <class M>
concept has_weight_buckets = has_types<M> && requires(M const& m, std::size_t b, typename M::scalar const* p, model_batch<typename M::scalar> const& batch,
                                                      typename M::workspace& ws, typename M::scalar* g) {
  { m.weight_buckets() } -> std::convertible_to<std::size_t>;
  { m.bucket_range(b) } -> std::convertible_to<parameter_range>;
  m.backward_weights_bucket(b, p, batch, ws, p, g);
};
template <class M>
concept model = has_types<M> && has_request<M> && has_attach<M> && has_parameters<M> && has_forward<M> && has_loss<M> &&
                has_backward_inputs<M> && has_backward_weights<M> && std::copy_constructible<M>;

template <class M>
consteval bool audit() {
  static_assert(has_types<M>, "model policy [1/8]: define member types scalar and workspace");
  static_assert(has_request<M>, "model policy [2/8]: provide embedding_request request(std::size_t dim) const");
  static_assert(has_attach<M>, "model policy [3/8]: provide attach(model_spec const&)");
  static_assert(has_parameters<M>, "model policy [4/8]: provide parameters() const and outputs() const");
  if constexpr (has_types<M>) {
    static_assert(has_forward<M>, "model policy [5/8]: provide forward(parameters, batch, workspace, logits) const");
    static_assert(has_loss<M>, "model policy [6/8]: provide double loss(batch, logits, scale, d_logits) const and score(logit) const");
    static_assert(has_backward_inputs<M>, "model policy [7/8]: provide backward_inputs(parameters, batch, workspace, d_logits, embedding_gradients) const, apart from the weights");
    static_assert(has_backward_weights<M>, "model policy [8/8]: provide backward_weights(parameters, batch, workspace, d_logits, gradients) const, apart from the inputs");
  }
  return true;
}

/// Parts in which the gradients of the weights come; 1 for a model that has none.
template <class M>
std::size_t weight_buckets(M const& m) {
  if constexpr (has_weight_buckets<M>) {
    return m.weight_buckets();
  } else {
    return 1;
  }
}

/// Range of bucket b, b < weight_buckets(m).
template <class M>
parameter_range bucket_range(M const& m, std::size_t b) {
  if constexpr (has_weight_buckets<M>) {
    return m.bucket_range(b);
  } else {
    parameter_range all;
    for (parameter const& p : m.parameters()) all.last += p.size();
    return all;
  }
}

/// Writes bucket b of the flat gradients, b < weight_buckets(m).
template <class M>
void backward_weights_bucket(M const& m, std::size_t b, typename M::scalar const* p, model_batch<typename M::scalar> const& batch, typename M::workspace& ws,
                             typename M::scalar const* d_logits, typename M::scalar* gradients) {
  if constexpr (has_weight_buckets<M>) {
    m.backward_weights_bucket(b, p, batch, ws, d_logits, gradients);
  } else {
    m.backward_weights(p, batch, ws, d_logits, gradients);
  }
}

}  // namespace nestpipe::model
