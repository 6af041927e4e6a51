#pragma once
/// @file
/// Sixteen one-byte tags compared at once.

#include <nestpipe/core/config.hpp>

#include <bit>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace nestpipe::storage::detail {

using tag_type = std::uint8_t;
inline constexpr tag_type tag_empty = 0;     ///< never held a row since the last rebuild: a search ends here
inline constexpr tag_type tag_erased = 1;    ///< free, but a search goes on
inline constexpr std::size_t group_tags = 16;

/// Portable comparison: bit i of the result is set where tags[i] == tag.
inline std::uint32_t match_portable(tag_type const* tags, tag_type tag) {
  std::uint32_t mask = 0;
  for (std::uint32_t i = 0; i < group_tags; ++i) mask |= static_cast<std::uint32_t>(tags[i] == tag) << i;
  return mask;
}

inline std::uint32_t match(tag_type const* tags, tag_type tag) {
#if defined(__SSE2__)
  __m128i const group = _mm_loadu_si128(reinterpret_cast<__m128i const*>(tags));
  return static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(group, _mm_set1_epi8(static_cast<char>(tag)))));
#else
  return match_portable(tags, tag);
#endif
}

/// The tag of a hash: 2 to 255, from its low bits (its high bits choose the place).
inline tag_type tag_of(std::uint64_t hash) { return static_cast<tag_type>(2 + (((hash & 0xffff) * 254) >> 16)); }

}  // namespace nestpipe::storage::detail
