#pragma once
/// @file
/// Samples that the user already holds.

#include <nestpipe/data/data.hpp>
#include <nestpipe/data/row_stream.hpp>
#include <nestpipe/data/sample_builder.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <utility>

namespace nestpipe::data {

/// Columns of n samples: `ids.samples` is n.
struct sample_columns {
  struct nestpipe::schema schema {};
  jagged ids{};               ///< features of the schema, n samples
  std::vector<float> dense{};   ///< (n, schema.dense) row-major, used as they are
  std::vector<float> labels{};  ///< (n, schema.labels) row-major; empty: all 0
};

/// A dataset over columns in memory. Copies share the columns.
class in_memory {
 public:
  using block = row_block;

  /// @throws data_error when shapes do not fit or a number is not finite.
  explicit in_memory(sample_columns columns, row_options options = {})
      : columns_{std::make_shared<sample_columns const>(checked(std::move(columns)))}, stream_{columns_->ids.samples, options} {}

  struct nestpipe::schema const& schema() const { return columns_->schema; }
  std::size_t frame(block& b, std::size_t rows) { return stream_.frame(b, rows); }
  void rewind(std::uint64_t epoch) { stream_.rewind(epoch); }
  data_position position() const { return stream_.position(); }
  void seek(data_position to) { stream_.seek(to); }
  std::optional<std::uint64_t> size_hint() const { return stream_.size(); }

  void parse(block const& b, std::size_t first, std::size_t last, sample_block& out) const {
    sample_columns const& c = *columns_;
    last = std::min(last, b.size());
    first = std::min(first, last);
    bool const weighted = !c.ids.weights.empty();
    thread_local sample_builder builder;
    builder.begin(out, c.ids.features, c.schema.dense, c.schema.labels, weighted, last - first);
    for (std::size_t i = first; i < last; ++i) {
      std::size_t const row = b.rows[i];
      std::copy_n(c.dense.data() + row * c.schema.dense, c.schema.dense, builder.dense());
      if (c.labels.empty()) {
        std::fill_n(builder.labels(), c.schema.labels, 0.0f);
      } else {
        std::copy_n(c.labels.data() + row * c.schema.labels, c.schema.labels, builder.labels());
      }
      for (std::uint32_t f = 0; f < c.ids.features; ++f) {
        std::size_t const bag = f * c.ids.samples + row;
        for (std::size_t k = c.ids.offsets[bag]; k < c.ids.offsets[bag + 1]; ++k) {
          if (weighted) {
            builder.id(f, c.ids.values[k], c.ids.weights[k]);
          } else {
            builder.id(f, c.ids.values[k]);
          }
        }
      }
      builder.commit(row);
    }
    builder.finish();
  }

 private:
  static sample_columns checked(sample_columns c) {
    std::size_t const n = c.ids.samples;
    if (c.ids.features != c.schema.features.size())
      throw data_error{"in-memory data: " + std::to_string(c.ids.features) + " features, but the schema names " + std::to_string(c.schema.features.size())};
    c.ids.check();
    auto const check = [n](std::vector<float> const& v, std::size_t width, char const* what) {
      if (v.size() != n * width)
        throw data_error{std::string{"in-memory data: "} + what + " hold " + std::to_string(v.size()) + " numbers, expected " + std::to_string(n * width)};
      for (std::size_t i = 0; i < v.size(); ++i) {
        if (!std::isfinite(v[i])) throw data_error{std::string{"in-memory data: "} + what + " hold a number that is not finite", "row " + std::to_string(i / width)};
      }
    };
    check(c.dense, c.schema.dense, "dense columns");
    if (!c.labels.empty()) check(c.labels, c.schema.labels, "labels");
    for (std::size_t p = 0; p < c.ids.weights.size(); ++p) {  // their number is checked with the ids
      if (!std::isfinite(c.ids.weights[p])) throw data_error{"in-memory data: weights hold a number that is not finite", "value " + std::to_string(p)};
    }
    return c;
  }

  std::shared_ptr<sample_columns const> columns_;
  row_stream stream_;
};

}  // namespace nestpipe::data
