#pragma once
/// @file
/// Blocks: a line of tags followed by slots that hold key and row side by side.

#include <nestpipe/storage/detail/tag_group.hpp>
#include <nestpipe/storage/storage.hpp>

#include <algorithm>
#include <cmath>

namespace nestpipe::storage::detail {

/// Sizes of the blocks of one store. A block is a power of two bytes, for usual rows one page of 4096, so that tags and record of
/// a key share a page: what a random access to a large memory costs is above all the translation of its address.
class block_layout {
 public:
  block_layout() = default;

  /// The block with the fewest bytes per slot; of nearly equal ones the smallest.
  explicit block_layout(std::size_t row_floats) : record_bytes_{sizeof(key_type) + row_floats * sizeof(float)} {
    double best = 0;
    for (unsigned shift = 9; shift <= 16 || slots_ < 4; ++shift) {
      std::size_t const fit = ((std::size_t{1} << shift) - sizeof(tag_group)) / record_bytes_;
      std::size_t const slots = std::min(fit, tag_group::most_slots);
      if (slots == 0) continue;
      double const per_slot = std::ldexp(1.0, static_cast<int>(shift)) / (static_cast<double>(slots) * most_load(slots));
      if (slots_ != 0 && per_slot > 0.98 * best) continue;
      best = per_slot;
      shift_ = shift;
      slots_ = static_cast<std::uint32_t>(slots);
    }
  }

  /// Share of slots in use up to which few blocks overflow: the rows of a block spread like a Poisson variable, of which
  /// 0.6 standard deviations are left free.
  static double most_load(std::size_t slots) { return 1.0 - 0.6 / std::sqrt(static_cast<double>(slots)); }
  double most_load() const { return most_load(slots_); }

  std::size_t record_bytes() const { return record_bytes_; }
  std::uint32_t slots() const { return slots_; }
  unsigned shift() const { return shift_; }                             ///< log2 of bytes()
  std::size_t bytes() const { return std::size_t{1} << shift_; }
  std::uint64_t slot_mask() const { return (std::uint64_t{1} << slots_) - 1; }

 private:
  std::size_t record_bytes_ = 0;
  std::uint32_t slots_ = 0;
  unsigned shift_ = 0;
};

/// One block of a store. Cheap to copy.
class row_block {
 public:
  row_block(std::byte* at, block_layout const& layout) : at_{at}, layout_{&layout} {}

  tag_group& head() const { return *reinterpret_cast<tag_group*>(at_); }
  std::byte* record(std::uint32_t slot) const { return at_ + sizeof(tag_group) + slot * layout_->record_bytes(); }
  key_type key(std::uint32_t slot) const { return key_at(record(slot)); }
  static key_type key_at(std::byte const* record) {
    key_type k;
    std::memcpy(&k, record, sizeof k);  // records are 4-byte aligned
    return k;
  }
  float* row(std::uint32_t slot) const { return row_at(record(slot)); }
  static float* row_at(std::byte* record) { return reinterpret_cast<float*>(record + sizeof(key_type)); }

  /// Slots in use, and free ones, as bits.
  std::uint64_t used() const { return ~match(head(), tag_empty) & layout_->slot_mask(); }
  std::uint64_t free() const { return match(head(), tag_empty) & layout_->slot_mask(); }

  /// Slots whose tag is that of the hash, as bits.
  std::uint64_t candidates(std::uint64_t hash) const { return match(head(), tag_of(hash)) & layout_->slot_mask(); }

  /// Of some slots, the first from the hash's own slot on, cyclically: where an insertion goes and a search starts.
  std::uint32_t first_of(std::uint64_t slots, std::uint64_t hash) const {
    auto const own = static_cast<unsigned>(((hash >> 16 & 0xffff) * layout_->slots()) >> 16);
    std::uint64_t const behind = slots & (~std::uint64_t{0} << own);
    return static_cast<std::uint32_t>(std::countr_zero(behind != 0 ? behind : slots));
  }

  /// Record of the key, or null when this block does not hold it.
  std::byte* find(std::uint64_t hash, key_type wanted) const {
    for (std::uint64_t slots = candidates(hash); slots != 0;) {
      std::uint32_t const slot = first_of(slots, hash);
      std::byte* const r = record(slot);
      if (key_at(r) == wanted) return r;
      slots &= ~(std::uint64_t{1} << slot);
    }
    return nullptr;
  }

  /// Takes one of the free slots.
  std::byte* take(std::uint64_t free_slots, std::uint64_t hash) const {
    std::uint32_t const slot = first_of(free_slots, hash);
    head().tags[slot] = tag_of(hash);
    return record(slot);
  }
  void clear(std::uint32_t slot) const {
    head().tags[slot] = tag_empty;
    head().referenced &= ~(std::uint64_t{1} << slot);
  }
  std::uint32_t slot_of(std::byte const* record) const {
    return static_cast<std::uint32_t>(static_cast<std::size_t>(record - at_ - sizeof(tag_group)) / layout_->record_bytes());
  }

  void mark_overflow() const { head().overflow = static_cast<std::uint8_t>(std::min(255, head().overflow + 1)); }
  void unmark_overflow() const {
    if (head().overflow != 255) --head().overflow;
  }

 private:
  std::byte* at_;
  block_layout const* layout_;
};

}  // namespace nestpipe::storage::detail
