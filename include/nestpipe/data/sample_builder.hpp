#pragma once
/// @file
/// Turns samples that arrive row by row into the feature-major block the engine reads.

#include <nestpipe/core/jagged.hpp>

#include <cstdint>
#include <vector>

namespace nestpipe::data {

/// One at a time: begin, then for each row labels, dense values and ids and either commit or abandon, then finish.
/// Keeps its memory. O(rows * features + ids).
class sample_builder {
 public:
  /// @param rows  at most this many will be committed
  void begin(sample_block& out, std::size_t features, std::size_t dense, std::size_t labels, bool weighted, std::size_t rows) {
    out_ = &out;
    out.clear();
    out.dense_width = dense;
    out.label_width = labels;
    out.ids.features = features;
    out.row.resize(rows);
    out.labels.resize(rows * labels);
    out.dense.resize(rows * dense);
    weighted_ = weighted;
    count_ = 0;
    weights_.clear();
    ends_.clear();
  }

  /// Where the dense values of the current row go (dense floats).
  float* dense() { return out_->dense.data() + ends_.size() * out_->dense_width; }
  float* labels() { return out_->labels.data() + ends_.size() * out_->label_width; }
  void id(std::uint32_t feature, key_type key) {
    if (count_ == entries_.size()) entries_.resize(2 * count_ + 1024);
    entries_[count_++] = {key, feature};
  }
  void id(std::uint32_t feature, key_type key, float weight) {
    id(feature, key);
    weights_.push_back(weight);
  }

  void commit(std::uint64_t row) {
    out_->row[ends_.size()] = row;
    ends_.push_back(count_);
  }
  void abandon() {
    count_ = ends_.empty() ? 0 : ends_.back();
    if (weighted_) weights_.resize(count_);
    ++out_->malformed;
  }

  void finish() {
    std::size_t const n = ends_.size();
    out_->samples = n;
    out_->row.resize(n);
    out_->labels.resize(n * out_->label_width);
    out_->dense.resize(n * out_->dense_width);
    jagged& ids = out_->ids;
    ids.samples = n;
    ids.offsets.resize(ids.features * n + 1);
    ids.values.resize(count_);
    ids.weights.resize(weighted_ ? count_ : 0);
    // Counting sort by feature; samples come in order. Where a feature stands after each sample is where its next bag begins:
    // kept for a few samples and then written feature by feature, because the places of one sample in `offsets` are often a power
    // of two apart, and few of those fit in a cache.
    next_.assign(ids.features + 1, 0);
    for (std::size_t e = 0; e < count_; ++e) ++next_[entries_[e].feature + 1];
    for (std::size_t f = 1; f <= ids.features; ++f) next_[f] += next_[f - 1];
    after_.resize(samples_at_once * ids.features);
    std::uint32_t* const offsets = ids.offsets.data();
    offsets[0] = 0;
    std::size_t e = 0;
    for (std::size_t first = 0; first < n; first += samples_at_once) {
      std::size_t const samples = n - first < samples_at_once ? n - first : samples_at_once;
      for (std::size_t s = 0; s < samples; ++s) {
        for (; e < ends_[first + s]; ++e) {
          std::uint32_t const to = next_[entries_[e].feature]++;
          ids.values[to] = entries_[e].key;
          if (weighted_) ids.weights[to] = weights_[e];
        }
        for (std::size_t f = 0; f < ids.features; ++f) after_[s * ids.features + f] = next_[f];
      }
      for (std::size_t f = 0; f < ids.features; ++f) {
        for (std::size_t s = 0; s < samples; ++s) offsets[f * n + first + s + 1] = after_[s * ids.features + f];
      }
    }
  }

 private:
  struct entry {
    key_type key;
    std::uint32_t feature;
  };
  sample_block* out_ = nullptr;
  bool weighted_ = false;
  static constexpr std::size_t samples_at_once = 16;
  std::vector<entry> entries_;  // the first count_ of them
  std::size_t count_ = 0;
  std::vector<float> weights_;
  std::vector<std::size_t> ends_;      // of each committed row in entries_
  std::vector<std::uint32_t> next_;    // (features + 1) place of the next id of each feature
  std::vector<std::uint32_t> after_;   // (samples_at_once, features) next_ after each sample
};

}  // namespace nestpipe::data
