#pragma once
/// @file
/// Pours the rows of a segment into a larger one, or into two.

#include <nestpipe/core/fixed_size.hpp>
#include <nestpipe/storage/detail/row_segment.hpp>

#include <vector>

namespace nestpipe::storage::detail {

/// Old and new memory are walked forwards, in the order of the hashes. Extents of the old segment are used for the new ones as soon
/// as they are empty, so a rebuild needs a few extents more than the result, not twice as many.
class segment_rebuild {
 public:
  segment_rebuild(block_layout const& layout, extent_pool& pool, std::string_view purpose) : layout_{layout}, pool_{pool}, purpose_{purpose} {}

  /// @param old    emptied
  /// @param to     one segment of the same depth, or two of the next
  /// @param mix    hash of a key
  /// @throws error when memory runs out: before any row has moved
  template <class Mix>
  void pour(row_segment& old, std::span<row_segment> to, Mix mix) {
    with_fixed_size((layout_.record_bytes() - sizeof(key_type)) / sizeof(float), [&](auto width) { pour(old, to, mix, width); });
  }

 private:
  template <class Mix, class Width>
  void pour(row_segment& old, std::span<row_segment> to, Mix mix, Width width) {
    std::size_t extents = 0;
    for (row_segment const& s : to) extents += s.extents();
    std::size_t const back = old.extents();
    if (extents != 0) pool_.ensure((extents > back ? extents - back : 0) + 4, purpose_);
    unsigned const side = 63 - old.depth();
    std::size_t provided[2] = {0, 0};
    auto const place = [&](std::byte const* record, std::uint64_t hash) {
      std::size_t const t = to.size() == 2 ? (hash >> side) & 1 : 0;
      std::byte* const at = to[t].insert(hash, row_block::key_at(record), layout_, [&](std::uint32_t block) { provide(to[t], provided[t], block); });
      std::memcpy(at + sizeof(key_type), record + sizeof(key_type), width * sizeof(float));
    };
    std::vector<std::byte> wrapped;   // rows of the last blocks that found room only in the first
    std::size_t const bytes = sizeof(tag_group) + layout_.slots() * layout_.record_bytes();
    for (std::uint32_t b = 0; b < old.blocks(); ++b) {
      if (b + 1 < old.blocks()) {
        std::byte const* const ahead = old.address(b + 1);
        for (std::size_t i = 0; i < bytes; i += alignment_bytes) __builtin_prefetch(ahead + i, 0, 2);
      }
      old.rows_of(b, layout_, [&](std::byte* record) {
        std::uint64_t const hash = mix(row_block::key_at(record));
        if (old.home(hash) > b) {
          wrapped.insert(wrapped.end(), record, record + layout_.record_bytes());
        } else {
          place(record, hash);
        }
      });
      if (old.in_extents() && (b + 1 == old.blocks() || (b + 1) % (std::uint32_t{1} << row_segment::extent_shift(layout_)) == 0))
        pool_.give(old.extent(b >> row_segment::extent_shift(layout_)));
    }
    for (std::size_t i = 0; i < wrapped.size(); i += layout_.record_bytes()) place(wrapped.data() + i, mix(row_block::key_at(wrapped.data() + i)));
    for (std::size_t t = 0; t < to.size(); ++t) provide(to[t], provided[t], to[t].blocks() - 1);
    old = row_segment{};
  }

  /// Gives a segment the extents of its first blocks up to `block`.
  void provide(row_segment& s, std::size_t& provided, std::uint32_t block) {
    if (!s.in_extents()) return;
    for (; provided <= block >> row_segment::extent_shift(layout_); ++provided) {
      bool used = false;
      std::byte* const extent = pool_.take(used, purpose_);
      s.extent(provided) = extent;
      for (std::size_t at = 0; used && at < extent_pool::extent_bytes; at += layout_.bytes()) std::memset(extent + at, 0, sizeof(tag_group));
    }
  }

  block_layout const& layout_;
  extent_pool& pool_;
  std::string_view purpose_;
};

}  // namespace nestpipe::storage::detail
