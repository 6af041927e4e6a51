#pragma once
/// @file
/// Rows of keys below a known cardinality.

#include <nestpipe/core/huge_memory.hpp>
#include <nestpipe/storage/detail/row_copy.hpp>
#include <nestpipe/storage/detail/unopened_copy.hpp>
#include <nestpipe/storage/storage.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace nestpipe::storage {

/// On one rank the key is the place of its row, with one bit that says whether the row exists. On several ranks, of which each
/// owns a share of the keys, rows lie in the order in which they came and an index of 4 bytes a key leads to them. Address
/// space for all rows is reserved at once and filled as rows are touched, so rows never move; `epoch()` changes on erase only.
class dense {
 public:
  /// @throws config_error when the cardinality is not known, is too large, or row_floats is 0, or when called twice
  void open(storage_spec const& spec) {
    std::string const where = "table " + spec.table_name;
    require(store_->cardinality == 0, "storage::dense: opened twice", where, "open a copy of the policy");
    require(spec.row_floats > 0, "storage::dense: a row needs at least one float", where);
    require(spec.cardinality > 0, "storage::dense needs the table's cardinality", where, "set cardinality, or use storage::hashed");
    require(spec.cardinality < 0xffffffffULL, "storage::dense: cardinality must be below 4294967295", where, "use storage::hashed");
    opened o;
    o.cardinality = spec.cardinality;
    o.row_floats = spec.row_floats;
    o.where = where;
    o.direct = spec.world_size <= 1;
    o.rows_memory = huge_memory{spec.cardinality * spec.row_floats * sizeof(float), where};
    if (o.direct) {
      o.index_memory = huge_memory{(spec.cardinality + 63) / 64 * sizeof(std::uint64_t), where};
    } else {
      o.index_memory = huge_memory{spec.cardinality * sizeof(std::uint32_t), where};
    }
    store_.value = std::move(o);
  }

  /// Handle of each key, or no_row, and its row. Duplicates are fine. O(n * row_floats). @throws data_error naming the first key out of range
  void read(std::span<key_type const> keys, std::span<row_handle> handles, float* rows) {
    check(keys);
    std::uint64_t misses = 0;
    if (store_->direct) {
      misses = read_direct(keys, handles, rows);
    } else {
      for (std::size_t i = 0; i < keys.size(); ++i) {
        if (i + detail::prefetch_distance < keys.size()) __builtin_prefetch(index() + keys[i + detail::prefetch_distance], 0, 3);
        handles[i] = slot_of(keys[i]);
        misses += handles[i] == no_row;
      }
      detail::gather_rows(handles, rows, store_->row_floats, address_of());
    }
    store_->lookups += keys.size();
    store_->misses += misses;
  }

