#pragma once
/// @file
/// What a storage policy is: where one rank keeps its shard of one table's rows. A row is the embedding followed by its
/// optimizer state, contiguous floats.
///
/// A policy is a value that describes a store; the engine copies it for every table and calls `open` on the copy.
///
/// | requirement on S (copyable before open, movable after) | meaning |
/// |---|---|
/// | `s.open(storage_spec)` | allocate for this table; called once. @throws config_error |
/// | `s.find(keys, handles)` | handle of each key, or `no_row`; creates nothing |
/// | `s.find_or_create(keys, handles)` | keys are distinct; new rows have unspecified content until scattered |
/// | `s.gather(handles, rows)` | row i of `rows` (n, row_floats) from handle i; `no_row` leaves the target as it is |
/// | `s.scatter(handles, rows)` | the reverse; every handle is a row |
/// | `s.epoch()` | changes whenever handles given out earlier may no longer be valid |
/// | `s.pin(keys)`, `s.release(keys)` | rows of pinned keys stay (nested calls count); a store that never evicts does nothing |
/// | `s.erase(keys)` | forgets rows; unknown keys are ignored |
/// | `s.size()` | rows stored |
/// | `s.for_each(f)` | `f(key, std::span<float const> row)` for every row, each once, any order |
/// | `s.counters()` | storage_counters |
///
/// A model must also: accept every 64-bit key and empty spans; keep a row's bits exactly; be used from one thread at a
/// time; never allocate in find, gather or scatter.

#include <nestpipe/core/config.hpp>
#include <nestpipe/core/error.hpp>

#include <concepts>
#include <span>
#include <string>

namespace nestpipe::storage {

/// Place of a row inside its store.
using row_handle = std::uint64_t;
inline constexpr row_handle no_row = ~row_handle{0};

/// What a store needs to know about its table.
struct storage_spec {
  std::string table_name;
  std::uint32_t table = 0;
  std::size_t dim = 0;             ///< floats of the embedding
  std::size_t row_floats = 0;      ///< dim + optimizer state
  std::uint64_t cardinality = 0;   ///< keys are below this; 0 when unknown
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
};

struct storage_counters {
  std::uint64_t rows = 0;      ///< rows stored now
  std::uint64_t bytes = 0;     ///< memory held, index included
  std::uint64_t lookups = 0;   ///< keys asked for
  std::uint64_t misses = 0;    ///< keys asked for that had no row
  std::uint64_t evicted = 0;   ///< rows removed to make room
};

template <class S>
concept has_open = requires(S& s, storage_spec const& spec) { s.open(spec); };
template <class S>
concept has_find = requires(S& s, std::span<key_type const> k, std::span<row_handle> h) {
  s.find(k, h);
  s.find_or_create(k, h);
};
template <class S>
concept has_rows = requires(S& s, std::span<row_handle const> h, float* out, float const* in) {
  s.gather(h, out);
  s.scatter(h, in);
};
template <class S>
concept has_epoch = requires(S const& s) {
  { s.epoch() } -> std::convertible_to<std::uint64_t>;
};
template <class S>
concept has_pins = requires(S& s, std::span<key_type const> k) {
  s.pin(k);
  s.release(k);
};
template <class S>
concept has_erase = requires(S& s, std::span<key_type const> k) { s.erase(k); };
template <class S>
concept has_iteration = requires(S const& s, void (*f)(key_type, std::span<float const>)) {
  s.for_each(f);
  { s.size() } -> std::convertible_to<std::uint64_t>;
};
template <class S>
concept has_counters = requires(S const& s) {
  { s.counters() } -> std::convertible_to<storage_counters>;
};
template <class S>
concept storage = has_open<S> && has_find<S> && has_rows<S> && has_epoch<S> && has_pins<S> && has_erase<S> && has_iteration<S> &&
                  has_counters<S> && std::copy_constructible<S> && std::movable<S>;

template <class S>
consteval bool audit() {
  static_assert(has_open<S>, "storage policy [1/9]: provide open(storage_spec const&)");
  static_assert(has_find<S>, "storage policy [2/9]: provide find and find_or_create(std::span<key_type const>, std::span<row_handle>)");
  static_assert(has_rows<S>, "storage policy [3/9]: provide gather(std::span<row_handle const>, float*) and scatter(std::span<row_handle const>, float const*)");
  static_assert(has_epoch<S>, "storage policy [4/9]: provide epoch() const");
  static_assert(has_pins<S>, "storage policy [5/9]: provide pin and release(std::span<key_type const>)");
  static_assert(has_erase<S>, "storage policy [6/9]: provide erase(std::span<key_type const>)");
  static_assert(has_iteration<S>, "storage policy [7/9]: provide for_each(f) const and size() const");
  static_assert(has_counters<S>, "storage policy [8/9]: provide counters() const");
  static_assert(std::copy_constructible<S> && std::movable<S>, "storage policy [9/9]: must be copyable (before open) and movable");
  return true;
}

}  // namespace nestpipe::storage
