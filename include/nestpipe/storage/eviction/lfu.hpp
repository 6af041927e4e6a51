#pragma once
/// @file
/// Least frequently used, with ageing.

#include <nestpipe/core/error.hpp>
#include <nestpipe/core/random.hpp>
#include <nestpipe/storage/eviction/eviction.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <vector>

namespace nestpipe::storage::eviction {

/// The row leaves first that fewest batches have needed of late; of equals, the one not needed for longer. Uses are counted in a
/// small sketch that outlives a row's stay, so a row that comes back is known, and a row seen once leaves before one seen twice:
/// nothing has to be kept out on its first use. All counts are halved every `memory` uses per row of capacity.
/// Source: TinyLFU (Einziger, Friedman, Manes, ACM TOS 2017); the counters of a key lie in one cache line.
class lfu {
 public:
  struct mark {
    std::uint32_t last;
    std::uint16_t count;   ///< when last used
    std::uint16_t age;     ///< halvings until then, modulo 2^16
  };

  lfu() = default;
  /// @param memory  uses per row of capacity after which all counts are halved, at least 1
  explicit lfu(std::uint32_t memory) : memory_{memory} { require(memory >= 1, "eviction::lfu: memory must be at least 1"); }

  void open(std::uint64_t rows) {
    std::uint64_t const lines = std::bit_ceil(std::max<std::uint64_t>(rows / 8, 8));
    if (lines <= lines_.size()) return;
    // A larger sketch knows what the smaller one knew: line i of 2^k becomes the lines that fold onto it.
    std::vector<line> grown(lines);
    for (std::size_t i = 0; i < grown.size() && !lines_.empty(); ++i) grown[i] = lines_[i & (lines_.size() - 1)];
    lines_ = std::move(grown);
    period_ = std::max<std::uint64_t>(rows, 64) * memory_;
  }
  void used(mark& m, key_type key, std::uint32_t now) {
    if (++uses_ >= period_) halve();
    m = {now, count(key), age_};
  }
  std::uint64_t worth(mark const& m, std::uint32_t now) const {
    unsigned const halvings = static_cast<std::uint16_t>(age_ - m.age);
    std::uint64_t const left = halvings > 15 ? 0 : static_cast<unsigned>(m.count) >> halvings;
    return left << 32 | (0xffffffffU - (now - m.last));
  }
  std::uint64_t bytes() const { return lines_.capacity() * sizeof(line); }

 private:
  static constexpr std::size_t counters = 64;
  struct alignas(64) line {
    std::array<std::uint8_t, counters> of{};
  };

  // Counts the key and returns the estimate: the least of four counters, of which only the least grow (conservative update).
  std::uint16_t count(key_type key) {
    std::uint64_t const hash = mix64(key ^ 0xd6e8feb86659fd93ULL);
    line& l = lines_[hash & (lines_.size() - 1)];
    std::array<std::size_t, 4> at{};
    std::uint8_t least = 255;
    for (std::size_t i = 0; i < at.size(); ++i) {
      at[i] = 16 * i + ((hash >> (44 + 4 * i)) & 15);
      least = std::min(least, l.of[at[i]]);
    }
    if (least == 255) return least;
    for (std::size_t const a : at) l.of[a] = std::max(l.of[a], static_cast<std::uint8_t>(least + 1));
    return static_cast<std::uint16_t>(least + 1);
  }
  void halve() {
    for (line& l : lines_) {
      for (std::uint8_t& c : l.of) c = static_cast<std::uint8_t>(c >> 1);
    }
    ++age_;
    uses_ = 0;
  }

  std::uint32_t memory_ = 16;
  std::vector<line> lines_;
  std::uint64_t period_ = 1024;
  std::uint64_t uses_ = 0;
  std::uint16_t age_ = 0;
};
static_assert(audit<lfu>());

}  // namespace nestpipe::storage::eviction
