#pragma once
/// @file
/// The limit of pooling: rows at known places are added up, and nothing else is done.

#include "random_rows.hpp"

namespace nestpipe::bench {

/// to[b] = sum over k in [start[b], start[b + 1]) of the `floats` floats at rows + place[k]. @param to places in `out`, in floats
inline void sum_rows_at(float const* rows, std::size_t floats, std::span<std::uint32_t const> place, std::span<std::uint32_t const> start,
                        std::span<std::uint32_t const> to, float* out) {
  with_fixed_size(floats, [&](auto width) {
    if constexpr (!std::is_same_v<decltype(width), std::size_t>) {
      std::size_t const n = place.size();
      for (std::size_t b = 0; b + 1 < start.size(); ++b) {
        float sum[width] = {};
        for (std::size_t k = start[b]; k < start[b + 1]; ++k) {
          if (k + rows_ahead < n) {
            float const* const next = rows + place[k + rows_ahead];
            for (std::size_t i = 0; i < width; i += 16) __builtin_prefetch(next + i);
          }
          float const* const row = rows + place[k];
          for (std::size_t i = 0; i < width; ++i) sum[i] += row[i];
        }
        std::memcpy(out + to[b], sum, sizeof sum);
      }
    }
  });
}

}  // namespace nestpipe::bench
