#pragma once
/// @file
/// How often keys have occurred, in a fixed number of counters a shard.

#include <nestpipe/core/error.hpp>
#include <nestpipe/core/random.hpp>

#include <algorithm>
#include <span>
#include <vector>

namespace nestpipe::storage {

/// Size of the sketch of one shard of one table: 4 * width * depth bytes, taken when the shard has its first key.
struct sketch_size {
  std::uint32_t width = 1024;
  std::uint32_t depth = 4;
};

/// Count-min sketches (Cormode, Muthukrishnan, J. Algorithms 55, 2005), one a shard. An estimate is never below the truth; it is
/// above it by more than (e / width) N with a probability of at most e^-depth, N being all occurrences in the shard.
///
/// Counters are sums modulo 2^32 and nothing else: sketches of one size add and subtract, counter by counter, and what they hold
/// does not depend on the order of occurrences.
class count_sketches {
 public:
  /// @throws config_error when width or depth is 0
  void open(std::uint32_t table, std::uint32_t shards, sketch_size size) {
    require(size.width > 0 && size.depth > 0 && size.depth <= 16, "a counting sketch needs a width of at least 1 and a depth from 1 to 16", "table " + std::to_string(table));
    table_ = table;
    size_ = size;
    counters_.assign(shards, {});
  }

  /// O(depth).
  void add(key_type key, std::uint32_t times) {
    auto& c = counters_[shard(key)];
    if (c.empty()) c.assign(std::size_t{size_.width} * size_.depth, 0);
    for (std::uint32_t row = 0; row < size_.depth; ++row) c[place(key, row)] += times;
  }
  void subtract(key_type key, std::uint32_t times) { add(key, 0U - times); }

  /// O(depth).
  std::uint32_t estimate(key_type key) const {
    auto const& c = counters_[shard(key)];
    if (c.empty()) return 0;
    std::uint32_t least = c[place(key, 0)];
    for (std::uint32_t row = 1; row < size_.depth; ++row) least = std::min(least, c[place(key, row)]);
    return least;
  }

  /// Counters of a shard (depth, width); empty before its first key.
  std::span<std::uint32_t const> of_shard(std::uint32_t s) const { return counters_[s]; }
  void add_to_shard(std::uint32_t s, std::span<std::uint32_t const> counters) { combine(s, counters, 1U); }
  void subtract_from_shard(std::uint32_t s, std::span<std::uint32_t const> counters) { combine(s, counters, ~0U); }

  std::uint32_t shards() const { return static_cast<std::uint32_t>(counters_.size()); }
  sketch_size size() const { return size_; }
  std::uint64_t bytes() const {
    std::uint64_t n = 0;
    for (auto const& c : counters_) n += c.capacity() * sizeof(std::uint32_t);
    return n;
  }
  void clear() {
    for (auto& c : counters_) c.clear();
  }

 private:
  std::uint32_t shard(key_type key) const { return shard_of(table_, key, shards()); }
  std::size_t place(key_type key, std::uint32_t row) const {
    std::uint64_t const h = mix64(mix64(key ^ 0x3c6ef372fe94f82bULL), row);
    return std::size_t{row} * size_.width + static_cast<std::size_t>(((h >> 32) * size_.width) >> 32);
  }
  void combine(std::uint32_t s, std::span<std::uint32_t const> other, std::uint32_t factor) {
    if (other.empty()) return;
    std::size_t const n = std::size_t{size_.width} * size_.depth;
    require(other.size() == n, "sketches of two sizes cannot be combined", "table " + std::to_string(table_) + ", shard " + std::to_string(s), "keep the size of the sketch");
    if (counters_[s].empty()) counters_[s].assign(n, 0);
    for (std::size_t i = 0; i < n; ++i) counters_[s][i] += factor * other[i];
  }

  std::uint32_t table_ = 0;
  sketch_size size_{};
  std::vector<std::vector<std::uint32_t>> counters_;
};

}  // namespace nestpipe::storage
