#pragma once
/// @file
/// What a model is made of, as run-time values: tables, features, pooling.

#include <nestpipe/core/config.hpp>
#include <nestpipe/core/error.hpp>
#include <nestpipe/core/random.hpp>

#include <cmath>
#include <span>
#include <string>
#include <unordered_map>
#include <vector>

namespace nestpipe {

/// How the rows of one bag become model input.
/// - sum, mean: one vector of `dim`. A mean divides by the number of ids in the bag (weights scale the terms, not the count).
/// - none: every row of the bag, in order (jagged).
/// - sum_and_squares: two vectors of `dim`: sum of w v, and sum of w^2 v^2 (element-wise); for factorisation machines.
enum class pooling : std::uint8_t { sum, mean, none, sum_and_squares };

/// First value of a row, a pure function of (seed, table, key, element).
struct row_init {
  enum class kind : std::uint8_t { zeros, uniform, normal };
  kind distribution = kind::uniform;
  float scale = 0.01f;          ///< half width of the uniform, or standard deviation of the normal
  std::uint32_t zero_prefix = 0;  ///< the first elements start at zero (linear weights beside factors)

  /// Writes the initial embedding of `key` to `row` (dim floats). O(dim).
  NESTPIPE_HOST_DEVICE void operator()(std::uint64_t seed, std::uint32_t table, key_type key, float* row,
                                       std::size_t dim) const {
    counter_random const random{seed, table, key};
    for (std::size_t i = 0; i < dim; ++i) {
      if (distribution == kind::zeros || i < zero_prefix) {
        row[i] = 0.0f;
      } else if (distribution == kind::uniform) {
        row[i] = (2.0f * random.uniform(i) - 1.0f) * scale;
      } else {
        row[i] = random.normal(i) * scale;
      }
    }
  }
};

/// One embedding table.
struct table {
  std::string name;
  std::size_t dim = 16;               ///< floats per embedding (state not counted), at least 1
  row_init init{};
  float missing = 0.0f;               ///< every element of the row that evaluation reads for a key without a row
  std::uint64_t cardinality = 0;      ///< keys are below this; 0: unknown (storage::dense needs it)
};

/// One categorical feature; several features may share a table.
struct feature {
  std::string name;
  std::string table;
  enum pooling pooling = pooling::sum;
};

/// Names of the columns that data readers deliver and models consume.
struct schema {
  std::vector<std::string> features;  ///< categorical features, in the order of the jagged batch
  std::size_t dense = 0;              ///< number of dense columns
  std::size_t labels = 1;             ///< number of labels per sample
  std::vector<std::string> dense_names{};   ///< empty, or one name a dense column
};

/// Tables and features, checked and with names resolved to indices.
class embedding_layout {
 public:
  embedding_layout() = default;

  /// @throws config_error on dim 0, doubled names, or a feature whose table does not exist.
  embedding_layout(std::vector<table> tables, std::vector<feature> features)
      : tables_{std::move(tables)}, features_{std::move(features)} {
    std::unordered_map<std::string, std::uint32_t> index;
    for (std::uint32_t t = 0; t < tables_.size(); ++t) {
      require(tables_[t].dim > 0, "embedding dim must be at least 1", "table " + tables_[t].name, "set dim");
      require(index.emplace(tables_[t].name, t).second, "two tables have one name", "table " + tables_[t].name,
              "rename one");
      features_of_.emplace_back();
    }
    std::unordered_map<std::string, std::uint32_t> seen;
    for (std::uint32_t f = 0; f < features_.size(); ++f) {
      auto const found = index.find(features_[f].table);
      require(found != index.end(), "feature names a table that does not exist",
              "feature " + features_[f].name + ", table " + features_[f].table, "add the table or correct the name");
      require(seen.emplace(features_[f].name, f).second, "two features have one name", "feature " + features_[f].name,
              "rename one");
      table_of_.push_back(found->second);
      features_of_[found->second].push_back(f);
      bool const doubled = features_[f].pooling == pooling::sum_and_squares;
      std::size_t const width =
          features_[f].pooling == pooling::none ? 0 : tables_[found->second].dim * (doubled ? 2 : 1);
      column_.push_back(pooled_width_);
      width_.push_back(width);
      pooled_width_ += width;
    }
  }

  std::span<table const> tables() const { return tables_; }
  std::span<feature const> features() const { return features_; }
  std::uint32_t table_of(std::size_t f) const { return table_of_[f]; }
  /// Features that read table `t`, ascending.
  std::span<std::uint32_t const> features_of(std::size_t t) const { return features_of_[t]; }
  std::size_t dim_of_feature(std::size_t f) const { return tables_[table_of_[f]].dim; }
  /// Columns of feature f in the pooled matrix: [column, column + width). sum_and_squares: the sums, then the squares.
  std::size_t column(std::size_t f) const { return column_[f]; }
  std::size_t width(std::size_t f) const { return width_[f]; }
  /// Width of the pooled matrix: all pooled features side by side in feature order.
  std::size_t pooled_width() const { return pooled_width_; }

 private:
  std::vector<table> tables_;
  std::vector<feature> features_;
  std::vector<std::uint32_t> table_of_;
  std::vector<std::vector<std::uint32_t>> features_of_;
  std::vector<std::size_t> column_;
  std::vector<std::size_t> width_;
  std::size_t pooled_width_ = 0;
};

}  // namespace nestpipe
