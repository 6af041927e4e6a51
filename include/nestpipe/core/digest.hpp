#pragma once
/// @file
/// The 128-bit digest of rows and parameters: a sum of hashes, so it does not depend on order or on who holds what.

#include <nestpipe/core/config.hpp>
#include <nestpipe/core/random.hpp>

#include <bit>
#include <span>
#include <string>

namespace nestpipe {

/// Sum (mod 2^128, as two words) of item hashes. Commutative and associative: partial digests of ranks add up.
class digest {
 public:
  constexpr digest() = default;

  /// Adds one item: `(a, b)` names it, `values` are its float bits.
  constexpr void add(std::uint64_t a, std::uint64_t b, std::span<float const> values) {
    std::uint64_t low = mix64(a, b);
    std::uint64_t high = mix64(b ^ 0x5851f42d4c957f2dULL, a);
    for (float const v : values) {
      std::uint64_t const bits = std::bit_cast<std::uint32_t>(v);
      low = mix64(low, bits);
      high = (high ^ bits) * 0xd6e8feb86659fd93ULL;
      high ^= high >> 32;
    }
    add_words(mix64(low), mix64(high, low));
  }

  constexpr digest& operator+=(digest const& other) {
    add_words(other.low_, other.high_);
    return *this;
  }

  constexpr bool operator==(digest const&) const = default;

  constexpr std::uint64_t low() const { return low_; }
  constexpr std::uint64_t high() const { return high_; }
  static constexpr digest from_words(std::uint64_t low, std::uint64_t high) {
    digest d;
    d.low_ = low;
    d.high_ = high;
    return d;
  }

  /// 32 hexadecimal digits, high word first.
  std::string text() const {
    constexpr char digits[] = "0123456789abcdef";
    std::string out(32, '0');
    for (int i = 0; i < 16; ++i) {
      out[static_cast<std::size_t>(15 - i)] = digits[(high_ >> (4 * i)) & 15];
      out[static_cast<std::size_t>(31 - i)] = digits[(low_ >> (4 * i)) & 15];
    }
    return out;
  }

 private:
  constexpr void add_words(std::uint64_t low, std::uint64_t high) {
    low_ += low;
    high_ += high + (low_ < low ? 1 : 0);
  }
  std::uint64_t low_ = 0;
  std::uint64_t high_ = 0;
};

}  // namespace nestpipe
