#pragma once
/// @file
/// The limit of everything that touches rows at random places: a bare copy of them, and a bare read-modify-write.

#include "clock.hpp"

#include <nestpipe/core/fixed_size.hpp>
#include <nestpipe/core/huge_memory.hpp>

#include <cstring>
#include <span>

namespace nestpipe::bench {

/// Rows ahead of the one in work that are prefetched.
inline constexpr std::size_t rows_ahead = 16;

/// `floats` floats of row index[i] to out + i * floats. @param stride distance of rows in the table, in floats
inline void gather_rows(float const* table, std::size_t stride, std::size_t floats, std::span<std::uint64_t const> index, float* out) {
  with_fixed_size(floats, [&](auto width) {
    std::size_t const n = index.size();
    for (std::size_t i = 0; i < n; ++i) {
      if (i + rows_ahead < n) {
        char const* const next = reinterpret_cast<char const*>(table + index[i + rows_ahead] * stride);
        for (std::size_t b = 0; b < width * sizeof(float); b += 64) __builtin_prefetch(next + b);
        __builtin_prefetch(next + width * sizeof(float) - 1);
      }
      std::memcpy(out + i * width, table + index[i] * stride, width * sizeof(float));
    }
  });
}

/// The reverse: row index[i] of the table from rows + i * floats.
inline void scatter_rows(float* table, std::size_t stride, std::size_t floats, std::span<std::uint64_t const> index, float const* rows) {
  with_fixed_size(floats, [&](auto width) {
    std::size_t const n = index.size();
    for (std::size_t i = 0; i < n; ++i) {
      if (i + rows_ahead < n) {
        char const* const next = reinterpret_cast<char const*>(table + index[i + rows_ahead] * stride);
        for (std::size_t b = 0; b < width * sizeof(float); b += 64) __builtin_prefetch(next + b, 1);
        __builtin_prefetch(next + width * sizeof(float) - 1, 1);
      }
      std::memcpy(table + index[i] * stride, rows + i * width, width * sizeof(float));
    }
  });
}

/// The same rows: row += a * g, where g is row i of `gradients` (floats apart).
inline void update_rows(float* table, std::size_t stride, std::size_t floats, std::span<std::uint64_t const> index, float const* gradients,
                        float a) {
  with_fixed_size(floats, [&](auto width) {
    std::size_t const n = index.size();
    for (std::size_t i = 0; i < n; ++i) {
      if (i + rows_ahead < n) {
        char const* const next = reinterpret_cast<char const*>(table + index[i + rows_ahead] * stride);
        for (std::size_t b = 0; b < width * sizeof(float); b += 64) __builtin_prefetch(next + b, 1);
        __builtin_prefetch(next + width * sizeof(float) - 1, 1);
      }
      float* const row = table + index[i] * stride;
      float const* const g = gradients + i * width;
      for (std::size_t k = 0; k < width; ++k) row[k] += a * g[k];
    }
  });
}

/// Rows of floats on huge pages, every page touched.
class row_table {
 public:
  row_table(std::uint64_t rows, std::size_t stride_floats)
      : rows_{rows}, stride_{stride_floats}, memory_{rows * stride_floats * sizeof(float), "benchmark"} {
    for (std::size_t b = 0; b < memory_.size(); b += 4096) memory_.data()[b] = std::byte{0};
  }
  std::uint64_t rows() const { return rows_; }
  std::size_t stride() const { return stride_; }
  float* data() const { return reinterpret_cast<float*>(memory_.data()); }

 private:
  std::uint64_t rows_;
  std::size_t stride_;
  huge_memory memory_;
};

/// Rows copied per second: median over the batches of `index`, so that no batch finds its rows in the cache because it just had them.
/// @param floats  floats copied of each row  @param index  places below table.rows(), at least two batches
inline double gather_rate(row_table const& table, std::size_t floats, std::span<std::uint64_t const> index, std::size_t batch = 65536) {
  huge_memory const out{batch * floats * sizeof(float), "benchmark"};
  float* const to = reinterpret_cast<float*>(out.data());
  std::size_t const batches = index.size() / batch;
  double const s = median_seconds(batches - 1, [&](std::size_t r) {
    gather_rows(table.data(), table.stride(), floats, index.subspan((r + 1) % batches * batch, batch), to);
    keep(to);
  });
  return static_cast<double>(batch) / s;
}

/// Rows updated per second (row += a * g, gradients one after the other): as gather_rate.
inline double update_rate(row_table const& table, std::size_t floats, std::span<std::uint64_t const> index, std::size_t batch = 65536) {
  huge_memory const gradients{batch * floats * sizeof(float), "benchmark"};
  float* const from = reinterpret_cast<float*>(gradients.data());
  std::size_t const batches = index.size() / batch;
  double const s = median_seconds(batches - 1, [&](std::size_t r) {
    update_rows(table.data(), table.stride(), floats, index.subspan((r + 1) % batches * batch, batch), from, 0.5f);
    keep(table.data());
  });
  return static_cast<double>(batch) / s;
}

/// The same on a table made for the purpose. @param row_bytes a multiple of 4, also the distance of the rows
inline double gather_rate(std::uint64_t rows, std::size_t row_bytes, std::span<std::uint64_t const> index, std::size_t batch = 65536) {
  return gather_rate(row_table{rows, row_bytes / sizeof(float)}, row_bytes / sizeof(float), index, batch);
}
inline double update_rate(std::uint64_t rows, std::size_t row_bytes, std::span<std::uint64_t const> index, std::size_t batch = 65536) {
  return update_rate(row_table{rows, row_bytes / sizeof(float)}, row_bytes / sizeof(float), index, batch);
}

}  // namespace nestpipe::bench
