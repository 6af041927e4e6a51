#pragma once
/// @file
/// Area under the ROC curve from a stream, in constant memory.

#include <nestpipe/metric/detail/blocked_sum.hpp>

#include <cmath>
#include <vector>

namespace nestpipe::metric {

/// Counts positives and negatives in equal bins of [0, 1] (scores beyond are counted in the outermost bins). Pairs that share a
/// bin count one half, so the exact AUC lies within `error_bound()` of `value()`: half the share of such pairs. Counts are
/// integers: adding them up over ranks, in any order, gives the same bits.
class binned_auc {
 public:
  /// @param bins at least 1; 16 bytes each
  explicit binned_auc(std::size_t bins = 4096) : counts_(2 * bins) {
    require(bins > 0, "binned_auc: at least one bin is needed");
  }

  void add(float score, float label) {
    if (std::isnan(score)) {
      ++not_numbers_;
      return;
    }
    std::size_t const bins = counts_.size() / 2;
    double const scaled = static_cast<double>(score) * static_cast<double>(bins);
    std::size_t bin = 0;
    if (scaled > 0.0) bin = scaled >= static_cast<double>(bins) ? bins - 1 : static_cast<std::size_t>(scaled);
    ++counts_[2 * bin + (is_positive(label) ? 1 : 0)];
  }
  void add(std::span<float const> scores, std::span<float const> labels) {
    detail::check_sizes("binned_auc", scores.size(), labels.size(), 0);
    for (std::size_t i = 0; i < scores.size(); ++i) add(scores[i], labels[i]);
  }

  /// Takes in what another, of as many bins, has counted. @throws config_error
  binned_auc& operator+=(binned_auc const& other) {
    require(counts_.size() == other.counts_.size(), "binned_auc: two counts with different numbers of bins");
    for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
    not_numbers_ += other.not_numbers_;
    return *this;
  }

  void clear() {
    counts_.assign(counts_.size(), 0);
    not_numbers_ = 0;
  }

  /// `undefined` for one class only, no samples, or a score that was NaN. O(bins).
  double value() const { return totals().value(not_numbers_); }
  /// |exact - value()| is at most this. O(bins).
  double error_bound() const { return totals().bound(not_numbers_); }

 private:
  struct sums {
    double positives = 0.0, negatives = 0.0, won = 0.0, tied = 0.0;
    bool defined(std::uint64_t not_numbers) const { return not_numbers == 0 && positives > 0.0 && negatives > 0.0; }
    double value(std::uint64_t not_numbers) const {
      return defined(not_numbers) ? (won + 0.5 * tied) / (positives * negatives) : undefined;
    }
    double bound(std::uint64_t not_numbers) const {
      return defined(not_numbers) ? 0.5 * tied / (positives * negatives) : undefined;
    }
  };
  sums totals() const {
    sums t;
    for (std::size_t b = 0; b < counts_.size(); b += 2) {
      double const negative = static_cast<double>(counts_[b]);
      double const positive = static_cast<double>(counts_[b + 1]);
      t.won += positive * t.negatives;
      t.tied += positive * negative;
      t.negatives += negative;
      t.positives += positive;
    }
    return t;
  }

  std::vector<std::uint64_t> counts_;   ///< (bins, 2): negatives, positives
  std::uint64_t not_numbers_ = 0;
};

}  // namespace nestpipe::metric
