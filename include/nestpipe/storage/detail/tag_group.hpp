#pragma once
/// @file
/// The cache line that says what a block of slots holds: one tag byte per slot, compared all at once.

#include <nestpipe/core/config.hpp>

#include <bit>
#include <cstring>

#if defined(__SSE2__)
#include <emmintrin.h>
#endif

namespace nestpipe::storage::detail {

using tag_type = std::uint8_t;
inline constexpr tag_type tag_empty = 0;

/// Head of a block. All zero: no row.
struct alignas(alignment_bytes) tag_group {
  static constexpr std::size_t most_slots = 54;

  tag_type tags[most_slots];
  std::uint8_t overflow;        ///< rows that this block had no room for; at 255 it no longer counts, but stays
  std::uint8_t hand;            ///< where the search for a row to evict goes on
  std::uint64_t referenced;     ///< rows read since the hand last passed (kept by stores that evict)
};
static_assert(sizeof(tag_group) == alignment_bytes);

/// Portable comparison: bit i of the result is set where byte i is `tag`; bits from most_slots on mean nothing.
inline std::uint64_t match_portable(tag_group const& group, tag_type tag) {
  std::uint64_t mask = 0;
  for (std::size_t i = 0; i < tag_group::most_slots; ++i) mask |= static_cast<std::uint64_t>(group.tags[i] == tag) << i;
  return mask;
}

inline std::uint64_t match(tag_group const& group, tag_type tag) {
#if defined(__SSE2__)
  auto const* const lines = reinterpret_cast<__m128i const*>(&group);
  __m128i const wanted = _mm_set1_epi8(static_cast<char>(tag));
  auto const part = [&](int i) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_load_si128(lines + i), wanted))));
  };
  return part(0) | part(1) << 16 | part(2) << 32 | part(3) << 48;
#else
  return match_portable(group, tag);
#endif
}

/// The tag of a hash: 1 to 255, from its low bits (its high bits choose the block).
inline tag_type tag_of(std::uint64_t hash) { return static_cast<tag_type>(1 + (((hash & 0xffff) * 255) >> 16)); }

}  // namespace nestpipe::storage::detail
