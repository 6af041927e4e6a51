#pragma once
/// @file
/// From keys to slot numbers, when the keys themselves lie with the slots: 8 bytes an entry, no key stored.

#include <nestpipe/core/config.hpp>

#include <vector>

namespace nestpipe::storage::detail {

/// Open addressing with linear probing. An entry is the high half of the hash and a slot. Its place grows with the hash, so
/// entries move back on erase (Knuth, The Art of Computer Programming 6.4, algorithm R) and to a larger table without their keys.
class slot_index {
 public:
  static constexpr std::uint32_t none = 0xffffffffU;

  slot_index() : entries_(least, 0) {}

  /// Slot whose key is the wanted one, or none. Expected O(1).
  /// @param is_key  callable: whether the slot holds that key
  template <class IsKey>
  std::uint32_t find(std::uint64_t hash, IsKey is_key) const {
    for (std::size_t at = home(hash >> 32); entries_[at] != 0; at = next(at)) {
      if (entries_[at] >> 32 == hash >> 32 && is_key(slot_of(entries_[at]))) return slot_of(entries_[at]);
    }
    return none;
  }
  /// A key that is not there yet. @param slot below 2^32 - 2
  void insert(std::uint64_t hash, std::uint32_t slot) {
    if ((count_ + 1) * 10 > entries_.size() * 7) grow();
    put((hash >> 32) << 32 | (slot + 1));
    ++count_;
  }
  /// An entry that is there.
  void erase(std::uint64_t hash, std::uint32_t slot) {
    std::size_t hole = home(hash >> 32);
    while (slot_of(entries_[hole]) != slot) hole = next(hole);
    for (std::size_t at = next(hole); entries_[at] != 0; at = next(at)) {
      // An entry may move back unless its home lies cyclically in (hole, at].
      std::size_t const h = home(entries_[at] >> 32);
      if (hole <= at ? hole < h && h <= at : hole < h || h <= at) continue;
      entries_[hole] = entries_[at];
      hole = at;
    }
    entries_[hole] = 0;
    --count_;
  }

  void prefetch(std::uint64_t hash) const { __builtin_prefetch(entries_.data() + home(hash >> 32), 0, 3); }
  /// The slot that most likely holds the key, or none, without a look at any key.
  std::uint32_t guess(std::uint64_t hash) const {
    std::size_t const at = home(hash >> 32);
    return entries_[at] >> 32 == hash >> 32 && entries_[at] != 0 ? slot_of(entries_[at]) : none;
  }

  std::uint64_t size() const { return count_; }
  std::uint64_t bytes() const { return entries_.capacity() * sizeof(std::uint64_t); }

 private:
  static constexpr std::size_t least = 64;

  static std::uint32_t slot_of(std::uint64_t entry) { return static_cast<std::uint32_t>(entry) - 1; }
  std::size_t home(std::uint64_t high) const { return static_cast<std::size_t>((high * entries_.size()) >> 32); }
  std::size_t next(std::size_t at) const { return at + 1 == entries_.size() ? 0 : at + 1; }
  void put(std::uint64_t entry) {
    std::size_t at = home(entry >> 32);
    while (entries_[at] != 0) at = next(at);
    entries_[at] = entry;
  }
  void grow() {
    std::vector<std::uint64_t> old(2 * entries_.size(), 0);
    old.swap(entries_);
    for (std::uint64_t const entry : old) {
      if (entry != 0) put(entry);
    }
  }

  std::vector<std::uint64_t> entries_;  // 0: empty
  std::uint64_t count_ = 0;
};

}  // namespace nestpipe::storage::detail
