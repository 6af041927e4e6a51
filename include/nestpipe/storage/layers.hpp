#pragma once
/// @file
/// What a decorator may offer beside the storage concept, found wherever it lies in a stack of decorators.
///
/// A decorator gives out what it wraps by `inner()`; any_of is looked through by `visit`. So a decorator only has members for
/// what it adds, and nobody passes on what he does not know. What no layer offers costs nothing.

#include <nestpipe/core/random.hpp>
#include <nestpipe/storage/storage.hpp>

#include <type_traits>
#include <utility>

namespace nestpipe::storage {

namespace detail {

struct probe {
  template <class T>
  void operator()(T&) const {}
};

}  // namespace detail

/// Calls f(layer) for every layer of a store, from the outside in; f takes any of them.
template <class S, class F>
void for_each_layer(S& store, F&& f) {
  if constexpr (requires { store.visit(detail::probe{}); }) {
    store.visit([&](auto& chosen) { for_each_layer(chosen, f); });
  } else {
    f(store);
    if constexpr (requires { store.inner(); }) for_each_layer(store.inner(), f);
  }
}

namespace detail {

/// Whether `Has::of<L>` holds for some layer L.
template <class Has, class S>
consteval bool some_layer();

template <class Has, template <class...> class AnyOf, class... Ss>
consteval bool some_alternative(AnyOf<Ss...> const*) {
  return (some_layer<Has, Ss>() || ...);
}

template <class Has, class S>
consteval bool some_layer() {
  if constexpr (requires(S& s) { s.visit(probe{}); }) {
    return some_alternative<Has>(static_cast<S const*>(nullptr));
  } else if constexpr (Has::template of<S>) {
    return true;
  } else if constexpr (requires(S& s) { s.inner(); }) {
    return some_layer<Has, std::remove_cvref_t<decltype(std::declval<S&>().inner())>>();
  } else {
    return false;
  }
}

struct layer_rounds {
  template <class L>
  static constexpr bool of = requires(L const& l, float* row, counter_random const& r) {
    l.round(row, r);
    l.rounds();
  };
};
struct layer_stamps {
  template <class L>
  static constexpr bool of = requires { requires L::stamps_rows; };
};

}  // namespace detail

/// Whether a layer may change rows when it stores them, so that an update must leave them as storage will keep them.
template <class S>
inline constexpr bool may_round = detail::some_layer<detail::layer_rounds, S>();

/// Rounds a row in place to what a store keeps exactly; empty when it keeps any row. A plain function and where it belongs, so
/// that the loop over rows is compiled once.
struct row_rounding {
  void (*round)(void const* layer, float* row, counter_random const& random) = nullptr;
  void const* layer = nullptr;

  explicit operator bool() const { return round != nullptr; }
  void operator()(float* row, counter_random const& random) const { round(layer, row, random); }
};

/// Of the layer that rounds, if there is one and it is in use. Valid until the store moves; may be called while another thread
/// reads and writes rows.
template <class S>
row_rounding rounding_of(S const& store) {
  row_rounding found;
  for_each_layer(store, [&](auto const& layer) {
    using layer_type = std::remove_cvref_t<decltype(layer)>;
    if constexpr (detail::layer_rounds::of<layer_type>) {
      if (!layer.rounds()) return;
      found = {[](void const* l, float* row, counter_random const& random) { static_cast<layer_type const*>(l)->round(row, random); }, &layer};
    }
  });
  return found;
}

}  // namespace nestpipe::storage
