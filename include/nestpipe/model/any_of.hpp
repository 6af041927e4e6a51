#pragma once
/// @file
/// A model chosen at run time among those named at compile time; one visit per batched call.

#include <nestpipe/model/model.hpp>

#include <array>
#include <type_traits>
#include <utility>
#include <variant>

namespace nestpipe::model {

/// Meets the model concept. All alternatives have one scalar. A workspace follows the model it is used with.
template <class First, class... Rest>
class any_of {
  static_assert((std::is_same_v<typename First::scalar, typename Rest::scalar> && ...), "nestpipe: the models of model::any_of must have one scalar type");
  using models = std::variant<First, Rest...>;

 public:
  using scalar = typename First::scalar;
  using workspace = std::variant<typename First::workspace, typename Rest::workspace...>;

  any_of() = default;
  template <class M>
    requires(std::is_same_v<M, First> || (std::is_same_v<M, Rest> || ...))
  any_of(M model) : model_{std::move(model)} {}

  /// Calls f with the chosen model.
  template <class F>
  decltype(auto) visit(F&& f) const { return std::visit(std::forward<F>(f), model_); }
  template <class F>
  decltype(auto) visit(F&& f) { return std::visit(std::forward<F>(f), model_); }
  std::size_t index() const { return model_.index(); }

  embedding_request request(std::size_t dim) const {
    return visit([&](auto const& m) -> embedding_request { return m.request(dim); });
  }
  void attach(model_spec const& spec) {
    visit([&](auto& m) { m.attach(spec); });
  }
  std::span<parameter const> parameters() const {
    return visit([](auto const& m) -> std::span<parameter const> { return m.parameters(); });
  }
  std::size_t outputs() const {
    return visit([](auto const& m) -> std::size_t { return m.outputs(); });
  }
  void forward(scalar const* p, model_batch<scalar> const& batch, workspace& ws, scalar* logits) const {
    with_workspace(ws, [&](auto const& m, auto& w) { m.forward(p, batch, w, logits); });
  }
  double loss(model_batch<scalar> const& batch, scalar const* logits, scalar scale, scalar* d_logits) const {
    return visit([&](auto const& m) -> double { return m.loss(batch, logits, scale, d_logits); });
  }
  scalar score(scalar logit) const {
    return visit([&](auto const& m) -> scalar { return m.score(logit); });
  }
  void backward_inputs(scalar const* p, model_batch<scalar> const& batch, workspace& ws, scalar const* d_logits, embedding_gradients<scalar> const& d) const {
    with_workspace(ws, [&](auto const& m, auto& w) { m.backward_inputs(p, batch, w, d_logits, d); });
  }
  void backward_weights(scalar const* p, model_batch<scalar> const& batch, workspace& ws, scalar const* d_logits, scalar* gradients) const {
    with_workspace(ws, [&](auto const& m, auto& w) { m.backward_weights(p, batch, w, d_logits, gradients); });
  }
  std::size_t weight_buckets() const {
    return visit([](auto const& m) -> std::size_t { return model::weight_buckets(m); });
  }
  parameter_range bucket_range(std::size_t b) const {
    return visit([&](auto const& m) -> parameter_range { return model::bucket_range(m, b); });
  }
  void backward_weights_bucket(std::size_t b, scalar const* p, model_batch<scalar> const& batch, workspace& ws, scalar const* d_logits, scalar* gradients) const {
    with_workspace(ws, [&](auto const& m, auto& w) { model::backward_weights_bucket(m, b, p, batch, w, d_logits, gradients); });
  }

 private:
  /// Calls f(model, its workspace); a workspace last used with another alternative starts afresh.
  template <class F>
  void with_workspace(workspace& ws, F&& f) const {
    [&]<std::size_t... I>(std::index_sequence<I...>) {
      (void)((model_.index() == I && (f(*std::get_if<I>(&model_), matching<I>(ws)), true)) || ...);
    }(std::make_index_sequence<1 + sizeof...(Rest)>{});
  }
  template <std::size_t I>
  static auto& matching(workspace& ws) {
    if (ws.index() != I) ws.template emplace<I>();
    return *std::get_if<I>(&ws);
  }

  models model_;
};

}  // namespace nestpipe::model
