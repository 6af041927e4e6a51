#pragma once
/// @file
/// Rows of any 64-bit keys in memory: a hash table whose slots hold key and row side by side.

#include <nestpipe/core/random.hpp>
#include <nestpipe/storage/detail/row_copy.hpp>
#include <nestpipe/storage/detail/row_segment.hpp>
#include <nestpipe/storage/detail/unopened_copy.hpp>
#include <nestpipe/storage/storage.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace nestpipe::storage {

/// Mixes a key before anything else sees it, so that keys with equal low bits, or in sequence, do no harm.
struct mix_key {
  std::uint64_t operator()(key_type key) const { return mix64(key ^ 0x94d049bb133111ebULL); }
};

/// Sizes of a hashed store; the defaults are meant to stay.
struct hashed_options {
  std::uint32_t segment_slots = 1U << 18;   ///< a segment that would outgrow this is split in two; at least 64
};

/// Open addressing over segments. The first bits of the mixed key choose a segment through a directory (extendible hashing,
/// Fagin et al. 1979), the next ones a slot; one tag byte per slot is compared before any record is read, so a lookup costs
/// about one access to the small array of tags and one to the record. Segments grow by a fifth, one at a time, and split when
/// large: no pause is longer than rebuilding one segment, memory stays within 1 / 0.72 of the rows, and in the mean over growth
/// within 1.3.
///
/// Handles are addresses of rows. Rows move when their segment is rebuilt: `epoch()` changes then, and on `erase` of a row.
/// read, and write of rows that are there, never allocate. No key is reserved. Memory goes back only when the store is destroyed, but erased
/// slots are used again.
/// @tparam Mix  bijective or well-mixing function of a key; other functions are correct but slow
template <class Mix = mix_key>
class hashed {
 public:
  hashed() = default;
  explicit hashed(hashed_options options) : options_{options} {}

  /// @throws config_error when row_floats is 0, or called twice
  void open(storage_spec const& spec) {
    std::string const where = "table " + spec.table_name;
    require(store_->segments.empty(), "storage::hashed: opened twice", where, "open a copy of the policy");
    require(spec.row_floats > 0, "storage::hashed: a row needs at least one float", where);
    require(options_.segment_slots >= 64, "storage::hashed: segment_slots must be at least 64", where);
    store_->row_floats = spec.row_floats;
    store_->record_bytes = sizeof(key_type) + spec.row_floats * sizeof(float);
    store_->purpose = where;
    store_->segments.push_back(make_segment(detail::row_segment::least_slots, 0));
    store_->directory.assign(1, 0);
  }

  /// Handle of each key, or no_row, and its row. Duplicates are fine. O(n * row_floats) expected.
  void read(std::span<key_type const> keys, std::span<row_handle> handles, float* rows) {
    std::uint64_t misses = 0;
    with_fixed_size(store_->row_floats, [&](auto width) {
      pipelined(keys, [&](std::size_t i, std::uint64_t hash) {
        detail::row_segment const& s = segment_of(hash);
        std::uint32_t const slot = s.find(hash, keys[i]);
        if (slot == detail::row_segment::none) {
          handles[i] = no_row;
          ++misses;
          return;
        }
        handles[i] = handle_of(s, slot);
        std::memcpy(rows + i * width, s.row(slot), width * sizeof(float));
      });
    });
    store_->lookups += keys.size();
    store_->misses += misses;
  }

  /// Stores rows; a key without one gets it. O(n * row_floats) expected, amortised over growth.
  /// @throws error naming table and bytes when memory runs out; the rows so far stay as they are
  void write(std::span<key_type const> keys, std::span<row_handle const> handles, float const* rows) {
    detail::scatter_rows(handles, rows, store_->row_floats, address_of);
    if (std::find(handles.begin(), handles.end(), no_row) == handles.end()) return;
    std::size_t const w = store_->row_floats;
    pipelined(keys, [&](std::size_t i, std::uint64_t hash) {
      if (handles[i] != no_row) return;
      detail::row_segment* s = &segment_of(hash);
      std::uint32_t slot = s->find(hash, keys[i]);
      if (slot == detail::row_segment::none) {
        if (s->full()) {
          make_room(hash);
          s = &segment_of(hash);
        }
        slot = s->insert(hash, keys[i]);
        ++store_->rows;
      }
      std::memcpy(s->row(slot), rows + i * w, w * sizeof(float));
    });
  }

