#pragma once
/// @file
/// Keys per second of a bare sort: what de-duplication by sorting could reach at best is less.

#include "clock.hpp"

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

namespace nestpipe::bench {

/// std::sort of a copy of `keys`; the copy is not timed.
inline double sort_rate(std::span<std::uint64_t const> keys, std::size_t reps = 5) {
  std::vector<std::uint64_t> work(keys.size());
  std::vector<double> taken;
  for (std::size_t r = 0; r < reps; ++r) {
    std::copy(keys.begin(), keys.end(), work.begin());
    taken.push_back(seconds_of([&] { std::sort(work.begin(), work.end()); }));
    keep(work.data());
  }
  return static_cast<double>(keys.size()) / median(std::move(taken));
}

/// Stable radix sort, eight bits a pass; passes in which all keys agree are left out. @param other as long as `keys`
inline void radix_sort(std::vector<std::uint64_t>& keys, std::vector<std::uint64_t>& other) {
  for (unsigned shift = 0; shift < 64; shift += 8) {
    std::size_t start[257] = {};
    for (std::uint64_t const k : keys) ++start[(k >> shift & 255) + 1];
    if (std::find(start + 1, start + 257, keys.size()) != start + 257) continue;
    for (std::size_t d = 0; d < 256; ++d) start[d + 1] += start[d];
    for (std::uint64_t const k : keys) other[start[k >> shift & 255]++] = k;
    keys.swap(other);
  }
}

inline double radix_sort_rate(std::span<std::uint64_t const> keys, std::size_t reps = 5) {
  std::vector<std::uint64_t> work(keys.size()), other(keys.size());
  std::vector<double> taken;
  for (std::size_t r = 0; r < reps; ++r) {
    std::copy(keys.begin(), keys.end(), work.begin());
    taken.push_back(seconds_of([&] { radix_sort(work, other); }));
    keep(work.data());
  }
  return static_cast<double>(keys.size()) / median(std::move(taken));
}

}  // namespace nestpipe::bench