  /// Stores rows; a key without one gets it. O(n * row_floats). @throws data_error naming the first key out of range; then nothing changed
  void write(std::span<key_type const> keys, std::span<row_handle const> handles, float const* rows) {
    check(keys);
    detail::scatter_rows(handles, rows, store_->row_floats, address_of());
    std::size_t const w = store_->row_floats;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (handles[i] != no_row) continue;
      row_handle slot = slot_of(keys[i]);
      if (slot == no_row) slot = create(keys[i]);
      std::memcpy(row(slot), rows + i * w, w * sizeof(float));
    }
  }

  std::uint64_t epoch() const { return store_->epoch; }
  void pin(std::span<key_type const>) {}       // nothing is ever evicted
  void release(std::span<key_type const>) {}

  /// Forgets rows; keys that have none, or are out of range, are ignored.
  void erase(std::span<key_type const> keys) {
    bool any = false;
    for (key_type const key : keys) {
      if (key >= store_->cardinality || slot_of(key) == no_row) continue;
      if (store_->direct) {
        bits()[key / 64] &= ~(std::uint64_t{1} << (key % 64));
      } else {
        store_->free.push_back(index()[key] - 1);
        index()[key] = 0;
      }
      --store_->rows;
      any = true;
    }
    if (any) ++store_->epoch;
  }

  std::uint64_t size() const { return store_->rows; }

  /// The next 65,536 keys, in ascending order. O(keys).
  template <class F>
  void scan(scan_cursor& at, F&& f) const {
    key_type const end = std::min<key_type>(at.position + 65536, store_->cardinality);
    for (key_type key = at.position; key < end; ++key) {
      if (store_->direct && key % 64 == 0 && bits()[key / 64] == 0) {
        key += 63;
        continue;
      }
      row_handle const slot = slot_of(key);
      if (slot != no_row) f(key, std::span<float const>{row(slot), store_->row_floats});
    }
    at.position = end;
    at.done = end == store_->cardinality;
  }
  bool passed(scan_cursor const& at, key_type key) const { return at.done || key < at.position; }

  /// Bytes: of all rows the store has or may have on one rank; of rows touched so far on several.
  storage_counters counters() const {
    storage_counters c;
    c.rows = store_->rows;
    std::uint64_t const row_bytes = store_->row_floats * sizeof(float);
    c.bytes = store_->index_memory.size() + store_->free.capacity() * sizeof(std::uint32_t) +
              (store_->direct ? store_->rows_memory.size() : store_->next * row_bytes);
    c.lookups = store_->lookups;
    c.misses = store_->misses;
    return c;
  }

 private:
  struct opened {
    std::uint64_t cardinality = 0;
    std::size_t row_floats = 0;
    bool direct = true;
    huge_memory rows_memory;
    huge_memory index_memory;           ///< direct: one bit a key; else 4 bytes a key: 0, or 1 + slot
    std::vector<std::uint32_t> free;    ///< slots of erased rows (not direct)
    std::uint64_t next = 0;             ///< slots ever used (not direct)
    std::uint64_t rows = 0;
    std::uint64_t epoch = 0;
    std::uint64_t lookups = 0;
    std::uint64_t misses = 0;
    std::string where;
  };

  /// How a handle leads to a row, free of the store's other members.
  struct address {
    std::byte* base;
    std::size_t row_bytes;
    std::byte* operator()(row_handle slot) const { return base + slot * row_bytes; }
  };

  std::uint64_t* bits() const { return reinterpret_cast<std::uint64_t*>(store_->index_memory.data()); }
  std::uint32_t* index() const { return reinterpret_cast<std::uint32_t*>(store_->index_memory.data()); }
  float* row(row_handle slot) const { return reinterpret_cast<float*>(store_->rows_memory.data()) + slot * store_->row_floats; }

  address address_of() const { return {store_->rows_memory.data(), store_->row_floats * sizeof(float)}; }

  void check(std::span<key_type const> keys) const {
    key_type largest = 0;
    for (key_type const key : keys) largest = key > largest ? key : largest;
    if (keys.empty() || largest < store_->cardinality) return;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (keys[i] >= store_->cardinality)
        throw data_error{"key " + std::to_string(keys[i]) + " is not below the cardinality " + std::to_string(store_->cardinality),
                         store_->where + ", position " + std::to_string(i), "raise the cardinality, or use storage::hashed"};
    }
  }

  /// The place of a row is known before it is known whether there is one: both are fetched together.
  std::uint64_t read_direct(std::span<key_type const> keys, std::span<row_handle> handles, float* rows) const {
    return with_fixed_size(store_->row_floats, [&](auto width) {
      constexpr std::size_t ahead = 2 * detail::prefetch_distance;
      std::uint64_t const* const there = bits();
      auto const* const base = reinterpret_cast<float const*>(store_->rows_memory.data());
      std::uint64_t misses = 0;
      std::size_t const n = keys.size();
      for (std::size_t i = 0; i < n; ++i) {
        if (i + ahead < n) {
          key_type const next = keys[i + ahead];
          __builtin_prefetch(there + next / 64, 0, 3);
          detail::prefetch_bytes<false>(reinterpret_cast<std::byte const*>(base + next * width), width * sizeof(float));
        }
        key_type const key = keys[i];
        if ((there[key / 64] >> (key % 64) & 1) != 0) {
          handles[i] = key;
          std::memcpy(rows + i * width, base + key * width, width * sizeof(float));
        } else {
          handles[i] = no_row;
          ++misses;
        }
      }
      return misses;
    });
  }

  row_handle slot_of(key_type key) const {
    if (store_->direct) return ((bits()[key / 64] >> (key % 64)) & 1) != 0 ? key : no_row;
    std::uint32_t const entry = index()[key];
    return entry == 0 ? no_row : entry - 1;
  }

  row_handle create(key_type key) {
    ++store_->rows;
    if (store_->direct) {
      bits()[key / 64] |= std::uint64_t{1} << (key % 64);
      return key;
    }
    std::uint32_t slot;
    if (store_->free.empty()) {
      slot = static_cast<std::uint32_t>(store_->next++);
    } else {
      slot = store_->free.back();
      store_->free.pop_back();
    }
    index()[key] = slot + 1;
    return slot;
  }

  detail::unopened_copy<opened> store_{};
};

}  // namespace nestpipe::storage