  std::uint64_t epoch() const { return store_->epoch; }
  void pin(std::span<key_type const>) {}       // nothing is ever evicted
  void release(std::span<key_type const>) {}

  /// Forgets rows; unknown keys are ignored. Their slots are used again.
  void erase(std::span<key_type const> keys) {
    bool any = false;
    for (key_type const key : keys) {
      std::uint64_t const hash = Mix{}(key);
      detail::row_segment& s = segment_of(hash);
      std::uint32_t const slot = s.find(hash, key);
      if (slot == detail::row_segment::none) continue;
      s.erase(slot);
      --store_->rows;
      any = true;
    }
    if (any) ++store_->epoch;
  }

  std::uint64_t size() const { return store_->rows; }

  /// The rows of the next segment, in the order of their hashes' first bits. O(slots of a segment).
  template <class F>
  void scan(scan_cursor& at, F&& f) const {
    detail::row_segment const& s = store_->segments[store_->directory[directory_index(at.position)]];
    for (std::uint32_t slot = 0; slot < s.slots(); ++slot) {
      if (s.is_row(slot)) f(s.key(slot), std::span<float const>{s.row(slot), store_->row_floats});
    }
    // A segment holds the hashes of one prefix, and splits only refine it: a boundary between segments stays one.
    at.position = s.depth() == 0 ? 0 : at.position + (std::uint64_t{1} << (64 - s.depth()));
    at.done = at.position == 0;
  }
  bool passed(scan_cursor const& at, key_type key) const { return at.done || Mix{}(key) < at.position; }

  storage_counters counters() const {
    storage_counters c;
    c.rows = store_->rows;
    c.bytes = store_->directory.capacity() * sizeof(std::uint32_t) + store_->segments.capacity() * sizeof(detail::row_segment);
    for (detail::row_segment const& s : store_->segments) c.bytes += s.bytes();
    c.lookups = store_->lookups;
    c.misses = store_->misses;
    return c;
  }

  /// Rows over slots.
  double load() const {
    std::uint64_t slots = 0;
    for (detail::row_segment const& s : store_->segments) slots += s.slots();
    return slots == 0 ? 0.0 : static_cast<double>(store_->rows) / static_cast<double>(slots);
  }

 private:
  static constexpr unsigned most_depth = 24;
  /// Keys between issuing a prefetch and using what it brought.
  static constexpr std::size_t ahead = 16;

  struct opened {
    std::vector<detail::row_segment> segments;
    std::vector<std::uint32_t> directory;   ///< 2^depth segments, by the first bits of the hash
    unsigned depth = 0;
    std::size_t row_floats = 0;
    std::size_t record_bytes = 0;
    std::uint64_t rows = 0;
    std::uint64_t epoch = 0;
    std::uint64_t lookups = 0;
    std::uint64_t misses = 0;
    std::string purpose;
  };

  static std::byte* address_of(row_handle h) { return reinterpret_cast<std::byte*>(h); }
  static row_handle handle_of(detail::row_segment const& s, std::uint32_t slot) {
    return static_cast<row_handle>(reinterpret_cast<std::uintptr_t>(s.row(slot)));
  }

  std::size_t directory_index(std::uint64_t hash) const {
    return static_cast<std::size_t>((hash >> 1) >> (63 - store_->depth));   // a shift by 64 is not defined
  }
  detail::row_segment& segment_of(std::uint64_t hash) {
    return store_->segments[store_->directory[directory_index(hash)]];
  }

  detail::row_segment make_segment(std::uint32_t slots, unsigned depth) const {
    return {slots, store_->record_bytes, depth, store_->epoch, store_->purpose};
  }

