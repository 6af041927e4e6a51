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
    entries_.clear();
    weights_.clear();
    ends_.clear();
  }

  /// Where the dense values of the current row go (dense floats).
  float* dense() { return out_->dense.data() + ends_.size() * out_->dense_width; }
  float* labels() { return out_->labels.data() + ends_.size() * out_->label_width; }
  void id(std::uint32_t feature, key_type key) { entries_.push_back({key, feature}); }
  void id(std::uint32_t feature, key_type key, float weight) {
    entries_.push_back({key, feature});
    weights_.push_back(weight);
  }

  void commit(std::uint64_t row) {
    out_->row[ends_.size()] = row;
    ends_.push_back(entries_.size());
  }
  void abandon() {
    std::size_t const end = ends_.empty() ? 0 : ends_.back();
    entries_.resize(end);
    if (weighted_) weights_.resize(end);
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
    // Counting sort by (feature, sample). Counts sit two places up, so that one pass of sums makes them bag starts one
    // place up, and filling the bags moves each start to the bag's end, which is the offset that belongs there.
    ids.offsets.assign(ids.features * n + 2, 0);
    ids.values.resize(entries_.size());
    ids.weights.resize(weighted_ ? entries_.size() : 0);
    std::uint32_t* const offsets = ids.offsets.data();
    std::size_t e = 0;
    for (std::size_t i = 0; i < n; ++i) {
      for (; e < ends_[i]; ++e) ++offsets[entries_[e].feature * n + i + 2];
    }
    for (std::size_t b = 2; b < ids.offsets.size(); ++b) offsets[b] += offsets[b - 1];
    e = 0;
    for (std::size_t i = 0; i < n; ++i) {
      for (; e < ends_[i]; ++e) {
        std::uint32_t const to = offsets[entries_[e].feature * n + i + 1]++;
        ids.values[to] = entries_[e].key;
        if (weighted_) ids.weights[to] = weights_[e];
      }
    }
    ids.offsets.pop_back();
  }

 private:
  struct entry {
    key_type key;
    std::uint32_t feature;
  };
  sample_block* out_ = nullptr;
  bool weighted_ = false;
  std::vector<entry> entries_;
  std::vector<float> weights_;
  std::vector<std::size_t> ends_;  // of each committed row in entries_
};

}  // namespace nestpipe::data
