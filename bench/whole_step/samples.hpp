#pragma once
/// @file
/// The samples that both sides of the comparison train on: made here, kept in a file that any program can read.

#include <nestpipe/core/error.hpp>
#include <nestpipe/data/in_memory.hpp>
#include <nestpipe/data/zipf.hpp>

#include <array>
#include <cmath>
#include <fstream>

namespace bench {

namespace np = nestpipe;

/// Half of the tables are large, half are small, alternating: 1,000,000 and 100 rows.
struct sample_shape {
  std::size_t rows = 262'144;
  std::size_t features = 26;
  std::size_t dense = 13;
  double exponent = 1.05;
  std::uint64_t large = 1'000'000, small = 100;
  std::uint64_t seed = 1;

  std::uint64_t table_rows(std::size_t f) const { return f % 2 == 0 ? large : small; }
};

/// One key a feature and sample, zipf-distributed, ranks scattered over the table; dense values and labels by the same counters.
inline np::data::sample_columns make_samples(sample_shape const& s) {
  np::data::sample_columns c;
  for (std::size_t f = 0; f < s.features; ++f) c.schema.features.push_back("cat_" + std::to_string(f));
  c.schema.dense = s.dense;
  c.ids.features = s.features;
  c.ids.samples = s.rows;
  c.ids.offsets.resize(s.features * s.rows + 1);
  c.ids.values.resize(s.features * s.rows);
  for (std::size_t f = 0; f < s.features; ++f) {
    std::uint64_t const n = s.table_rows(f);
    np::data::zipf const draw{n, s.exponent};
    for (std::size_t i = 0; i < s.rows; ++i) {
      std::uint64_t const rank = draw(np::counter_random{s.seed, static_cast<std::uint32_t>(f), i}, 0);
      c.ids.values[f * s.rows + i] = (rank * 7919 + n / 2) % n;  // the commonest keys are not neighbours; 7919 is prime to every n here
      c.ids.offsets[f * s.rows + i + 1] = static_cast<std::uint32_t>(f * s.rows + i + 1);
    }
  }
  c.dense.resize(s.rows * s.dense);
  c.labels.resize(s.rows);
  for (std::size_t i = 0; i < s.rows; ++i) {
    np::counter_random const random{s.seed, 0xffffU, i};
    float sum = -1.0f;
    for (std::size_t j = 0; j < s.dense; ++j) {
      float const u = random.uniform(j);
      c.dense[i * s.dense + j] = 3.0f * u * u;
      sum += (j % 2 == 0 ? 0.3f : -0.3f) * c.dense[i * s.dense + j];
    }
    sum += c.ids.values[i] % 2 == 0 ? 0.7f : -0.7f;
    c.labels[i] = random.uniform(s.dense) < 1.0f / (1.0f + std::exp(-sum)) ? 1.0f : 0.0f;
  }
  return c;
}

/// Little-endian: rows, features, dense columns (uint64 each); keys (features, rows) int64; dense (rows, dense) and labels (rows) float32.
inline void write_samples(std::string const& path, np::data::sample_columns const& c) {
  std::ofstream out{path, std::ios::binary};
  auto const put = [&](auto const* values, std::size_t n) { out.write(reinterpret_cast<char const*>(values), static_cast<std::streamsize>(n * sizeof *values)); };
  std::array<std::uint64_t, 3> const head{c.ids.samples, c.ids.features, c.schema.dense};
  put(head.data(), head.size());
  put(c.ids.values.data(), c.ids.values.size());
  put(c.dense.data(), c.dense.size());
  put(c.labels.data(), c.labels.size());
  if (!out) throw np::data_error{"cannot write the samples", path, "give a path in a folder with room"};
}

}  // namespace bench
