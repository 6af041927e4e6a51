#pragma once
/// @file
/// What a disk can do at best: large blocks one after the other, and 4 KiB at random places.

#include "clock.hpp"

#include <nestpipe/core/random.hpp>
#include <nestpipe/storage/detail/disk_queue.hpp>
#include <nestpipe/storage/detail/extent_file.hpp>
#include <nestpipe/storage/detail/log_block.hpp>

#include <string>

namespace nestpipe::bench {

struct disk_limits {
  double write_bytes = 0;      ///< a second, 1 MiB at a time
  double read_bytes = 0;       ///< a second, 1 MiB at a time
  double reads_1 = 0;          ///< 4 KiB a second, one at a time
  double reads_16 = 0;         ///< sixteen at a time
  double reads_64 = 0;
};

/// Past the page cache. @param bytes size of the file that is written and read: larger than caches of the device
inline disk_limits measure_disk(std::string const& path, std::uint64_t bytes, double seconds_each) {
  constexpr std::uint64_t piece = 1 << 20;
  storage::detail::extent_file file{path, piece, true, "limit"};
  storage::detail::page_memory memory{64 * piece, "limit"};
  for (std::size_t i = 0; i < piece; ++i) memory.data()[i] = static_cast<std::byte>(mix64(i));
  disk_limits found;
  std::uint64_t const pieces = bytes / piece;
  storage::detail::disk_queue one{file.descriptor(), 1, true, "limit"};
  for (std::uint64_t i = 0; i < pieces; ++i) file.take();
  auto const all = [&](bool write) {
    for (std::uint64_t i = 0; i < pieces; ++i) one.run_one({i * piece, memory.data(), static_cast<std::uint32_t>(piece), write});
  };
  found.write_bytes = static_cast<double>(bytes) / seconds_of([&] { all(true); });
  found.read_bytes = static_cast<double>(bytes) / seconds_of([&] { all(false); });
  counter_random const random{7, bytes, 0};
  std::uint64_t drawn = 0;
  auto const reads = [&](unsigned depth) {
    storage::detail::disk_queue queue{file.descriptor(), depth, true, "limit"};
    double taken = 0, done = 0;
    while (taken < seconds_each) {
      std::size_t const n = 200 * depth;
      taken += seconds_of([&] {
        queue.run(
            n, [&](std::size_t, unsigned place) { return storage::detail::disk_request{random.below(drawn++, bytes / 4096) * 4096, memory.data() + place * 4096, 4096, false}; },
            [](std::size_t, unsigned) {});
      });
      done += static_cast<double>(n);
    }
    return done / taken;
  };
  found.reads_1 = reads(1);
  found.reads_16 = reads(16);
  found.reads_64 = reads(64);
  return found;
}

}  // namespace nestpipe::bench
