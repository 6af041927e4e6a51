#pragma once
/// @file
/// What an optimizer is: a pure function of (parameters, state, gradient, step), for one row or one dense parameter row.
///
/// | requirement on O (trivially copyable) | meaning |
/// |---|---|
/// | `o.state_size(dim)` | floats of state beside `dim` parameters |
/// | `o.initialize(state, dim)` | first state |
/// | `o.prepare(step, rate_factor)` | per-step constants (trivially copyable); step counts from 1 (the global batch number); the factor comes from the learning-rate schedule |
/// | `o.update(row, state, gradient, dim, constants)` | one update in place; no other effect |
///
/// `initialize` and `update` are NESTPIPE_HOST_DEVICE and const; `update` takes `dim` as a template parameter convertible
/// to std::size_t (`auto dim`), so that common dims are compile-time constants. `gradient` never aliases row or state.
/// Optimizers are lazy on rows: only touched rows move, weight decay included; `step` is the global one.
/// `rate` in the members is the learning rate before the schedule's factor. Optional: `o.check()` throws config_error naming the
/// first member out of its domain. The loops that take roots vectorise with -fno-math-errno only; the
/// bits are the same without.

#include <nestpipe/core/config.hpp>
#include <nestpipe/core/error.hpp>

#include <concepts>
#include <type_traits>

namespace nestpipe::optimizer {

template <class O>
concept has_state_size = requires(O const& o, std::size_t dim) {
  { o.state_size(dim) } -> std::convertible_to<std::size_t>;
};
template <class O>
concept has_initialize = requires(O const& o, float* state, std::size_t dim) { o.initialize(state, dim); };
template <class O>
concept has_prepare = requires(O const& o, std::uint64_t step, float factor) { o.prepare(step, factor); };
template <class O>
concept has_update = has_prepare<O> && requires(O const& o, float* row, float const* gradient, std::size_t dim) {
  o.update(row, row, gradient, dim, o.prepare(std::uint64_t{1}, 1.0f));
};
template <class O>
concept optimizer = has_state_size<O> && has_initialize<O> && has_update<O> && std::is_trivially_copyable_v<O>;

template <class O>
consteval bool audit() {
  static_assert(has_state_size<O>, "optimizer policy [1/5]: provide state_size(std::size_t dim) const");
  static_assert(has_initialize<O>, "optimizer policy [2/5]: provide initialize(float* state, std::size_t dim) const");
  static_assert(has_prepare<O>, "optimizer policy [3/5]: provide prepare(std::uint64_t step, float rate_factor) const");
  if constexpr (has_prepare<O>)
    static_assert(has_update<O>, "optimizer policy [4/5]: provide update(float* row, float* state, float const* gradient, auto dim, constants) const");
  static_assert(std::is_trivially_copyable_v<O>, "optimizer policy [5/5]: must be trivially copyable");
  return true;
}

/// Calls `f` with the concrete policy: itself, or the active alternative of an any_of. One visit per batched call.
template <class Policy, class F>
decltype(auto) with_concrete(Policy&& policy, F&& f) {
  if constexpr (requires { policy.visit(f); }) {
    return policy.visit(static_cast<F&&>(f));
  } else {
    return f(policy);
  }
}

}  // namespace nestpipe::optimizer
