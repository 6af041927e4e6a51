#pragma once
/// @file
/// Hashing and the counter-based generator: every random number is a pure function of what it is for, so nothing depends
/// on the order in which ranks or threads ask.

#include <nestpipe/core/config.hpp>

#include <cmath>

namespace nestpipe {

/// Bijective 64-bit mixer (the finaliser of splitmix64: Steele, Lea, Flood, OOPSLA 2014).
NESTPIPE_HOST_DEVICE constexpr std::uint64_t mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15ULL;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9ULL;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebULL;
  return x ^ (x >> 31);
}

/// Hash of two values; not commutative.
NESTPIPE_HOST_DEVICE constexpr std::uint64_t mix64(std::uint64_t a, std::uint64_t b) {
  return mix64(mix64(a) ^ (b + 0x632be59bd9b4e019ULL));
}

/// The shard of a key: fixed for the life of a model. @param shards V of the design, at least 1.
NESTPIPE_HOST_DEVICE constexpr std::uint32_t shard_of(std::uint32_t table, key_type key, std::uint32_t shards) {
  // The high half times V, shifted: unbiased enough for V below 2^32 and needs no division.
  return static_cast<std::uint32_t>(((mix64(table, key) >> 32) * shards) >> 32);
}

/// The rank that owns a shard.
NESTPIPE_HOST_DEVICE constexpr std::uint32_t owner_of(std::uint32_t shard, std::uint32_t world_size) {
  return shard % world_size;
}

/// Counter-based generator: value number `i` of stream (seed, a, b) without any state.
/// Source of the mixing: splitmix64; each stream is keyed by three words.
class counter_random {
 public:
  NESTPIPE_HOST_DEVICE constexpr counter_random(std::uint64_t seed, std::uint64_t a, std::uint64_t b)
      : key_{mix64(mix64(seed, a), b)} {}

  NESTPIPE_HOST_DEVICE constexpr std::uint64_t bits(std::uint64_t i) const { return mix64(key_, i); }

  /// Uniform in [0, 1) with 24 random bits: exactly representable in float, the same on every backend.
  NESTPIPE_HOST_DEVICE constexpr float uniform(std::uint64_t i) const {
    return static_cast<float>(bits(i) >> 40) * 0x1p-24f;
  }

  /// Uniform in [0, 1) with 53 random bits.
  NESTPIPE_HOST_DEVICE constexpr double uniform_double(std::uint64_t i) const {
    return static_cast<double>(bits(i) >> 11) * 0x1p-53;
  }

  /// Integer below `n` (n >= 1), by multiplication of the high word (bias below n / 2^32).
  NESTPIPE_HOST_DEVICE constexpr std::uint64_t below(std::uint64_t i, std::uint64_t n) const {
    if (n <= 0xffffffffULL) return ((bits(i) >> 32) * n) >> 32;
    return bits(i) % n;
  }

  /// Approximately normal(0, 1): the sum of twelve uniforms less six (Irwin-Hall), within [-6, 6]; additions only, so its
  /// bits are the same wherever IEEE arithmetic is.
  NESTPIPE_HOST_DEVICE constexpr float normal(std::uint64_t i) const {
    float sum = 0;
    for (std::uint64_t k = 0; k < 12; ++k) sum += uniform(i * 12 + k);
    return sum - 6.0f;
  }

 private:
  std::uint64_t key_;
};

}  // namespace nestpipe
