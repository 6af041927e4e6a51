#pragma once
/// @file
/// Index of a log of rows: 4 bytes an entry, full keys stay on disk.

#include <nestpipe/core/huge_memory.hpp>

#include <array>
#include <bit>
#include <cstdint>
#include <string>
#include <vector>

namespace nestpipe::storage::detail {

/// A bucket is a chain of cache lines of 15 entries, of which only the first line is partly filled: no rehashing, and at most one
/// line a bucket is not used to the full. An entry is 20 bits of a hash and 12 bits of a place; entries that agree are told apart
/// by who asks, with the keys on disk.
class log_index {
 public:
  using entry = std::uint32_t;
  static constexpr unsigned place_bits = 12;
  static constexpr std::uint32_t most_places = 1U << place_bits;
  static constexpr std::uint64_t fragment_mask = (1U << (32 - place_bits)) - 1;

  /// A bucket: its first line and how many entries that holds; 0 is an empty bucket.
  using head = std::uint32_t;

  static entry make(std::uint64_t hash, std::uint32_t place) {
    return static_cast<entry>((hash & fragment_mask) << place_bits) | place;
  }
  static std::uint32_t place_of(entry e) { return e & (most_places - 1); }
  static bool alike(entry e, std::uint64_t hash) { return e >> place_bits == (hash & fragment_mask); }

  explicit log_index(std::string purpose) : purpose_{std::move(purpose)} {}

  /// Fetches line number `passed` of a bucket; those before it have been fetched.
  void prefetch(head h, unsigned passed) const {
    std::uint32_t l = h >> 4;
    for (; passed > 0 && l != 0; --passed) l = at(l).next;
    if (l != 0) __builtin_prefetch(&at(l));
  }

  /// f(place) for every entry that may be of this hash.
  template <class F>
  void candidates(head h, std::uint64_t hash, F&& f) const {
    if (h == 0) return;
    std::uint32_t n = h & 15U;
    for (std::uint32_t l = h >> 4; l != 0; n = per_line) {
      line const& here = at(l);
      // All at once first: hardly any line has an entry alike. What lies behind the entries in use may be anything.
      std::uint32_t any = 0;
      for (std::uint32_t i = 0; i < per_line; ++i) any |= alike(here.entries[i], hash) ? 1U : 0U;
      if (any != 0) {
        for (std::uint32_t i = 0; i < n; ++i) {
          if (alike(here.entries[i], hash)) f(place_of(here.entries[i]));
        }
      }
      l = here.next;
    }
  }

  /// @throws error when memory runs out; nothing changed then
  void insert(head& h, entry e) {
    if (h == 0 || (h & 15U) == per_line) {
      std::uint32_t const l = take_line();
      at(l).next = h >> 4;
      h = l << 4;
    }
    at(h >> 4).entries[h & 15U] = e;
    ++h;
  }

  void replace(head h, entry from, entry to) { *find(h, from) = to; }

  void remove(head& h, entry e) {
    entry* const gone = find(h, e);
    std::uint32_t const first = h >> 4;
    --h;
    *gone = at(first).entries[h & 15U];
    if ((h & 15U) == 0) {
      std::uint32_t const next = at(first).next;
      give_back(first);
      h = next == 0 ? 0 : next << 4 | per_line;
    }
  }

  void clear(head& h) {
    for (std::uint32_t l = h >> 4; l != 0;) {
      std::uint32_t const next = at(l).next;
      give_back(l);
      l = next;
    }
    h = 0;
  }

  /// Bytes of all lines ever used; they are used again, and go back with the index.
  std::uint64_t bytes() const { return std::uint64_t{lines_} * sizeof(line); }

 private:
  static constexpr std::uint32_t per_line = 15;
  struct alignas(alignment_bytes) line {
    std::array<entry, per_line> entries;
    std::uint32_t next;
  };
  static_assert(sizeof(line) == 64);
  static constexpr unsigned first_slab_bits = 12;   // slab k has 2^(12 + k) lines: memory is touched line after line, never copied

  line& at(std::uint32_t l) const {
    std::uint32_t const shifted = (l >> first_slab_bits) + 1;
    auto const slab = static_cast<unsigned>(std::bit_width(shifted)) - 1;
    std::uint32_t const begin = ((1U << slab) - 1) << first_slab_bits;
    return reinterpret_cast<line*>(slabs_[slab].data())[l - begin];
  }

  entry* find(head h, entry e) const {
    std::uint32_t n = h & 15U;
    for (std::uint32_t l = h >> 4;; n = per_line) {
      line& here = at(l);
      for (std::uint32_t i = 0; i < n; ++i) {
        if (here.entries[i] == e) return &here.entries[i];
      }
      l = here.next;
    }
  }

  std::uint32_t take_line() {
    if (free_ != 0) {
      std::uint32_t const l = free_;
      free_ = at(l).next;
      return l;
    }
    std::uint32_t const l = lines_ == 0 ? 1 : lines_;  // 0 says "none"
    if (l >= 1U << 28) throw error{"storage::file_log: no more than 4 billion rows fit one table and rank", purpose_, "use more ranks"};
    if ((l >> first_slab_bits) + 1 == 1U << slabs_.size())
      slabs_.emplace_back((std::size_t{1} << (first_slab_bits + slabs_.size())) * sizeof(line), purpose_);
    lines_ = l + 1;
    return l;
  }
  void give_back(std::uint32_t l) {
    at(l).next = free_;
    free_ = l;
  }

  std::vector<huge_memory> slabs_;
  std::uint32_t lines_ = 0;
  std::uint32_t free_ = 0;
  std::string purpose_;
};

}  // namespace nestpipe::storage::detail
