#pragma once
/// @file
/// Shuffling of a stream without holding all of it: rows are permuted inside consecutive windows.

#include <nestpipe/core/random.hpp>

#include <cstdint>
#include <numeric>
#include <utility>
#include <vector>

namespace nestpipe::data {

/// Order of the `rows` rows of window number `window` in epoch `epoch`: `order[k]` is delivered k-th. A pure function of
/// its arguments (Fisher-Yates with a counter-based generator), so that a seek needs no replay. O(rows).
inline void window_order(std::uint64_t seed, std::uint64_t epoch, std::uint64_t window, std::uint32_t rows,
                         std::vector<std::uint32_t>& order) {
  order.resize(rows);
  std::iota(order.begin(), order.end(), 0U);
  counter_random const random{seed, epoch, window};
  for (std::uint32_t i = rows; i > 1; --i) {
    std::uint64_t const j = random.below(i, i);
    std::swap(order[i - 1], order[j]);
  }
}

}  // namespace nestpipe::data
