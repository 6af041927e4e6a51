#pragma once
/// @file
/// Samples that the user already holds.

#include <nestpipe/data/data.hpp>
#include <nestpipe/data/row_stream.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

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
    std::size_t const n = last - first;
    std::span<std::uint64_t const> const rows = std::span{b.rows}.subspan(first, n);
    bool neighbours = true;  // then every feature's ids are too
    for (std::size_t i = 1; i < n; ++i) neighbours = neighbours && rows[i] == rows[i - 1] + 1;

    out.clear();
    out.samples = n;
    out.dense_width = c.schema.dense;
    out.label_width = c.schema.labels;
    out.row.assign(rows.begin(), rows.end());
    copy_rows(c.dense, c.schema.dense, rows, neighbours, out.dense);
    if (c.labels.empty()) {
      out.labels.assign(n * c.schema.labels, 0.0f);
    } else {
      copy_rows(c.labels, c.schema.labels, rows, neighbours, out.labels);
    }
    jagged& ids = out.ids;
    ids.features = c.ids.features;
    ids.samples = n;
    ids.offsets.resize(ids.features * n + 1);
    std::uint32_t at = 0;
    for (std::size_t f = 0; f < ids.features; ++f) {
      std::uint32_t const* const bags = c.ids.offsets.data() + f * c.ids.samples;
      std::uint32_t* const ends = ids.offsets.data() + f * n + 1;
      if (neighbours && n != 0) {
        std::uint32_t const shift = at - bags[rows[0]];  // wraps, and back
        for (std::size_t i = 0; i < n; ++i) ends[i] = bags[rows[0] + i + 1] + shift;
        at = ends[n - 1];
      } else {
        for (std::size_t i = 0; i < n; ++i) ends[i] = at += bags[rows[i] + 1] - bags[rows[i]];
      }
    }
    ids.values.resize(at);
    copy_bags(c.ids, c.ids.values, rows, neighbours, ids.values);
    ids.weights.resize(c.ids.weights.empty() ? 0 : at);
    if (!c.ids.weights.empty()) copy_bags(c.ids, c.ids.weights, rows, neighbours, ids.weights);
  }

 private:
  static void copy_rows(std::vector<float> const& from, std::size_t width, std::span<std::uint64_t const> rows, bool neighbours, std::vector<float>& to) {
    to.resize(rows.size() * width);
    if (neighbours && !rows.empty()) {
      std::copy_n(from.data() + rows[0] * width, rows.size() * width, to.data());
      return;
    }
    for (std::size_t i = 0; i < rows.size(); ++i) std::copy_n(from.data() + rows[i] * width, width, to.data() + i * width);
  }

  /// Values of the bags of `rows`, feature by feature.
  template <class T>
  static void copy_bags(jagged const& ids, std::vector<T> const& from, std::span<std::uint64_t const> rows, bool neighbours, std::vector<T>& to) {
    T* at = to.data();
    for (std::size_t f = 0; f < ids.features && !rows.empty(); ++f) {
      std::uint32_t const* const bags = ids.offsets.data() + f * ids.samples;
      if (neighbours) {
        at = std::copy(from.data() + bags[rows[0]], from.data() + bags[rows.back() + 1], at);
        continue;
      }
      for (std::uint64_t const row : rows) at = std::copy(from.data() + bags[row], from.data() + bags[row + 1], at);
    }
  }

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
