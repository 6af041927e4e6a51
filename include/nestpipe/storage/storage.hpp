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
/// | `s.read(keys, handles, rows)` | handle of each key, or `no_row`; row i of `rows` (n, row_floats) where there is one, else the target stays as it is. Creates nothing |
/// | `s.write(keys, handles, rows)` | stores row i under key i; keys are distinct. A handle is one that `read` gave in this epoch, or `no_row`: then the key is looked up, and a row created where there is none |
/// | `s.epoch()` | changes whenever handles given out earlier may no longer be valid |
/// | `s.pin(keys)`, `s.release(keys)` | rows of pinned keys stay (nested calls count); a store that never evicts does nothing |
/// | `s.erase(keys)` | forgets rows; unknown keys are ignored |
/// | `s.size()` | rows stored |
/// | `s.scan(cursor, f)` | `f(key, std::span<float const> row)` for the next portion of the rows. From a fresh cursor to `cursor.done`, every row that is there all along is met once, whatever is written, created or erased between two portions |
/// | `s.passed(cursor, key)` | whether a row of this key would have been in a portion already |
/// | `s.counters()` | storage_counters |
/// | `s.expect(batch, keys)`, `s.reached(batch)` (optional) | hints: the keys that a coming batch will pin, in batch order; that batch's rows are read next |
///
/// A model must also: accept every 64-bit key and empty spans; keep a row's bits exactly; be used from one thread at a
/// time; allocate neither in read nor in write of rows that are there. scan and passed are const.

#include <nestpipe/core/config.hpp>
#include <nestpipe/core/error.hpp>

#include <concepts>
#include <span>
#include <string>

namespace nestpipe::storage {

/// Place of a row inside its store.
using row_handle = std::uint64_t;
inline constexpr row_handle no_row = ~row_handle{0};

/// How far a scan of a store has come. What `position` counts is the store's business.
struct scan_cursor {
  std::uint64_t position = 0;
  bool done = false;
};

/// What a store needs to know about its table.
struct storage_spec {
  std::string table_name;
  std::uint32_t table = 0;
  std::size_t dim = 0;             ///< floats of the embedding
  std::size_t row_floats = 0;      ///< dim + optimizer state + extra_floats
  std::size_t extra_floats = 0;    ///< behind the state, asked for by decorators (storage/layers.hpp); to be kept to the bit
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
  std::uint64_t rejected = 0;  ///< rows not stored, because none could be removed for them
  std::uint64_t slots = 0;     ///< places for rows, used or not; 0 where a store does not count them

  double load() const { return slots == 0 ? 0.0 : static_cast<double>(rows) / static_cast<double>(slots); }
  double bytes_per_row() const { return rows == 0 ? 0.0 : static_cast<double>(bytes) / static_cast<double>(rows); }
};

template <class S>
concept has_open = requires(S& s, storage_spec const& spec) { s.open(spec); };
template <class S>
concept has_read = requires(S& s, std::span<key_type const> k, std::span<row_handle> h, float* rows) { s.read(k, h, rows); };
template <class S>
concept has_write = requires(S& s, std::span<key_type const> k, std::span<row_handle const> h, float const* rows) { s.write(k, h, rows); };
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
concept has_iteration = requires(S const& s, scan_cursor& c, key_type k, void (*f)(key_type, std::span<float const>)) {
  s.scan(c, f);
  { s.passed(c, k) } -> std::convertible_to<bool>;
  { s.size() } -> std::convertible_to<std::uint64_t>;
};
template <class S>
concept has_counters = requires(S const& s) {
  { s.counters() } -> std::convertible_to<storage_counters>;
};
template <class S>
concept storage = has_open<S> && has_read<S> && has_write<S> && has_epoch<S> && has_pins<S> && has_erase<S> && has_iteration<S> &&
                  has_counters<S> && std::copy_constructible<S> && std::movable<S>;

/// Optional.
template <class S>
concept looks_ahead = requires(S& s, std::uint64_t batch, std::span<key_type const> k) {
  s.expect(batch, k);
  s.reached(batch);
};

template <class S>
consteval bool audit() {
  static_assert(has_open<S>, "storage policy [1/9]: provide open(storage_spec const&)");
  static_assert(has_read<S>, "storage policy [2/9]: provide read(std::span<key_type const>, std::span<row_handle>, float*)");
  static_assert(has_write<S>, "storage policy [3/9]: provide write(std::span<key_type const>, std::span<row_handle const>, float const*)");
  static_assert(has_epoch<S>, "storage policy [4/9]: provide epoch() const");
  static_assert(has_pins<S>, "storage policy [5/9]: provide pin and release(std::span<key_type const>)");
  static_assert(has_erase<S>, "storage policy [6/9]: provide erase(std::span<key_type const>)");
  static_assert(has_iteration<S>, "storage policy [7/9]: provide scan(scan_cursor&, f), passed(scan_cursor const&, key_type) and size(), all const");
  static_assert(has_counters<S>, "storage policy [8/9]: provide counters() const");
  static_assert(std::copy_constructible<S> && std::movable<S>, "storage policy [9/9]: must be copyable (before open) and movable");
  return true;
}

/// f(key, std::span<float const> row) for every row, each once, in the order of the store's scan.
template <class S, class F>
void for_each(S const& s, F&& f) {
  for (scan_cursor at; !at.done;) s.scan(at, f);
}

}  // namespace nestpipe::storage
