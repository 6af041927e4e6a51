#pragma once
/// @file
/// Parts filled one after another, each time with the sample that shares most with what the part already holds.

#include <nestpipe/embedding/cluster_incidence.hpp>

namespace nestpipe::embedding {

/// Every sample has a score: the weight of its keys that the part being filled already holds. Scores only grow while a part is
/// filled, so blocks of scores keep their maximum and the best sample is found in two short scans instead of a queue.
class cluster_greedy {
 public:
  /// Heaviest sample that scores have room for.
  static constexpr std::int32_t most_weight = 1 << 28;

  /// Ties go to the sample that comes first; a part starts with the sample of most shared weight.
  /// O(samples * (samples / 64 + parts + 64) + sum over parts and their keys of the samples with that key), in practice about a
  /// microsecond a sample for 32 parts of 128 samples with 14 features.
  /// @param part (samples) receives the part of each
  /// @returns false, and nothing is assigned, when one sample weighs more than `most_weight`
  bool run(cluster_incidence const& g, std::span<std::uint32_t> part) {
    std::size_t const n = g.samples();
    std::size_t const blocks = (n + width - 1) / width;
    total_.resize(n);
    for (std::size_t s = 0; s < n; ++s) {
      std::uint64_t sum = 0;
      for (std::uint32_t const k : g.keys_of(s)) sum += g.weight[k];
      if (sum > most_weight) return false;
      total_[s] = static_cast<std::int32_t>(sum);
    }
    score_.resize(blocks * width);
    best_.resize(blocks);
    held_by_.assign_zero(g.keys());
    for (std::size_t s = 0; s < blocks * width; ++s) score_[s] = s < n ? 0 : gone;
    for (std::uint32_t p = 0; p < g.parts(); ++p) {
      for (std::size_t s = 0; s < n; ++s) score_[s] = score_[s] >= 0 ? 0 : gone;
      for (std::size_t b = 0; b < blocks; ++b) refresh(b);
      for (std::uint32_t i = 0; i < g.part_size[p]; ++i) {
        std::size_t const s = i == 0 ? heaviest(n) : best(blocks);
        part[s] = p;
        score_[s] = gone;
        refresh(s / width);
        hold(g, s, p);
      }
    }
    return true;
  }

 private:
  static constexpr std::size_t width = 64;
  static constexpr std::int32_t gone = -(1 << 30);  // stays below zero whatever is added

  std::size_t heaviest(std::size_t n) const {
    std::size_t s = 0;
    std::int32_t most = -1;
    for (std::size_t x = 0; x < n; ++x) {
      if (score_[x] < 0 || total_[x] <= most) continue;
      most = total_[x];
      s = x;
    }
    return s;
  }

  std::size_t best(std::size_t blocks) const {
    std::size_t b = 0;
    for (std::size_t x = 1; x < blocks; ++x) {
      if (best_[x] > best_[b]) b = x;
    }
    std::size_t s = b * width;
    while (score_[s] != best_[b]) ++s;
    return s;
  }

  void hold(cluster_incidence const& g, std::size_t s, std::uint32_t p) {
    for (std::uint32_t const k : g.keys_of(s)) {
      if (held_by_[k] == p + 1) continue;
      held_by_[k] = p + 1;
      std::int32_t const w = static_cast<std::int32_t>(g.weight[k]);
      for (std::uint32_t const u : g.samples_of(k)) {
        score_[u] += w;
        best_[u / width] = std::max(best_[u / width], score_[u]);
      }
    }
  }

  void refresh(std::size_t b) {
    std::int32_t most = score_[b * width];
    for (std::size_t s = b * width + 1; s < (b + 1) * width; ++s) most = std::max(most, score_[s]);
    best_[b] = most;
  }

  exec::buffer<std::int32_t> score_;     // (samples, rounded up) below zero: assigned
  exec::buffer<std::int32_t> best_;      // (blocks of scores) the largest of each
  exec::buffer<std::int32_t> total_;     // (samples) weight of all shared keys
  exec::buffer<std::uint32_t> held_by_;  // (keys) last part that holds it, + 1
};

}  // namespace nestpipe::embedding
