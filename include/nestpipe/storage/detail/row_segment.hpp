#pragma once
/// @file
/// A fixed number of slots with one tag byte each; key and row of a slot lie side by side. Open addressing, linear probing.

#include <nestpipe/core/huge_memory.hpp>
#include <nestpipe/storage/detail/tag_group.hpp>
#include <nestpipe/storage/storage.hpp>

#include <algorithm>
#include <cmath>

namespace nestpipe::storage::detail {

/// Slots grow in the order of the hash (place = hash times slots, high part), so rebuilding a segment walks old and new memory
/// forwards. Holds hashes that agree in their first `depth` bits.
class row_segment {
 public:
  static constexpr std::uint32_t none = 0xffffffffU;
  static constexpr std::uint32_t least_slots = 32;
  /// Highest share of slots in use: there a search passes 4 slots for a key that is there and 26 for one that is not, in the mean
  /// (Knuth, The Art of Computer Programming 6.4, linear probing), of which one comparison takes 16.
  static constexpr double most_load = 0.86;

  row_segment() = default;

  /// @param slots at least least_slots
  row_segment(std::uint32_t slots, std::size_t record_bytes, unsigned depth, std::uint64_t born, std::string_view purpose)
      : memory_{tag_bytes(slots) + std::size_t{slots} * record_bytes, purpose},
        tags_{reinterpret_cast<tag_type*>(memory_.data())},
        records_{memory_.data() + tag_bytes(slots)},
        record_bytes_{record_bytes},
        born_{born},
        slots_{slots},
        limit_{static_cast<std::uint32_t>(most_load * slots)},
        depth_{depth} {}

  /// Slots that hold `rows` rows with room to grow by a fifth before the next rebuild.
  static std::uint32_t slots_for(std::uint64_t rows) {
    double const wanted = std::ceil(static_cast<double>(rows) * (1.2 / most_load)) + 1.0;
    return std::max(least_slots, static_cast<std::uint32_t>(std::min(wanted, 4.0e9)));
  }

  std::uint32_t rows() const { return rows_; }
  std::uint32_t slots() const { return slots_; }
  unsigned depth() const { return depth_; }
  std::uint64_t born() const { return born_; }   ///< epoch in which its rows came to these places
  std::size_t bytes() const { return memory_.size(); }
  bool full() const { return used_ >= limit_; }
  bool is_row(std::uint32_t slot) const { return tags_[slot] > tag_erased; }

  std::byte* record(std::uint32_t slot) const { return records_ + std::size_t{slot} * record_bytes_; }
  key_type key(std::uint32_t slot) const {
    key_type k;
    std::memcpy(&k, record(slot), sizeof k);  // records are 4-byte aligned
    return k;
  }
  float* row(std::uint32_t slot) const { return reinterpret_cast<float*>(record(slot) + sizeof(key_type)); }

  void prefetch_tags(std::uint64_t hash) const { __builtin_prefetch(tags_ + home(hash), 0, 3); }

  /// Prefetches the record that most likely holds the key: the first whose tag agrees.
  void prefetch_record(std::uint64_t hash) const {
    std::uint32_t const at = home(hash);
    std::uint32_t const mask = match(tags_ + at, tag_of(hash));
    if (mask != 0) {
      std::byte const* const r = record(wrap(at + static_cast<std::uint32_t>(std::countr_zero(mask))));
      for (std::size_t b = 0; b < record_bytes_ && b < 4 * alignment_bytes; b += alignment_bytes) __builtin_prefetch(r + b, 0, 3);
      __builtin_prefetch(r + (record_bytes_ - 1), 0, 3);
    }
  }

  /// Slot of the key, or none. Expected O(1): about one group of tags and, for a hit, one record.
  std::uint32_t find(std::uint64_t hash, key_type wanted) const {
    tag_type const tag = tag_of(hash);
    for (std::uint32_t at = home(hash);; at = wrap(at + static_cast<std::uint32_t>(group_tags))) {
      for (std::uint32_t mask = match(tags_ + at, tag); mask != 0; mask &= mask - 1) {
        std::uint32_t const slot = wrap(at + static_cast<std::uint32_t>(std::countr_zero(mask)));
        if (key(slot) == wanted) return slot;
      }
      if (match(tags_ + at, tag_empty) != 0) return none;
    }
  }

  /// Takes a slot for a key that is not there; not full().
  std::uint32_t insert(std::uint64_t hash, key_type wanted) {
    for (std::uint32_t at = home(hash);; at = wrap(at + static_cast<std::uint32_t>(group_tags))) {
      std::uint32_t const mask = match(tags_ + at, tag_empty) | match(tags_ + at, tag_erased);
      if (mask == 0) continue;
      std::uint32_t const slot = wrap(at + static_cast<std::uint32_t>(std::countr_zero(mask)));
      if (tags_[slot] == tag_empty) ++used_;
      ++rows_;
      set_tag(slot, tag_of(hash));
      std::memcpy(record(slot), &wanted, sizeof wanted);
      return slot;
    }
  }

  /// Frees a slot. Where no search can have passed over it, it becomes empty, and so do erased slots before it.
  void erase(std::uint32_t slot) {
    --rows_;
    if (tags_[wrap(slot + 1)] != tag_empty) {
      set_tag(slot, tag_erased);
      return;
    }
    set_tag(slot, tag_erased);
    for (std::uint32_t s = slot; tags_[s] == tag_erased; s = s == 0 ? slots_ - 1 : s - 1) {
      set_tag(s, tag_empty);
      --used_;
    }
  }

  /// Copies one record of `from` here.
  void take(row_segment const& from, std::uint32_t slot, std::uint64_t hash) {
    std::uint32_t const to = insert(hash, from.key(slot));
    std::memcpy(record(to), from.record(slot), record_bytes_);
  }

 private:
  /// Tags are followed by a copy of the first group, so that a group may be read from any slot.
  static std::size_t tag_bytes(std::uint32_t slots) {
    return (std::size_t{slots} + group_tags + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
  }
  std::uint32_t home(std::uint64_t hash) const {
    return static_cast<std::uint32_t>((((hash << depth_) >> 32) * slots_) >> 32);
  }
  std::uint32_t wrap(std::uint32_t slot) const { return slot >= slots_ ? slot - slots_ : slot; }
  void set_tag(std::uint32_t slot, tag_type tag) {
    tags_[slot] = tag;
    if (slot < group_tags) tags_[slots_ + slot] = tag;
  }

  huge_memory memory_;
  tag_type* tags_ = nullptr;
  std::byte* records_ = nullptr;
  std::size_t record_bytes_ = 0;
  std::uint64_t born_ = 0;
  std::uint32_t slots_ = 0;
  std::uint32_t limit_ = 0;
  std::uint32_t used_ = 0;   ///< rows and erased slots
  std::uint32_t rows_ = 0;
  unsigned depth_ = 0;
};

}  // namespace nestpipe::storage::detail
