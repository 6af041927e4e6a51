#pragma once
/// @file
/// A communicator chosen at run time from a list of types.

#include <nestpipe/comm/comm.hpp>

#include <concepts>
#include <cstddef>
#include <memory>
#include <span>
#include <string_view>
#include <type_traits>
#include <utility>
#include <variant>

namespace nestpipe::comm {

/// Holds one of `Cs`; one visit per collective. Models @ref communicator when each of `Cs` does.
template <class... Cs>
class any_of {
 public:
  class channel_type {
   public:
    explicit channel_type(std::variant<channel_t<Cs>...> chosen) : chosen_{std::move(chosen)} {}

    void all_to_all_v(std::span<std::byte const> send, std::span<std::size_t const> send_bytes,
                      std::span<std::byte> recv, std::span<std::size_t const> recv_bytes, call_site at) {
      std::visit([&](auto& h) { h.all_to_all_v(send, send_bytes, recv, recv_bytes, at); }, chosen_);
    }
    void all_gather(std::span<std::byte const> send, std::span<std::byte> recv, call_site at) {
      std::visit([&](auto& h) { h.all_gather(send, recv, at); }, chosen_);
    }
    void broadcast(std::span<std::byte> bytes, std::size_t root, call_site at) {
      std::visit([&](auto& h) { h.broadcast(bytes, root, at); }, chosen_);
    }
    void all_reduce_sum(std::span<float> values, call_site at) {
      std::visit([&](auto& h) { h.all_reduce_sum(values, at); }, chosen_);
    }
    void barrier(call_site at) {
      std::visit([&](auto& h) { h.barrier(at); }, chosen_);
    }

   private:
    std::variant<channel_t<Cs>...> chosen_;
  };

  template <class C>
  requires(std::same_as<std::remove_cvref_t<C>, Cs> || ...) any_of(C&& chosen) : chosen_{std::forward<C>(chosen)} {}

  std::size_t rank() const {
    return std::visit([](auto const& c) -> std::size_t { return c.rank(); }, chosen_);
  }
  std::size_t size() const {
    return std::visit([](auto const& c) -> std::size_t { return c.size(); }, chosen_);
  }
  channel_type channel(std::string_view name) { return open(name, std::index_sequence_for<Cs...>{}); }
  void abort(std::string_view reason) noexcept {
    std::visit([&](auto& c) { c.abort(reason); }, chosen_);
  }
  template <class T, class Make>
  std::shared_ptr<T> share(Make make) {
    return std::visit([&](auto& c) { return comm::share<T>(c, make); }, chosen_);
  }

 private:
  /// The channel goes to the place of its communicator: two communicators may have the same type of channel.
  template <std::size_t... I>
  channel_type open(std::string_view name, std::index_sequence<I...>) {
    using variant = std::variant<channel_t<Cs>...>;
    using opener = channel_type (*)(any_of&, std::string_view);
    static constexpr opener table[] = {+[](any_of& self, std::string_view n) {
      return channel_type{variant{std::in_place_index<I>, std::get<I>(self.chosen_).channel(n)}};
    }...};
    return table[chosen_.index()](*this, name);
  }

  std::variant<Cs...> chosen_;
};

}  // namespace nestpipe::comm
