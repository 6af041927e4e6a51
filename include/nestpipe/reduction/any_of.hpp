#pragma once
/// @file
/// A reduction chosen at run time from a list of types.

#include <nestpipe/reduction/reduction.hpp>

#include <concepts>
#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <variant>

namespace nestpipe::reduction {

/// Holds one of `Rs`; one visit per call. Models @ref reduction when each of `Rs` does.
template <class... Rs>
class any_of {
 public:
  any_of() = default;
  template <class R>
  requires(std::same_as<std::remove_cvref_t<R>, Rs> || ...) any_of(R&& chosen) : chosen_{std::forward<R>(chosen)} {}

  void open(reduction_shape const& shape) {
    std::visit([&](auto& r) { r.open(shape); }, chosen_);
  }
  std::span<float> leaf(std::size_t j) {
    return std::visit([&](auto& r) -> std::span<float> { return r.leaf(j); }, chosen_);
  }
  void add(std::size_t j, std::size_t first, std::size_t last) {
    std::visit([&](auto& r) { r.add(j, first, last); }, chosen_);
  }
  template <comm::channel H>
  void reduce(H& channel, std::size_t first, std::size_t last, comm::call_site at) {
    std::visit([&](auto& r) { r.reduce(channel, first, last, at); }, chosen_);
  }
  std::span<float const> result() const {
    return std::visit([](auto const& r) -> std::span<float const> { return r.result(); }, chosen_);
  }

 private:
  std::variant<Rs...> chosen_;
};

}  // namespace nestpipe::reduction