  /// Calls f(i, hash) for every key; tags and records of the keys ahead are on their way meanwhile. f may move rows: nothing
  /// but hashes is kept between the stages.
  template <class F>
  void pipelined(std::span<key_type const> keys, F f) {
    constexpr std::size_t ring = 4 * ahead;
    std::uint64_t hashes[ring];
    std::size_t const n = keys.size();
    for (std::size_t i = 0; i < n + 2 * ahead; ++i) {
      if (i < n) {
        std::uint64_t const hash = Mix{}(keys[i]);
        hashes[i % ring] = hash;
        segment_of(hash).prefetch_tags(hash);
      }
      if (i >= ahead && i - ahead < n) {
        std::uint64_t const hash = hashes[(i - ahead) % ring];
        segment_of(hash).prefetch_record(hash);
      }
      if (i >= 2 * ahead) f(i - 2 * ahead, hashes[(i - 2 * ahead) % ring]);
    }
  }

  /// Rebuilds the segment of `hash`: at the same size to drop erased slots, else larger, else as two. Rows move: a new epoch.
  void make_room(std::uint64_t hash) {
    std::uint32_t const index = store_->directory[directory_index(hash)];
    detail::row_segment& old = store_->segments[index];
    std::uint32_t const wanted = detail::row_segment::slots_for(old.rows());
    ++store_->epoch;
    bool const split = wanted > options_.segment_slots && wanted > old.slots() && old.depth() < most_depth;
    if (split && split_segment(index)) return;
    // Small segments double: a fifth of a few rows is not worth a rebuild.
    std::uint32_t const slots =
        wanted > old.slots() && wanted < 8192 ? std::max(wanted, 2 * old.slots()) : std::max(wanted, detail::row_segment::least_slots);
    detail::row_segment larger = make_segment(slots, old.depth());
    for (std::uint32_t slot = 0; slot < old.slots(); ++slot) {
      if (old.is_row(slot)) larger.take(old, slot, Mix{}(old.key(slot)));
    }
    old = std::move(larger);
  }

  /// False when nearly all rows would stay on one side (a hash that does not mix): then growing is the better way.
  bool split_segment(std::uint32_t index) {
    detail::row_segment& old = store_->segments[index];
    unsigned const depth = old.depth();
    std::uint64_t count[2] = {0, 0};
    auto const side = [depth](std::uint64_t hash) { return (hash >> (63 - depth)) & 1; };
    for (std::uint32_t slot = 0; slot < old.slots(); ++slot) {
      if (old.is_row(slot)) ++count[side(Mix{}(old.key(slot)))];
    }
    if (std::min(count[0], count[1]) * 16 < old.rows()) return false;
    detail::row_segment halves[2] = {make_segment(detail::row_segment::slots_for(count[0]), depth + 1),
                                     make_segment(detail::row_segment::slots_for(count[1]), depth + 1)};
    std::uint64_t prefix = 0;
    for (std::uint32_t slot = 0; slot < old.slots(); ++slot) {
      if (!old.is_row(slot)) continue;
      std::uint64_t const hash = Mix{}(old.key(slot));
      prefix = hash;
      halves[side(hash)].take(old, slot, hash);
    }
    auto const added = static_cast<std::uint32_t>(store_->segments.size());
    store_->segments.reserve(store_->segments.size() + 1);
    if (depth == store_->depth) {
      std::vector<std::uint32_t> doubled(2 * store_->directory.size());
      for (std::size_t i = 0; i < doubled.size(); ++i) doubled[i] = store_->directory[i / 2];
      store_->directory = std::move(doubled);
      ++store_->depth;
    }
    // The entries of the old segment are contiguous; the upper half now leads to the new one.
    std::size_t const span = std::size_t{1} << (store_->depth - depth);
    std::size_t const first = directory_index(prefix) / span * span;
    for (std::size_t i = first + span / 2; i < first + span; ++i) store_->directory[i] = added;
    store_->segments[index] = std::move(halves[0]);
    store_->segments.push_back(std::move(halves[1]));
    return true;
  }

  hashed_options options_{};
  detail::unopened_copy<opened> store_{};
};

}  // namespace nestpipe::storage
