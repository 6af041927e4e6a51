#pragma once
/// @file
/// One of several optimizers, chosen at run time; itself an optimizer.

#include <nestpipe/optimizer/optimizer.hpp>

#include <initializer_list>
#include <new>
#include <type_traits>
#include <utility>

namespace nestpipe::optimizer {

namespace detail {

template <class T, class... Ts>
inline constexpr std::size_t index_in = [] {
  constexpr bool same[] = {std::is_same_v<T, Ts>...};
  std::size_t i = 0;
  while (i < sizeof...(Ts) && !same[i]) ++i;
  return i;
}();

template <std::size_t I, class T, class... Ts>
struct type_at : type_at<I - 1, Ts...> {};
template <class T, class... Ts>
struct type_at<0, T, Ts...> {
  using type = T;
};

constexpr std::size_t largest(std::initializer_list<std::size_t> values) {
  std::size_t most = 0;
  for (std::size_t const v : values) most = v > most ? v : most;
  return most;
}

/// Tagged bytes: a variant that stays trivially copyable and works in device code, where std::variant does not.
template <class... Ts>
class tagged {
  static_assert((std::is_trivially_copyable_v<Ts> && ...), "optimizer::any_of: every alternative must be trivially copyable");

 public:
  template <std::size_t I>
  using alternative = typename type_at<I, Ts...>::type;

  NESTPIPE_HOST_DEVICE tagged() { emplace<0>(alternative<0>{}); }

  template <std::size_t I>
  NESTPIPE_HOST_DEVICE void emplace(alternative<I> const& value) {
    ::new (static_cast<void*>(bytes_)) alternative<I>(value);
    index_ = I;
  }
  NESTPIPE_HOST_DEVICE std::size_t index() const { return index_; }
  template <std::size_t I>
  NESTPIPE_HOST_DEVICE alternative<I> const& get() const {
    return *reinterpret_cast<alternative<I> const*>(bytes_);
  }
  template <std::size_t I>
  NESTPIPE_HOST_DEVICE alternative<I>& get() {
    return *reinterpret_cast<alternative<I>*>(bytes_);
  }

 private:
  alignas(largest({alignof(Ts)...})) unsigned char bytes_[largest({sizeof(Ts)...})] = {};
  std::size_t index_ = 0;
};

}  // namespace detail

/// Meets the optimizer concept; `visit` gives batched code the concrete optimizer once a call (with_concrete does so), so that
/// no row pays for the choice. Doubled alternatives are not allowed.
template <class... Os>
class any_of {
  static_assert(sizeof...(Os) > 0, "optimizer::any_of: name at least one optimizer");
  static_assert((audit<Os>() && ...));

 public:
  /// Per-step constants of whichever alternative is active; valid for the any_of that prepared them.
  using constants = detail::tagged<decltype(std::declval<Os const&>().prepare(std::uint64_t{1}, 1.0f))...>;

  /// The first alternative with its defaults.
  any_of() = default;

  template <class O>
    requires(std::is_same_v<O, Os> || ...)
  any_of(O const& o) {  // NOLINT: implicit, so that an optimizer goes wherever an any_of is asked for
    held_.template emplace<detail::index_in<O, Os...>>(o);
  }

  std::size_t index() const { return held_.index(); }

  /// Calls `f` with the active alternative; all calls must return one type.
  template <class F>
  decltype(auto) visit(F&& f) const {
    return visit_at<0>(*this, f);
  }
  template <class F>
  decltype(auto) visit(F&& f) {
    return visit_at<0>(*this, f);
  }

  NESTPIPE_HOST_DEVICE std::size_t state_size(std::size_t dim) const { return state_size_at<0>(dim); }
  NESTPIPE_HOST_DEVICE void initialize(float* state, std::size_t dim) const { initialize_at<0>(state, dim); }

  constants prepare(std::uint64_t step, float factor) const {
    constants c;
    prepare_at<0>(step, factor, c);
    return c;
  }

  template <class Dim>
  NESTPIPE_HOST_DEVICE void update(float* row, float* state, float const* gradient, Dim dim, constants const& c) const {
    update_at<0>(row, state, gradient, dim, c);
  }

  /// Forwards to the active alternative's check(), where it has one. @throws config_error
  void check() const {
    visit([](auto const& o) {
      if constexpr (requires { o.check(); }) o.check();
    });
  }

 private:
  static constexpr std::size_t count = sizeof...(Os);

  template <std::size_t I, class Self, class F>
  static decltype(auto) visit_at(Self& self, F& f) {
    if constexpr (I + 1 < count) {
      if (self.held_.index() != I) return visit_at<I + 1>(self, f);
    }
    return f(self.held_.template get<I>());
  }

  template <std::size_t I>
  NESTPIPE_HOST_DEVICE std::size_t state_size_at(std::size_t dim) const {
    if constexpr (I + 1 < count) {
      if (held_.index() != I) return state_size_at<I + 1>(dim);
    }
    return held_.template get<I>().state_size(dim);
  }

  template <std::size_t I>
  NESTPIPE_HOST_DEVICE void initialize_at(float* state, std::size_t dim) const {
    if constexpr (I + 1 < count) {
      if (held_.index() != I) return initialize_at<I + 1>(state, dim);
    }
    held_.template get<I>().initialize(state, dim);
  }

  template <std::size_t I>
  void prepare_at(std::uint64_t step, float factor, constants& c) const {
    if constexpr (I + 1 < count) {
      if (held_.index() != I) return prepare_at<I + 1>(step, factor, c);
    }
    c.template emplace<I>(held_.template get<I>().prepare(step, factor));
  }

  template <std::size_t I, class Dim>
  NESTPIPE_HOST_DEVICE void update_at(float* row, float* state, float const* gradient, Dim dim, constants const& c) const {
    if constexpr (I + 1 < count) {
      if (held_.index() != I) return update_at<I + 1>(row, state, gradient, dim, c);
    }
    held_.template get<I>().update(row, state, gradient, dim, c.template get<I>());
  }

  detail::tagged<Os...> held_{};
};

}  // namespace nestpipe::optimizer
