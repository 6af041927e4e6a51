#pragma once
/// @file
/// Floats to narrower formats and back, as integer arithmetic without branches, so that loops over them become vector code on
/// the host and the same bits come out on a device. Finite values stay finite: what is too large becomes the largest finite
/// value of the format. NaN stays NaN, infinities stay.

#include <nestpipe/core/config.hpp>

namespace nestpipe::storage::detail {

NESTPIPE_HOST_DEVICE inline std::uint32_t bits_of(float x) { return __builtin_bit_cast(std::uint32_t, x); }
NESTPIPE_HOST_DEVICE inline float float_of(std::uint32_t bits) { return __builtin_bit_cast(float, bits); }

/// As `yes ? a : b`, of which g++ makes a branch around whatever only one of them needs, and then no vector code.
NESTPIPE_HOST_DEVICE inline std::uint32_t select(bool yes, std::uint32_t a, std::uint32_t b) {
  std::uint32_t const mask = 0U - static_cast<std::uint32_t>(yes);
  return (a & mask) | (b & ~mask);
}

inline constexpr std::uint32_t sign_bit = 0x80000000U;
inline constexpr std::uint32_t infinity_bits = 0x7f800000U;

/// bfloat16 in the upper 16 bits of a float. @param up  added to the lower 16 bits before they are cut off
NESTPIPE_HOST_DEVICE inline std::uint32_t cut_to_bfloat16(std::uint32_t bits, std::uint32_t up) {
  std::uint32_t const sign = bits & sign_bit;
  std::uint32_t const magnitude = bits ^ sign;
  std::uint32_t const rounded = (magnitude + up) & 0xffff0000U;
  std::uint32_t const finite = select(rounded < infinity_bits, rounded, 0x7f7f0000U);
  std::uint32_t const special = select(magnitude == infinity_bits, infinity_bits, 0x7fc00000U);
  return sign | select(magnitude < infinity_bits, finite, special);
}
/// To nearest, ties to even.
NESTPIPE_HOST_DEVICE inline std::uint32_t nearest_bfloat16(float x) {
  std::uint32_t const bits = bits_of(x);
  return cut_to_bfloat16(bits, 0x7fffU + ((bits >> 16) & 1));
}
/// Up with a probability that is the distance from the lower neighbour: unbiased. @param random  16 random bits
NESTPIPE_HOST_DEVICE inline std::uint32_t random_bfloat16(float x, std::uint32_t random) { return cut_to_bfloat16(bits_of(x), random & 0xffffU); }

inline constexpr std::uint32_t least_normal_half = 0x38800000U;    ///< 2^-14 as a float
inline constexpr std::uint32_t largest_half = 0x7bffU;             ///< 65504

/// @param normal     half bits of a magnitude that is a normal half
/// @param subnormal  half bits of a smaller one
NESTPIPE_HOST_DEVICE inline std::uint32_t choose_half(std::uint32_t bits, std::uint32_t normal, std::uint32_t subnormal) {
  std::uint32_t const magnitude = bits & ~sign_bit;
  std::uint32_t const small = select(magnitude < least_normal_half, subnormal, normal);
  std::uint32_t const below = select(magnitude < 0x47800000U, small, largest_half);  // 65536 and more
  std::uint32_t const finite = select(below > largest_half, largest_half, below);
  std::uint32_t const special = select(magnitude == infinity_bits, 0x7c00U, 0x7e00U);
  return ((bits & sign_bit) >> 16) | select(magnitude < infinity_bits, finite, special);
}
/// float16 in the lower 16 bits. To nearest, ties to even.
NESTPIPE_HOST_DEVICE inline std::uint32_t nearest_half(float x) {
  std::uint32_t const bits = bits_of(x);
  std::uint32_t const magnitude = bits & ~sign_bit;
  // The exponent's bias falls from 127 to 15.
  std::uint32_t const normal = (magnitude - (112U << 23) + 0xfffU + ((magnitude >> 13) & 1)) >> 13;
  // Beside 0.5 a float's last bit is worth 2^-24, as a subnormal half's is: the addition rounds.
  std::uint32_t const subnormal = bits_of(float_of(select(magnitude < least_normal_half, magnitude, 0)) + 0.5f) - bits_of(0.5f);
  return choose_half(bits, normal, subnormal);
}
/// Unbiased for normal halves, for smaller ones within 2^-37. @param random  13 random bits
NESTPIPE_HOST_DEVICE inline std::uint32_t random_half(float x, std::uint32_t random) {
  std::uint32_t const bits = bits_of(x);
  std::uint32_t const magnitude = bits & ~sign_bit;
  std::uint32_t const up = random & 0x1fffU;
  std::uint32_t const normal = (magnitude - (112U << 23) + up) >> 13;
  // In units of 2^-37 a subnormal half has 13 bits behind its last one.
  float const units = float_of(select(magnitude < least_normal_half, magnitude, 0)) * 0x1p37f;
  std::uint32_t const subnormal = (static_cast<std::uint32_t>(static_cast<std::int32_t>(units)) + up) >> 13;
  return choose_half(bits, normal, subnormal);
}
/// Exact. @param half  in the lower 16 bits
NESTPIPE_HOST_DEVICE inline float half_to_float(std::uint32_t half) {
  std::uint32_t const sign = (half & 0x8000U) << 16;
  std::uint32_t const magnitude = half & 0x7fffU;
  float const subnormal = static_cast<float>(static_cast<std::int32_t>(magnitude)) * 0x1p-24f;
  std::uint32_t const normal = (magnitude << 13) + select(magnitude >= 0x7c00U, 224U << 23, 112U << 23);
  return float_of(sign | select(magnitude < 0x400U, bits_of(subnormal), normal));
}

}  // namespace nestpipe::storage::detail
