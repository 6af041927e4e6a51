#pragma once
/// @file
/// Statistics of dense columns, fitted on train and shared with valid and test: standardising and buckets.

#include <nestpipe/data/csv_columns.hpp>
#include <nestpipe/data/data.hpp>
#include <nestpipe/data/passes.hpp>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <vector>

namespace nestpipe::data {

/// One dense column cut into quantile buckets, as a categorical feature `<column>_bucket` beside the others.
struct bucket_request {
  std::string column;
  std::size_t buckets = 10;
  bool keep_dense = true;  ///< the column stays a dense input too
};

/// Fitted numbers, plain values: keep them beside a saved model.
struct column_statistics {
  struct column {
    std::string name;
    double mean = 0;                ///< of the transformed values that are present
    double deviation = 1;           ///< standard deviation; 1 for a constant column
    std::size_t buckets = 0;        ///< asked for; 0: none
    std::vector<float> boundaries{};  ///< ascending: bucket b holds boundaries[b-1] <= x < boundaries[b]
    bool keep = true;
    bool operator==(column const&) const = default;
  };
  bool standardize = false;
  std::vector<column> columns{};  ///< all dense columns, in order
  bool operator==(column_statistics const&) const = default;

  /// One pass over `train`. Quantiles are exact up to about a million present values, then of an evenly spaced part.
  /// @throws data_error when a column does not exist or holds no value; config_error for fewer than 2 buckets.
  template <class D>
  static column_statistics fit(D train, bool standardize, std::vector<bucket_request> const& requests = {}) {
    if constexpr (requires { train.keep_missing(true); }) train.keep_missing(true);
    std::vector<std::string> names = train.schema().dense_names;
    names.resize(train.schema().dense);
    column_statistics fitted{.standardize = standardize};
    for (std::string const& name : names) fitted.columns.push_back({.name = name});
    for (bucket_request const& r : requests) {
      require(r.buckets >= 2 && r.buckets <= 1'000'000, "a column is cut into 2 to 1000000 buckets", "column " + r.column);
      column& c = fitted.columns[find_column(names, r.column, "dense columns")];
      require(c.buckets == 0, "a column is cut into buckets twice", "column " + r.column, "ask for it once");
      c.buckets = r.buckets;
      c.keep = r.keep_dense;
      if (c.name.empty()) c.name = r.column;
    }
    std::vector<gathered> seen(names.size());
    for_each_block(std::move(train), "standardising or cutting into buckets", [&](sample_block const& s) {
      for (std::size_t i = 0; i < s.samples; ++i) {
        for (std::size_t j = 0; j < seen.size(); ++j) seen[j].add(s.dense[i * s.dense_width + j], fitted.columns[j].buckets > 0);
      }
    });
    for (std::size_t j = 0; j < seen.size(); ++j) seen[j].finish(fitted.columns[j]);
    return fitted;
  }

  /// Bucket of a value, 0 .. buckets-1; a missing one has the bucket number `buckets`.
  static key_type bucket_of(column const& c, float x) {
    if (std::isnan(x)) return c.buckets;
    return static_cast<key_type>(std::upper_bound(c.boundaries.begin(), c.boundaries.end(), x) - c.boundaries.begin());
  }

 private:
  struct gathered {
    static constexpr std::size_t most = std::size_t{1} << 20;
    double count = 0;
    double mean = 0;
    double squares = 0;  // of distances from the mean (Welford, Technometrics 4(3), 1962)
    std::vector<float> values;
    std::uint64_t stride = 1;
    std::uint64_t number = 0;

