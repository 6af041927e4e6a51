#pragma once
/// @file
/// Collects predictions of an evaluation over ranks and sums them up with bits that do not depend on who predicted what.

#include <nestpipe/comm/comm.hpp>
#include <nestpipe/metric/auc.hpp>
#include <nestpipe/metric/calibration.hpp>
#include <nestpipe/metric/log_loss.hpp>
#include <nestpipe/metric/normalized_entropy.hpp>
#include <nestpipe/metric/rmse.hpp>

#include <algorithm>
#include <vector>

namespace nestpipe::metric {

/// What an evaluation tells. NaN (`undefined`): no samples, one class only where two are needed, or a prediction that was NaN.
/// With a label outside [0, 1] (a regression) only calibration and rmse are defined.
struct summary {
  std::uint64_t samples = 0;
  std::uint64_t positives = 0;         ///< labels above one half
  double auc = undefined;
  double log_loss = undefined;
  double normalized_entropy = undefined;
  double calibration = undefined;
  double rmse = undefined;
  double accuracy = undefined;         ///< share of samples on the right side of one half
  double error = undefined;            ///< 1 - accuracy
};

/// 8 bytes a sample. Everything is computed over the samples in their canonical order (score, label), so any split of the same
/// predictions over ranks or batches gives the same bits.
class collector {
 public:
  void clear() { pairs_.clear(); }

  /// @param scores (n) probabilities, or predictions of a regression  @param labels (n)
  void add(std::span<float const> scores, std::span<float const> labels) {
    detail::check_sizes("metric::collector", scores.size(), labels.size(), 0);
    for (std::size_t i = 0; i < scores.size(); ++i) pairs_.push_back(score_label::pack(scores[i], labels[i]));
  }

  std::size_t size() const { return pairs_.size(); }

  /// Afterwards every rank holds the samples of all. Collective over `channel`: ranks times the largest share, 8 bytes each.
  template <comm::channel Channel>
  void gather(Channel& channel, std::size_t ranks, comm::call_site at = {"evaluate", 0}) {
    if (ranks == 1) return;
    std::uint64_t const mine = pairs_.size();
    std::vector<std::uint64_t> counts(ranks);
    channel.all_gather(std::as_bytes(std::span{&mine, 1}), std::as_writable_bytes(std::span{counts}), at);
    std::uint64_t const most = *std::max_element(counts.begin(), counts.end());
    pairs_.resize(most);
    scratch_.resize(ranks * most);
    channel.all_gather(std::as_bytes(std::span<score_label const>{pairs_}), std::as_writable_bytes(std::span{scratch_}), at);
    pairs_.clear();
    for (std::size_t r = 0; r < ranks; ++r) {
      auto const from = scratch_.begin() + static_cast<std::ptrdiff_t>(r * most);
      pairs_.insert(pairs_.end(), from, from + static_cast<std::ptrdiff_t>(counts[r]));
    }
  }

  /// Of the samples this rank holds: call gather before. O(n).
  summary summarize() {
    sort(pairs_, scratch_);
    std::size_t const n = pairs_.size();
    scores_.resize(n);
    labels_.resize(n);
    summary s;
    std::uint64_t right = 0;
    bool classes = true;
    for (std::size_t i = 0; i < n; ++i) {
      scores_[i] = pairs_[i].score();
      labels_[i] = pairs_[i].label();
      classes = classes && labels_[i] >= 0.0f && labels_[i] <= 1.0f;
      s.positives += is_positive(labels_[i]) ? 1 : 0;
      right += is_positive(labels_[i]) == is_positive(scores_[i]) ? 1 : 0;
    }
    s.samples = n;
    if (n == 0) return s;
    s.calibration = metric::calibration(scores_, labels_);
    s.rmse = metric::rmse(scores_, labels_);
    if (!classes) return s;
    s.auc = metric::auc(std::span<score_label const>{pairs_});
    s.log_loss = metric::log_loss(scores_, labels_);
    double const positive = detail::blocked_sum(n, [&](std::size_t i) { return static_cast<double>(labels_[i]); });
    s.normalized_entropy = normalized_entropy_of(s.log_loss, positive / static_cast<double>(n));
    if (std::isnan(scores_.back())) return s;  // NaN sorts last
    s.accuracy = static_cast<double>(right) / static_cast<double>(n);
    s.error = static_cast<double>(n - right) / static_cast<double>(n);
    return s;
  }

 private:
  std::vector<score_label> pairs_;
  std::vector<score_label> scratch_;
  std::vector<float> scores_;
  std::vector<float> labels_;
};

}  // namespace nestpipe::metric
