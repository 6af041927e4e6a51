#pragma once
/// @file
/// Keys with a count: which rows must stay.

#include <nestpipe/core/random.hpp>

#include <algorithm>
#include <cstddef>
#include <utility>
#include <vector>

namespace nestpipe::storage::detail {

/// Open addressing; entries whose count is 0 are dropped when the table is rebuilt. Allocates only while more keys are pinned at
/// once than ever before.
class pin_counts {
 public:
  void add(key_type key) {
    if (2 * (used_ + 1) > entries_.size()) rebuild();
    entry& e = entries_[find(key)];
    used_ += e.taken ? 0 : 1;
    e.key = key;
    e.taken = true;
    pinned_ += e.count++ == 0 ? 1 : 0;
  }
  /// A key that is not pinned is ignored.
  void remove(key_type key) {
    if (entries_.empty()) return;
    entry& e = entries_[find(key)];
    if (e.count != 0) pinned_ -= --e.count == 0 ? 1 : 0;
  }
  bool contains(key_type key) const { return pinned_ != 0 && entries_[find(key)].count != 0; }
  std::size_t bytes() const { return (entries_.capacity() + spare_.capacity()) * sizeof(entry); }

 private:
  struct entry {
    key_type key = 0;
    std::uint32_t count = 0;
    bool taken = false;
  };

  std::size_t find(key_type key) const {
    std::size_t const mask = entries_.size() - 1;
    std::size_t at = mix64(key) & mask;
    while (entries_[at].taken && entries_[at].key != key) at = (at + 1) & mask;
    return at;
  }

  void rebuild() {
    std::size_t slots = 64;
    while (slots < 4 * (pinned_ + 1)) slots *= 2;
    std::swap(entries_, spare_);
    entries_.assign(std::max(slots, spare_.size()), entry{});
    used_ = 0;
    for (entry const& e : spare_) {
      if (e.count == 0) continue;
      entries_[find(e.key)] = e;
      ++used_;
    }
  }

  std::vector<entry> entries_, spare_;
  std::size_t used_ = 0;     ///< entries taken
  std::size_t pinned_ = 0;   ///< of them, those with a count
};

}  // namespace nestpipe::storage::detail
