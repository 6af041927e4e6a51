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
  void read(std::span<key_type const> keys, std::span<row_handle> handles, float* rows) {
    visit([&](auto& s) { s.read(keys, handles, rows); });
  }
  void write(std::span<key_type const> keys, std::span<row_handle const> handles, float const* rows) {
    visit([&](auto& s) { s.write(keys, handles, rows); });
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
  void scan(scan_cursor& at, F&& f) const {
    visit([&](auto const& s) { s.scan(at, f); });
  }
  bool passed(scan_cursor const& at, key_type key) const {
    return visit([&](auto const& s) { return static_cast<bool>(s.passed(at, key)); });
  }
  storage_counters counters() const {
    return visit([](auto const& s) { return static_cast<storage_counters>(s.counters()); });
  }
  void expect(std::uint64_t batch, std::span<key_type const> keys)
    requires(looks_ahead<Ss> || ...)
  {
    visit([&](auto& s) {
      if constexpr (requires { s.expect(batch, keys); }) s.expect(batch, keys);
    });
  }
  void reached(std::uint64_t batch)
    requires(looks_ahead<Ss> || ...)
  {
    visit([&](auto& s) {
      if constexpr (requires { s.reached(batch); }) s.reached(batch);
    });
  }

 private:
  std::variant<Ss...> held_{};
};

}  // namespace nestpipe::storage
