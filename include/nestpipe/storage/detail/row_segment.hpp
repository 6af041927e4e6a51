#pragma once
/// @file
/// The rows whose hashes share their first bits: a number of blocks, in the order of the hash.

#include <nestpipe/storage/detail/extent_pool.hpp>
#include <nestpipe/storage/detail/row_block.hpp>

#include <array>
#include <utility>

namespace nestpipe::storage::detail {

/// A row lies in the block of its hash (block = hash times blocks, high part) or, where that is full, in the next with room.
/// So rebuilding a segment walks old and new memory forwards. Its memory is one piece while small, later extents of a pool.
class row_segment {
 public:
  static constexpr std::size_t most_extents = 16;
  /// From this size on memory comes in whole extents.
  static constexpr std::size_t extents_from = extent_pool::extent_bytes * 5 / 8;

  row_segment() = default;

  /// Where memory is in extents, they are for others to provide: extent(i).
  row_segment(std::uint32_t blocks, unsigned depth, block_layout const& layout, std::string_view purpose)
      : blocks_{blocks}, depth_{depth}, block_shift_{layout.shift()} {
    if (in_extents(blocks, layout)) {
      shift_ = extent_shift(layout);
    } else {
      memory_ = huge_memory{std::size_t{blocks} << block_shift_, purpose};
      extents_[0] = memory_.data();
      shift_ = 32;
    }
  }

  static unsigned extent_shift(block_layout const& layout) { return static_cast<unsigned>(std::countr_zero(extent_pool::extent_bytes)) - layout.shift(); }
  static std::uint32_t extent_blocks(block_layout const& layout) { return std::uint32_t{1} << extent_shift(layout); }
  static bool in_extents(std::uint64_t blocks, block_layout const& layout) {
    return layout.bytes() <= extents_from && blocks * layout.bytes() > extents_from && blocks <= (most_extents << extent_shift(layout));
  }

  std::uint32_t blocks() const { return blocks_; }
  std::uint32_t rows() const { return rows_; }
  unsigned depth() const { return depth_; }
  bool full() const { return rows_ >= limit_; }
  void set_limit(std::uint32_t rows) { limit_ = rows; }
  std::size_t own_bytes() const { return memory_.size(); }
  bool in_extents() const { return shift_ != 32; }
  std::size_t extents() const { return in_extents() ? (std::size_t{blocks_} + (std::size_t{1} << shift_) - 1) >> shift_ : 0; }
  std::byte*& extent(std::size_t i) { return extents_[i]; }

  std::uint32_t home(std::uint64_t hash) const { return static_cast<std::uint32_t>((((hash << depth_) >> 32) * blocks_) >> 32); }
  std::byte* address(std::uint32_t block) const {
    std::uint64_t const b = block;
    return extents_[b >> shift_] + ((b & ((std::uint64_t{1} << shift_) - 1)) << block_shift_);
  }
  std::uint32_t next(std::uint32_t block) const { return block + 1 == blocks_ ? 0 : block + 1; }

  /// Record of the key, or null. Expected O(1): the line of tags and, for a hit, one record.
  std::byte* find(std::uint64_t hash, key_type wanted, block_layout const& layout) const {
    std::uint32_t at = home(hash);
    for (std::uint32_t tries = 0; tries < blocks_; ++tries, at = next(at)) {
      row_block const block{address(at), layout};
      if (std::byte* const r = block.find(hash, wanted); r != nullptr) return r;
      if (block.head().overflow == 0) return nullptr;
    }
    return nullptr;
  }

  /// A place for a key that is not there, its key written; there is a free slot. `before(block)` is called before a block is read.
  template <class Before>
  std::byte* insert(std::uint64_t hash, key_type key, block_layout const& layout, Before&& before) {
    for (std::uint32_t at = home(hash);; at = next(at)) {
      before(at);
      row_block const block{address(at), layout};
      std::uint64_t const free = block.free();
      if (free == 0) {
        block.mark_overflow();
        continue;
      }
      std::byte* const r = block.take(free, hash);
      std::memcpy(r, &key, sizeof key);
      ++rows_;
      return r;
    }
  }
  std::byte* insert(std::uint64_t hash, key_type key, block_layout const& layout) {
    return insert(hash, key, layout, [](std::uint32_t) {});
  }

  /// Frees the slot of a record, which lies in `block`.
  void erase(std::uint64_t hash, std::uint32_t block, std::uint32_t slot, block_layout const& layout) {
    for (std::uint32_t at = home(hash); at != block; at = next(at)) row_block{address(at), layout}.unmark_overflow();
    row_block{address(block), layout}.clear(slot);
    --rows_;
  }
  /// The same for a key; false when it is not there.
  bool erase(std::uint64_t hash, key_type key, block_layout const& layout) {
    std::uint32_t at = home(hash);
    for (std::uint32_t tries = 0; tries < blocks_; ++tries, at = next(at)) {
      row_block const block{address(at), layout};
      if (std::byte* const r = block.find(hash, key); r != nullptr) {
        erase(hash, at, block.slot_of(r), layout);
        return true;
      }
      if (block.head().overflow == 0) return false;
    }
    return false;
  }

  /// Calls f(record) for the rows of a block.
  template <class F>
  void rows_of(std::uint32_t at, block_layout const& layout, F&& f) const {
    row_block const block{address(at), layout};
    for (std::uint64_t used = block.used(); used != 0; used &= used - 1) f(block.record(static_cast<std::uint32_t>(std::countr_zero(used))));
  }

 private:
  // In the order of use.
  std::uint32_t blocks_ = 0;
  unsigned depth_ = 0;
  unsigned shift_ = 32;         ///< blocks >> shift = extent; 32: all in one piece
  unsigned block_shift_ = 0;
  std::array<std::byte*, most_extents> extents_{};
  std::uint32_t rows_ = 0;
  std::uint32_t limit_ = 0;
  huge_memory memory_;          ///< of a segment in one piece
};

}  // namespace nestpipe::storage::detail
