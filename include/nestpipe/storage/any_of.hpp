#pragma once
/// @file
/// One of several stores, chosen at run time; itself a store.

#include <nestpipe/storage/storage.hpp>

#include <type_traits>
#include <utility>
#include <variant>

namespace nestpipe::storage {

/// Meets the storage concept with one visit per batched call.
template <class... Ss>
class any_of {
  static_assert(sizeof...(Ss) > 0, "storage::any_of: name at least one storage policy");
  static_assert((audit<Ss>() && ...));

 public:
  /// The first alternative with its defaults.
  any_of() = default;

  template <class S>
    requires(std::is_same_v<std::remove_cvref_t<S>, Ss> || ...)
  any_of(S&& store) : held_{std::forward<S>(store)} {}  // NOLINT: implicit, so that a store goes wherever an any_of is asked for

  std::size_t index() const { return held_.index(); }

  /// Calls `f` with the active alternative; all calls must return one type.
  template <class F>
  decltype(auto) visit(F&& f) {
    return std::visit(std::forward<F>(f), held_);
  }
  template <class F>
  decltype(auto) visit(F&& f) const {
    return std::visit(std::forward<F>(f), held_);
  }

  void open(storage_spec const& spec) {
    visit([&](auto& s) { s.open(spec); });
  }
  void find(std::span<key_type const> keys, std::span<row_handle> handles) {
    visit([&](auto& s) { s.find(keys, handles); });
  }
  void find_or_create(std::span<key_type const> keys, std::span<row_handle> handles) {
    visit([&](auto& s) { s.find_or_create(keys, handles); });
  }
  void gather(std::span<row_handle const> handles, float* rows) {
    visit([&](auto& s) { s.gather(handles, rows); });
  }
  void scatter(std::span<row_handle const> handles, float const* rows) {
    visit([&](auto& s) { s.scatter(handles, rows); });
  }
  std::uint64_t epoch() const {
    return visit([](auto const& s) { return static_cast<std::uint64_t>(s.epoch()); });
  }
  void pin(std::span<key_type const> keys) {
    visit([&](auto& s) { s.pin(keys); });
  }
  void release(std::span<key_type const> keys) {
    visit([&](auto& s) { s.release(keys); });
  }
  void erase(std::span<key_type const> keys) {
    visit([&](auto& s) { s.erase(keys); });
  }
  std::uint64_t size() const {
    return visit([](auto const& s) { return static_cast<std::uint64_t>(s.size()); });
  }
  template <class F>
  void for_each(F&& f) const {
    visit([&](auto const& s) { s.for_each(f); });
  }
  storage_counters counters() const {
    return visit([](auto const& s) { return static_cast<storage_counters>(s.counters()); });
  }

 private:
  std::variant<Ss...> held_{};
};

}  // namespace nestpipe::storage
