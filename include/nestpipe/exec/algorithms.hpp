#pragma once
/// @file
/// Host primitives: sort, unique, runs, scan, gather, segmented sum. Each gives the same bits wherever it runs; none allocates
/// once its scratch has grown. The tag names the space, so that device versions are overloads of the same names.

#include <nestpipe/core/config.hpp>
#include <nestpipe/exec/buffer.hpp>

#include <array>
#include <cstring>
#include <span>

namespace nestpipe::exec {

/// Scratch of the sorts; grows with the longest input.
struct sort_space {
  buffer<key_type> keys;
  buffer<std::uint32_t> values;
};

namespace detail {

/// Least significant digit first, a byte a pass; passes in which all keys agree are left out.
template <bool WithValues>
void radix_sort(std::span<key_type> keys, std::uint32_t* values, sort_space& space) {
  constexpr std::size_t digits = sizeof(key_type);
  std::size_t const n = keys.size();
  if (n < 2) return;
  std::array<std::array<std::size_t, 256>, digits> counts{};
  for (key_type const key : keys) {
    for (std::size_t d = 0; d < digits; ++d) ++counts[d][(key >> (8 * d)) & 255];
  }
  space.keys.resize(n);
  if (WithValues) space.values.resize(n);
  key_type* from = keys.data();
  key_type* to = space.keys.data();
  std::uint32_t* from_values = values;
  std::uint32_t* to_values = space.values.data();
  for (std::size_t d = 0; d < digits; ++d) {
    auto& count = counts[d];
    if (count[(from[0] >> (8 * d)) & 255] == n) continue;
    std::size_t at = 0;
    for (std::size_t& c : count) {
      std::size_t const here = c;
      c = at;
      at += here;
    }
    for (std::size_t i = 0; i < n; ++i) {
      std::size_t const place = count[(from[i] >> (8 * d)) & 255]++;
      to[place] = from[i];
      if constexpr (WithValues) to_values[place] = from_values[i];
    }
    std::swap(from, to);
    std::swap(from_values, to_values);
  }
  if (from == keys.data()) return;
  std::memcpy(keys.data(), from, n * sizeof(key_type));
  if (WithValues) std::memcpy(values, from_values, n * sizeof(std::uint32_t));
}

}  // namespace detail

/// Ascending order. O(n) per byte in which keys differ.
inline void sort(host, std::span<key_type> keys, sort_space& space) { detail::radix_sort<false>(keys, nullptr, space); }

/// As sort; `values` (as many as keys) move along, those of equal keys in their old order.
inline void sort_by_key(host, std::span<key_type> keys, std::span<std::uint32_t> values, sort_space& space) {
  detail::radix_sort<true>(keys, values.data(), space);
}

/// Of each run of equal elements the first, moved to the front. @return how many. O(n).
template <class T>
std::size_t unique(host, std::span<T> sorted) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (i == 0 || !(sorted[i] == sorted[n - 1])) sorted[n++] = sorted[i];
  }
  return n;
}

/// Runs of equal elements as segments: offsets[r] is where run r starts, offsets[runs] is sorted.size().
/// @param offsets  at least sorted.size() + 1 elements  @return the number of runs. O(n).
template <class T>
std::size_t runs(host, std::span<T const> sorted, std::span<std::uint32_t> offsets) {
  std::size_t n = 0;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (i == 0 || !(sorted[i] == sorted[i - 1])) offsets[n++] = static_cast<std::uint32_t>(i);
  }
  offsets[n] = static_cast<std::uint32_t>(sorted.size());
  return n;
}

/// out[i] is the sum of in[0 .. i-1]; `out` may be `in`. @return the sum of all. O(n).
template <class T>
T exclusive_scan(host, std::span<T const> in, std::span<T> out) {
  T sum{};
  for (std::size_t i = 0; i < in.size(); ++i) {
    T const value = in[i];
    out[i] = sum;
    sum = static_cast<T>(sum + value);
  }
  return sum;
}

/// Row i of `out` is row indices[i] of `rows`. @param rows (any, width)  @param out (indices, width), not overlapping. O(indices * width).
inline void gather(host, float const* rows, std::size_t width, std::span<std::uint32_t const> indices, float* out) {
  for (std::uint32_t const i : indices) {
    std::memcpy(out, rows + std::size_t{i} * width, width * sizeof(float));
    out += width;
  }
}

/// Row s of `out` is the sum of rows offsets[s] .. offsets[s+1]-1: in blocks of sum_block rows from the segment's start, then
/// over the blocks in order, as everywhere in the library. An empty segment gives zeros.
/// @param rows (offsets.back(), width)  @param offsets (segments + 1), ascending  @param out (segments, width), overwritten
/// @complexity O(rows * width)
inline void segmented_sum(host, float const* rows, std::size_t width, std::span<std::uint32_t const> offsets, float* out) {
  constexpr std::size_t strip = 16;
  for (std::size_t s = 0; s + 1 < offsets.size(); ++s, out += width) {
    for (std::size_t c = 0; c < width; c += strip) {
      std::size_t const columns = width - c < strip ? width - c : strip;
      float total[strip] = {};
      for (std::size_t from = offsets[s]; from < offsets[s + 1]; from += sum_block) {
        std::size_t const to = offsets[s + 1] - from < sum_block ? offsets[s + 1] : from + sum_block;
        float block[strip] = {};
        for (std::size_t r = from; r < to; ++r) {
          for (std::size_t k = 0; k < columns; ++k) block[k] += rows[r * width + c + k];
        }
        if (from == offsets[s]) {
          for (std::size_t k = 0; k < columns; ++k) total[k] = block[k];
        } else {
          for (std::size_t k = 0; k < columns; ++k) total[k] += block[k];
        }
      }
      for (std::size_t k = 0; k < columns; ++k) out[c + k] = total[k];
    }
  }
}

}  // namespace nestpipe::exec
