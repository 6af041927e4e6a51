#pragma once
/// @file
/// Batched copies of rows at scattered addresses, with prefetch and compile-time widths.

#include <nestpipe/core/fixed_size.hpp>
#include <nestpipe/storage/storage.hpp>

#include <cstring>

namespace nestpipe::storage::detail {

/// Rows ahead of the copy for which prefetches are issued; 8 to 32 measured alike on rows far larger than the caches.
inline constexpr std::size_t prefetch_distance = 16;

template <bool Write>
inline void prefetch_bytes(std::byte const* p, std::size_t bytes) {
  // Into the second cache: it takes more misses at once than the first.
  for (std::size_t b = 0; b < bytes; b += alignment_bytes) __builtin_prefetch(p + b, Write ? 1 : 0, 2);
  __builtin_prefetch(p + (bytes - 1), Write ? 1 : 0, 2);  // a row seldom starts on a cache line
}

/// rows[i] = row at address_of(handles[i]); `no_row` leaves the target as it is. O(n * width).
template <class AddressOf>
void gather_rows(std::span<row_handle const> handles, float* rows, std::size_t row_floats, AddressOf address_of) {
  with_fixed_size(row_floats, [&](auto width) {
    std::size_t const n = handles.size();
    std::size_t const w = width;
    for (std::size_t i = 0; i < n; ++i) {
      if (i + prefetch_distance < n && handles[i + prefetch_distance] != no_row)
        prefetch_bytes<false>(address_of(handles[i + prefetch_distance]), w * sizeof(float));
      if (handles[i] != no_row) std::memcpy(rows + i * w, address_of(handles[i]), w * sizeof(float));
    }
  });
}

/// The reverse; `no_row` is left out.
template <class AddressOf>
void scatter_rows(std::span<row_handle const> handles, float const* rows, std::size_t row_floats, AddressOf address_of) {
  with_fixed_size(row_floats, [&](auto width) {
    std::size_t const n = handles.size();
    std::size_t const w = width;
    for (std::size_t i = 0; i < n; ++i) {
      if (i + prefetch_distance < n && handles[i + prefetch_distance] != no_row)
        prefetch_bytes<true>(address_of(handles[i + prefetch_distance]), w * sizeof(float));
      if (handles[i] != no_row) std::memcpy(address_of(handles[i]), rows + i * w, w * sizeof(float));
    }
  });
}

}  // namespace nestpipe::storage::detail
