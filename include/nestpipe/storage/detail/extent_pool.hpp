#pragma once
/// @file
/// Pieces of memory of one size, cut from large blocks of huge pages and used again.

#include <nestpipe/core/huge_memory.hpp>

#include <algorithm>
#include <string_view>
#include <vector>

namespace nestpipe::storage::detail {

/// Memory goes back to the system only with the pool: clearing pages anew is what would cost most.
class extent_pool {
 public:
  static constexpr std::size_t extent_bytes = huge_memory::huge_page;

  /// Makes sure that take() works `extents` times without asking for memory. @throws error naming bytes and purpose
  void ensure(std::size_t extents, std::string_view purpose) {
    if (used_.size() + fresh_.size() >= extents) return;
    // Only address space: pages that nobody touches cost nothing.
    std::size_t const more = std::max<std::size_t>(extents - used_.size() - fresh_.size(), 32);
    arenas_.reserve(arenas_.size() + 1);
    fresh_.reserve(fresh_.size() + more);
    used_.reserve(all_ + more);
    arenas_.push_back(huge_memory{more * extent_bytes, purpose});
    all_ += more;
    for (std::size_t i = more; i-- > 0;) fresh_.push_back(arenas_.back().data() + i * extent_bytes);
  }

  /// An extent whose bytes are zero, or, when `used`, as someone left them.
  std::byte* take(bool& used, std::string_view purpose) {
    ensure(1, purpose);
    std::vector<std::byte*>& from = used_.empty() ? fresh_ : used_;
    used = !used_.empty();
    std::byte* const extent = from.back();
    from.pop_back();
    touched_ += used ? 0 : 1;
    return extent;
  }
  void give(std::byte* extent) { used_.push_back(extent); }

  /// Memory touched so far, whether in use or waiting.
  std::size_t bytes() const { return touched_ * extent_bytes; }

 private:
  std::vector<huge_memory> arenas_;
  std::vector<std::byte*> fresh_, used_;
  std::size_t all_ = 0;
  std::size_t touched_ = 0;
};

}  // namespace nestpipe::storage::detail