    void add(float x, bool keep) {
      if (std::isnan(x)) return;
      count += 1;
      double const d = static_cast<double>(x) - mean;
      mean += d / count;
      squares += d * (static_cast<double>(x) - mean);
      if (!keep || number++ % stride != 0) return;
      values.push_back(x);
      if (values.size() == most) {
        for (std::size_t i = 0; i < most / 2; ++i) values[i] = values[2 * i];
        values.resize(most / 2);
        stride *= 2;
      }
    }
    void finish(column& c) {
      if (count == 0) return;  // nothing present: mean 0, deviation 1, one bucket
      c.mean = mean;
      double const deviation = std::sqrt(squares / count);
      c.deviation = deviation > 0 ? deviation : 1;
      if (c.buckets == 0) return;
      std::sort(values.begin(), values.end());
      for (std::size_t b = 1; b < c.buckets; ++b) {
        float const edge = values[b * values.size() / c.buckets];
        if (edge > values.front() && (c.boundaries.empty() || edge > c.boundaries.back())) c.boundaries.push_back(edge);
      }
    }
  };
};

/// A dataset whose dense columns are standardised and cut into buckets by fitted statistics.
/// Missing values become 0 after standardising (the mean), and have a bucket of their own.
template <class D>
class with_statistics {
 public:
  using block = typename D::block;

  /// @throws config_error when the statistics are of other columns.
  with_statistics(D inner, column_statistics statistics)
      : inner_{std::move(inner)}, statistics_{std::make_shared<column_statistics const>(std::move(statistics))}, schema_{inner_.schema()} {
    if constexpr (requires(D& d) { d.keep_missing(true); }) inner_.keep_missing(true);
    require(statistics_->columns.size() == schema_.dense, "the statistics are of another number of dense columns",
            std::to_string(statistics_->columns.size()) + " instead of " + std::to_string(schema_.dense), "fit them on data of the same schema");
    schema_.dense = 0;
    schema_.dense_names.clear();
    for (auto const& c : statistics_->columns) {
      if (c.keep) {
        ++schema_.dense;
        schema_.dense_names.push_back(c.name);
      }
      if (c.buckets > 0) schema_.features.push_back(c.name + "_bucket");
    }
  }

  struct nestpipe::schema const& schema() const { return schema_; }
  std::size_t frame(block& b, std::size_t rows) { return inner_.frame(b, rows); }
  void rewind(std::uint64_t epoch) { inner_.rewind(epoch); }
  data_position position() const { return inner_.position(); }
  void seek(data_position to) { inner_.seek(to); }
  std::optional<std::uint64_t> size_hint() const { return inner_.size_hint(); }
  bool single_pass() const {
    if constexpr (requires { inner_.single_pass(); }) return inner_.single_pass();
    return false;
  }
  std::vector<std::string> complaints() const {
    if constexpr (requires { inner_.complaints(); }) return inner_.complaints();
    return {};
  }

  void parse(block const& b, std::size_t first, std::size_t last, sample_block& out) const {
    inner_.parse(b, first, last, out);
    std::size_t const n = out.samples;
    std::size_t const width = out.dense_width;
    bool const weighted = !out.ids.weights.empty();
    for (std::size_t j = 0; j < width; ++j) {
      auto const& c = statistics_->columns[j];
      if (c.buckets == 0) continue;
      ++out.ids.features;
      for (std::size_t i = 0; i < n; ++i) {
        out.ids.values.push_back(column_statistics::bucket_of(c, out.dense[i * width + j]));
        out.ids.offsets.push_back(static_cast<std::uint32_t>(out.ids.values.size()));
      }
      if (weighted) out.ids.weights.resize(out.ids.values.size(), 1.0f);
    }
    std::size_t to = 0;
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t j = 0; j < width; ++j) {
        auto const& c = statistics_->columns[j];
        if (!c.keep) continue;
        float const x = out.dense[i * width + j];
        double const standard = (static_cast<double>(x) - c.mean) / c.deviation;
        out.dense[to++] = std::isnan(x) ? 0.0f : statistics_->standardize ? static_cast<float>(standard) : x;
      }
    }
    out.dense_width = schema_.dense;
    out.dense.resize(n * out.dense_width);
  }

 private:
  D inner_;
  std::shared_ptr<column_statistics const> statistics_;
  struct nestpipe::schema schema_;
};

}  // namespace nestpipe::data
