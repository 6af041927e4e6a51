#pragma once
/// @file
/// Compiler and platform facts. The only macros a user meets are NESTPIPE_HOST_DEVICE and NESTPIPE_WITH_*.

#if defined(__CUDACC__)
#define NESTPIPE_HOST_DEVICE __host__ __device__
#else
#define NESTPIPE_HOST_DEVICE
#endif

// Stands before a loop over the elements of a row. Where their number is known, g++ 12 would write the loop out before it looks for
// vectors, and then shuffle single elements into them (3 to 5 times slower).
#if defined(__GNUC__) && !defined(__clang__) && !defined(__CUDACC__)
#define NESTPIPE_ELEMENT_LOOP _Pragma("GCC unroll 1")
#else
#define NESTPIPE_ELEMENT_LOOP
#endif

#if defined(__FAST_MATH__)
#error "nestpipe: compile without -ffast-math (and -Ofast): results must not depend on how the compiler reorders sums"
#endif

#include <cstddef>
#include <cstdint>

namespace nestpipe {

/// Every 64-bit value is a legal key; none is reserved.
using key_type = std::uint64_t;

/// Buffers are aligned to one cache line, which is also one AVX-512 register.
inline constexpr std::size_t alignment_bytes = 64;

/// Longest run of terms added up in one go; longer sums go in blocks of this length, then over the blocks in order
/// (host and device alike), so that a sum has the same bits wherever it is computed.
inline constexpr std::size_t sum_block = 64;

}  // namespace nestpipe
