#pragma once
/// @file
/// De-duplication with inverse in one hash pass: the k-th distinct key gets index k.

#include <nestpipe/core/random.hpp>
#include <nestpipe/exec/buffer.hpp>

namespace nestpipe::embedding {

/// Open-addressing set of keys, numbered by first appearance. No key is reserved; nothing is allocated once it is as large
/// as the largest batch.
class key_index {
 public:
  /// Empties the set and makes room for `keys` distinct keys. O(keys) to clear.
  void reset(std::size_t keys) {
    std::size_t slots = 16;
    while (slots < 2 * keys) slots *= 2;
    slots_.assign_zero(slots);
    keys_.resize(keys);
    mask_ = slots - 1;
    size_ = 0;
  }

  /// Index of `key`, which is size() - 1 after the call when the key is new. Expected O(1); at most the `keys` of reset.
  std::uint32_t insert(key_type key) {
    for (std::size_t at = mix64(key) & mask_;; at = (at + 1) & mask_) {
      std::uint32_t const slot = slots_[at];
      if (slot == 0) {
        keys_[size_] = key;
        slots_[at] = ++size_;
        return size_ - 1;
      }
      if (keys_[slot - 1] == key) return slot - 1;
    }
  }

  /// Index of `key`, or size() when it is not in the set.
  std::uint32_t find(key_type key) const {
    for (std::size_t at = mix64(key) & mask_;; at = (at + 1) & mask_) {
      std::uint32_t const slot = slots_[at];
      if (slot == 0) return size_;
      if (keys_[slot - 1] == key) return slot - 1;
    }
  }

  std::uint32_t size() const { return size_; }
  std::span<key_type const> keys() const { return keys_.span().first(size_); }

 private:
  exec::buffer<std::uint32_t> slots_;  // index + 1, 0 = free
  exec::buffer<key_type> keys_;
  std::size_t mask_ = 0;
  std::uint32_t size_ = 0;
};

}  // namespace nestpipe::embedding
