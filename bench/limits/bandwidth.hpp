#pragma once
/// @file
/// Bytes per second of memory.

#include "clock.hpp"

#include <nestpipe/core/huge_memory.hpp>

namespace nestpipe::bench {

/// Bytes read plus bytes written per second by memcpy of `bytes` bytes, one thread, huge pages.
inline double copy_bandwidth(std::size_t bytes = std::size_t{256} << 20, std::size_t reps = 7) {
  huge_memory const from{bytes, "benchmark"};
  huge_memory const to{bytes, "benchmark"};
  std::memset(from.data(), 1, bytes);
  double const s = median_seconds(reps, [&](std::size_t) {
    std::memcpy(to.data(), from.data(), bytes);
    keep(to.data());
  });
  return 2.0 * static_cast<double>(bytes) / s;
}

}  // namespace nestpipe::bench
