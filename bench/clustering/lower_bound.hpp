#pragma once
// How good can any assignment of samples to micro-batches be? A bound that is proved, not guessed.

#include <nestpipe/embedding/cluster_incidence.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <unordered_map>
#include <vector>

namespace bench {

namespace np = nestpipe;

/// The objective charges a key once to each part that holds it; spread evenly over its samples there, a sample s pays
///   f(c) = sum over its keys k of w_k / c_k,   c_k = samples of its part that hold k = 1 + number of companions that do.
/// A sample has at most b - 1 companions (b: the largest part). So the objective is at least the sum over s of the minimum of f
/// over all choices of b - 1 companions, each sample choosing for itself alone. f is convex in c, so that minimum is at least
/// the value of any tangent plane of f, minimised over companions, which is a sort. The point of the tangent is improved by
/// Frank and Wolfe's method (Nav. Res. Logist. Q. 3, 1956); every iterate gives a valid bound and the best one counts.
/// This sees what sum of ceil(samples of key / b) does not: that companions who share one key need not share another.
class lower_bound {
 public:
  double operator()(np::embedding::cluster_incidence const& g) {
    std::size_t const b = *std::max_element(g.part_size.begin(), g.part_size.end());
    double sum = static_cast<double>(g.fixed);
    mask_.assign(g.samples(), 0);
    for (std::size_t s = 0; s < g.samples(); ++s) sum += sample(g, s, b);
    return std::max(sum * (1 - 1e-9), static_cast<double>(g.bound));
  }

 private:
  struct pattern {
    std::uint64_t keys = 0;  // which of the sample's keys these companions hold
    std::size_t companions = 0;
    double score = 0;
  };

  double sample(np::embedding::cluster_incidence const& g, std::size_t s, std::size_t b) {
    auto const keys = g.keys_of(s);
    std::size_t const n = std::min<std::size_t>(keys.size(), 64);
    double rest = 0;  // keys beyond 64: bounded each for itself
    for (std::size_t i = n; i < keys.size(); ++i) rest += g.weight[keys[i]] / static_cast<double>(std::min(g.samples_of(keys[i]).size(), b));
    if (n == 0 || b < 2) {
      for (std::size_t i = 0; i < n; ++i) rest += g.weight[keys[i]];
      return rest;
    }
    find_patterns(g, s, n);
    std::vector<double> c(n), reach(n);
    for (std::size_t i = 0; i < n; ++i) c[i] = static_cast<double>(std::min(g.samples_of(keys[i]).size(), b));
    double best = 0;
    for (int round = 0; round < 40; ++round) {
      double plane = 0;
      for (std::size_t i = 0; i < n; ++i) plane += 2 * g.weight[keys[i]] / c[i] - g.weight[keys[i]] / (c[i] * c[i]);
      for (auto& p : patterns_) {
        p.score = 0;
        for (std::uint64_t m = p.keys; m != 0; m &= m - 1) {
          auto const i = static_cast<std::size_t>(std::countr_zero(m));
          p.score += g.weight[keys[i]] / (c[i] * c[i]);
        }
      }
      std::sort(patterns_.begin(), patterns_.end(), [](pattern const& x, pattern const& y) { return x.score > y.score; });
      std::fill(reach.begin(), reach.end(), 1.0);
      std::size_t free = b - 1;
      for (auto const& p : patterns_) {
        std::size_t const take = std::min(free, p.companions);
        if (take == 0) break;
        free -= take;
        plane -= p.score * static_cast<double>(take);
        for (std::uint64_t m = p.keys; m != 0; m &= m - 1) reach[static_cast<std::size_t>(std::countr_zero(m))] += static_cast<double>(take);
      }
      best = std::max(best, plane);
      double const step = 2.0 / (round + 2);
      double value = 0;
      for (std::size_t i = 0; i < n; ++i) {
        c[i] += step * (reach[i] - c[i]);
        value += g.weight[keys[i]] / c[i];
      }
      if (value - best < 1e-4 * value) break;
    }
    return best + rest;
  }

  void find_patterns(np::embedding::cluster_incidence const& g, std::size_t s, std::size_t n) {
    auto const keys = g.keys_of(s);
    met_.clear();
    for (std::size_t i = 0; i < n; ++i) {
      for (std::uint32_t const u : g.samples_of(keys[i])) {
        if (u == s) continue;
        if (mask_[u] == 0) met_.push_back(u);
        mask_[u] |= std::uint64_t{1} << i;
      }
    }
    number_.clear();
    patterns_.clear();
    for (std::uint32_t const u : met_) {
      auto const [at, fresh] = number_.try_emplace(mask_[u], patterns_.size());
      if (fresh) patterns_.push_back({mask_[u], 0, 0});
      ++patterns_[at->second].companions;
      mask_[u] = 0;
    }
  }

  std::vector<std::uint64_t> mask_;
  std::vector<std::uint32_t> met_;
  std::vector<pattern> patterns_;
  std::unordered_map<std::uint64_t, std::size_t> number_;
};

}  // namespace bench
