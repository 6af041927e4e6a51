#pragma once
/// @file
/// De-duplication with inverse in one hash pass: the k-th distinct key gets index k.

#include <nestpipe/core/random.hpp>
#include <nestpipe/exec/buffer.hpp>

#include <algorithm>
#include <bit>

namespace nestpipe::embedding {

/// Open-addressing set of keys, numbered by first appearance. No key is reserved; nothing is allocated once it is as large
/// as the largest batch.
///
/// A slot is 4 bytes: 1 + the index of a key, and above it as many bits of the key's hash as are left over, so that other keys
/// in the way are seldom looked at.
class key_index {
 public:
  /// Empties the set and makes room for `keys` distinct keys, fewer than 2^32. O(keys) to clear.
  void reset(std::size_t keys) {
    index_mask_ = static_cast<std::uint32_t>((std::uint64_t{1} << std::bit_width(keys)) - 1);
    std::size_t slots = 16;
    while (slots < keys + keys / 2) slots *= 2;
    slots_.assign_zero(slots);
    keys_.resize(keys);
    mask_ = slots - 1;
    size_ = 0;
  }

  /// Index of `key`, which is size() - 1 after the call when the key is new. Expected O(1); at most the `keys` of reset.
  std::uint32_t insert(key_type key) { return insert(key, mix64(key)); }

  /// indices[i] = insert(keys[i]), in this order; what the keys ahead need is on its way meanwhile. O(n) expected.
  void insert(std::span<key_type const> keys, std::uint32_t* indices) {
    pipelined(keys, [&](std::size_t i, std::uint64_t hash) { indices[i] = insert(keys[i], hash); });
  }

  /// Index of `key`, or size() when it is not in the set.
  std::uint32_t find(key_type key) const { return find(key, mix64(key)); }

  /// indices[i] = find(keys[i]). O(n) expected.
  void find(std::span<key_type const> keys, std::uint32_t* indices) const {
    pipelined(keys, [&](std::size_t i, std::uint64_t hash) { indices[i] = find(keys[i], hash); });
  }

  std::uint32_t size() const { return size_; }
  std::span<key_type const> keys() const { return keys_.span().first(size_); }

 private:
  static constexpr std::size_t chunk = 32;   ///< keys between issuing a prefetch and using what it brought

  std::uint32_t tag_of(std::uint64_t hash) const { return static_cast<std::uint32_t>(hash >> 32) & ~index_mask_; }

  std::uint32_t insert(key_type key, std::uint64_t hash) {
    std::uint32_t const tag = tag_of(hash);
    for (std::size_t at = hash & mask_;; at = (at + 1) & mask_) {
      std::uint32_t const slot = slots_[at];
      if (slot == 0) {
        keys_[size_] = key;
        slots_[at] = tag | ++size_;
        return size_ - 1;
      }
      if ((slot & ~index_mask_) == tag && keys_[(slot & index_mask_) - 1] == key) return (slot & index_mask_) - 1;
    }
  }

  std::uint32_t find(key_type key, std::uint64_t hash) const {
    std::uint32_t const tag = tag_of(hash);
    for (std::size_t at = hash & mask_;; at = (at + 1) & mask_) {
      std::uint32_t const slot = slots_[at];
      if (slot == 0) return size_;
      if ((slot & ~index_mask_) == tag && keys_[(slot & index_mask_) - 1] == key) return (slot & index_mask_) - 1;
    }
  }

  /// f(i, hash of keys[i]) for every i, in three stages a chunk apart: slots are fetched, then the keys they lead to.
  template <class F>
  void pipelined(std::span<key_type const> keys, F f) const {
    std::uint64_t hashes[3][chunk];
    std::uint32_t const* const slots = slots_.data();
    key_type const* const known = keys_.data();
    std::size_t const n = keys.size();
    for (std::size_t c = 0; c < n + 2 * chunk; c += chunk) {
      if (c < n) {
        std::uint64_t* const h = hashes[c / chunk % 3];
        std::size_t const m = std::min(chunk, n - c);
        for (std::size_t i = 0; i < m; ++i) h[i] = mix64(keys[c + i]);
        for (std::size_t i = 0; i < m; ++i) __builtin_prefetch(slots + (h[i] & mask_), 1, 3);
      }
      if (c >= chunk && c - chunk < n) {
        std::uint64_t const* const h = hashes[(c / chunk - 1) % 3];
        std::size_t const m = std::min(chunk, n - (c - chunk));
        for (std::size_t i = 0; i < m; ++i) {
          std::uint32_t const slot = slots[h[i] & mask_];
          __builtin_prefetch(known + (slot & index_mask_), 0, 3);   // one further at most on the same line; none is at 0
        }
      }
      if (c >= 2 * chunk) {
        std::uint64_t const* const h = hashes[(c / chunk - 2) % 3];
        std::size_t const m = std::min(chunk, n - (c - 2 * chunk));
        for (std::size_t i = 0; i < m; ++i) f(c - 2 * chunk + i, h[i]);
      }
    }
  }

  exec::buffer<std::uint32_t> slots_;  // hash bits and index + 1; 0 = free
  exec::buffer<key_type> keys_;
  std::size_t mask_ = 0;
  std::uint32_t index_mask_ = 0;
  std::uint32_t size_ = 0;
};

}  // namespace nestpipe::embedding
