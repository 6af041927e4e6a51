#pragma once
/// @file
/// The checksum of checkpoint files.

#include <nestpipe/core/random.hpp>

#include <algorithm>
#include <bit>
#include <cstring>
#include <span>
#include <string>
#include <string_view>

namespace nestpipe::checkpoint {

static_assert(std::endian::native == std::endian::little, "checkpoints are little-endian and written as they lie in memory");

/// 64-bit hash of a byte string, in pieces of any size. Words of 8 bytes (the last one filled up with zeros) go to four lanes in
/// turn: lane = rotate_left(lane xor word, 29) * odd constant; the lanes and the length are folded with mix64. Every step is a
/// bijection of the lane and of the word, so a change inside one word is always found, any other change but for 1 in 2^64. It
/// protects against faults, not against forgery. O(bytes), several GB/s on one core.
class file_hash {
 public:
  void update(std::span<std::byte const> bytes) {
    if (bytes.empty()) return;
    length_ += bytes.size();
    std::byte const* p = bytes.data();
    std::size_t n = bytes.size();
    if (held_ != 0) {
      std::size_t const take = std::min(n, block - held_);
      std::memcpy(tail_ + held_, p, take);
      held_ += take;
      p += take;
      n -= take;
      if (held_ < block) return;
      absorb(tail_);
      held_ = 0;
    }
    for (; n >= block; p += block, n -= block) absorb(p);
    if (n != 0) std::memcpy(tail_, p, n);
    held_ = n;
  }
  void update(std::string_view text) { update(std::as_bytes(std::span{text.data(), text.size()})); }

  /// The hash of everything so far.
  std::uint64_t value() const {
    file_hash last = *this;
    if (held_ != 0) {
      std::memset(last.tail_ + held_, 0, block - held_);
      last.absorb(last.tail_);
    }
    std::uint64_t h = mix64(length_);
    for (std::uint64_t const lane : last.lane_) h = mix64(h, lane);
    return h;
  }

  static std::uint64_t of(std::span<std::byte const> bytes) {
    file_hash h;
    h.update(bytes);
    return h.value();
  }

 private:
  static constexpr std::size_t block = 32;
  void absorb(std::byte const* p) {
    for (std::size_t i = 0; i < 4; ++i) {
      std::uint64_t word;
      std::memcpy(&word, p + 8 * i, 8);
      lane_[i] = std::rotl(lane_[i] ^ word, 29) * 0x9fb21c651e98df25ULL;
    }
  }

  std::uint64_t lane_[4] = {0x243f6a8885a308d3ULL, 0x13198a2e03707344ULL, 0xa4093822299f31d0ULL, 0x082efa98ec4e6c89ULL};
  std::uint64_t length_ = 0;
  std::size_t held_ = 0;
  std::byte tail_[block] = {};
};

/// 16 hexadecimal digits.
inline std::string hex64(std::uint64_t x) {
  std::string out(16, '0');
  for (std::size_t i = 0; i < 16; ++i) out[15 - i] = "0123456789abcdef"[(x >> (4 * i)) & 15];
  return out;
}

/// The reverse; false unless it is exactly what hex64 writes.
inline bool parse_hex64(std::string_view text, std::uint64_t& x) {
  x = 0;
  if (text.size() != 16) return false;
  for (char const c : text) {
    if (!((c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'))) return false;
    x = x << 4 | static_cast<std::uint64_t>(c <= '9' ? c - '0' : c - 'a' + 10);
  }
  return true;
}

}  // namespace nestpipe::checkpoint
