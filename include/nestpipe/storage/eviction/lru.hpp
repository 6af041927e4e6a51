#pragma once
/// @file
/// Least recently used.

#include <nestpipe/storage/eviction/eviction.hpp>

namespace nestpipe::storage::eviction {

/// The row leaves first that no batch has needed for the longest time. Robust where what is popular changes; a long run of rows
/// that come once pushes everything else out.
class lru {
 public:
  struct mark {
    std::uint32_t last;
  };

  void open(std::uint64_t) {}
  void used(mark& m, key_type, std::uint32_t now) { m.last = now; }
  std::uint64_t worth(mark const& m, std::uint32_t now) const { return 0xffffffffU - (now - m.last); }  // right across a wrap of `now`
  std::uint64_t bytes() const { return 0; }
};
static_assert(audit<lru>());

}  // namespace nestpipe::storage::eviction
