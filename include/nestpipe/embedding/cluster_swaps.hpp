#pragma once
/// @file
/// Local improvement of an assignment: two samples of different parts change places as long as that saves anything.

#include <nestpipe/embedding/cluster_incidence.hpp>

namespace nestpipe::embedding {

/// Pairwise exchange after Kernighan and Lin (Bell Syst. Tech. J. 49, 1970), with the gains of Fiduccia and Mattheyses (DAC
/// 1982) kept up to date: what part p saves when a sample leaves it, and what each part pays when it comes. Two samples that
/// both hold a key gain nothing by it, which is corrected when a pair is looked at closely.
class cluster_swaps {
 public:
  /// Larger problems (samples * parts, keys * parts) are left as they are: the gains would not fit in memory worth spending.
  static constexpr std::size_t most_gains = std::size_t{1} << 25;

  /// Samples in turn change places with the best partner of all other parts, until a round finds none. Each exchange lowers
  /// the objective. Stops after 64 rounds, or `most_looks` looked-at partners per sample.
  /// @param part (samples) improved in place
  /// @returns number of exchanges
  std::size_t run(cluster_incidence const& g, std::span<std::uint32_t> part) {
    if (g.parts() < 2 || g.samples() * g.parts() > most_gains || g.keys() * g.parts() > most_gains) return 0;
    g_ = &g;
    part_ = part;
    start();
    std::size_t done = 0;
    std::size_t const limit = most_looks * g.samples();
    for (int round = 0; round < 64; ++round) {
      std::size_t const before = done;
      for (std::uint32_t s = 0; s < g.samples() && looks_ < limit; ++s) {
        std::uint32_t const t = partner(s);
        if (t == s) continue;
        exchange(s, t);
        ++done;
      }
      if (done == before || looks_ >= limit) break;
    }
    return done;
  }

 private:
  static constexpr std::size_t most_looks = 4000;
  static constexpr std::uint32_t nowhere = std::numeric_limits<std::uint32_t>::max();

  std::int32_t value(std::uint32_t s, std::size_t to) const { return leave_[s] - join_[s * parts_ + to]; }
  std::uint32_t& held(std::size_t k, std::size_t p) { return held_[k * parts_ + p]; }

  void start() {
    cluster_incidence const& g = *g_;
    std::size_t const n = g.samples();
    parts_ = g.parts();
    looks_ = 0;
    held_.assign_zero(g.keys() * parts_);
    leave_.resize(n);
    join_.assign_zero(n * parts_);
    member_.resize(n);
    at_.resize(n);
    first_.assign(parts_ + 1, 0);
    for (std::size_t p = 0; p < parts_; ++p) first_[p + 1] = first_[p] + g.part_size[p];
    next_.assign(first_.begin(), first_.end());
    for (std::uint32_t s = 0; s < n; ++s) {
      at_[s] = next_[part_[s]]++;
      member_[at_[s]] = s;
      for (std::uint32_t const k : g.keys_of(s)) ++held(k, part_[s]);
    }
    for (std::uint32_t s = 0; s < n; ++s) {
      std::int32_t* const join = join_.data() + s * parts_;
      leave_[s] = 0;
      for (std::uint32_t const k : g.keys_of(s)) {
        std::int32_t const w = weight(k);
        std::uint32_t const* const h = held_.data() + k * parts_;
        if (h[part_[s]] == 1) leave_[s] += w;
        for (std::size_t q = 0; q < parts_; ++q) join[q] += h[q] == 0 ? w : 0;
      }
    }
    limit_.assign(parts_ * parts_, std::numeric_limits<std::int32_t>::max() / 2);
  }

  // The sample whose exchange with s saves most, or s when none saves anything. limit_[q][p] is never below the value of any
  // sample of q that goes to p, so most parts need no look.
  std::uint32_t partner(std::uint32_t s) {
    std::uint32_t const p = part_[s];
    std::uint32_t with = s;
    std::int32_t best = 0;
    for (std::uint32_t q = 0; q < parts_; ++q) {
      if (q == p || value(s, q) + limit_[q * parts_ + p] <= best) continue;
      std::int32_t const own = value(s, q);
      std::int32_t top = std::numeric_limits<std::int32_t>::min() / 2;
      for (std::size_t i = first_[q]; i < first_[q + 1]; ++i) {
        std::uint32_t const t = member_[i];
        std::int32_t const v = value(t, p);
        top = std::max(top, v);
        if (own + v <= best) continue;
        std::int32_t const gain = own + v - in_common(s, t, p, q);
        if (gain <= best) continue;
        best = gain;
        with = t;
      }
      limit_[q * parts_ + p] = top;
      looks_ += first_[q + 1] - first_[q];
    }
    return with;
  }

  // What both gains count of keys that both samples hold: these stay in both parts.
  std::int32_t in_common(std::uint32_t s, std::uint32_t t, std::uint32_t p, std::uint32_t q) {
    auto const a = g_->keys_of(s), b = g_->keys_of(t);
    std::int32_t sum = 0;
    for (std::size_t i = 0, j = 0; i < a.size() && j < b.size();) {
      if (a[i] != b[j]) {
        ++(a[i] < b[j] ? i : j);
        continue;
      }
      sum += weight(a[i]) * ((held(a[i], p) == 1) + (held(a[i], q) == 1));
      ++i;
      ++j;
    }
    return sum;
  }

  void exchange(std::uint32_t s, std::uint32_t t) {
    std::uint32_t const p = part_[s], q = part_[t];
    part_[s] = part_[t] = nowhere;
    take(s, p);
    take(t, q);
    std::swap(member_[at_[s]], member_[at_[t]]);
    std::swap(at_[s], at_[t]);
    give(s, q);
    give(t, p);
  }

  void take(std::uint32_t s, std::uint32_t from) {
    for (std::uint32_t const k : g_->keys_of(s)) {
      std::uint32_t const left = --held(k, from);
      if (left == 0) {
        for (std::uint32_t const u : g_->samples_of(k)) join_[u * parts_ + from] += weight(k);
      } else if (left == 1) {
        std::uint32_t const u = last_in(k, from);
        leave_[u] += weight(k);
        raise(u);
      }
    }
  }

  void give(std::uint32_t s, std::uint32_t to) {
    leave_[s] = 0;
    for (std::uint32_t const k : g_->keys_of(s)) {
      std::uint32_t const now = ++held(k, to);
      if (now == 1) {
        leave_[s] += weight(k);
        for (std::uint32_t const u : g_->samples_of(k)) {
          join_[u * parts_ + to] -= weight(k);
          if (part_[u] == nowhere) continue;
          std::int32_t& limit = limit_[part_[u] * parts_ + to];
          limit = std::max(limit, value(u, to));
        }
      } else if (now == 2) {
        leave_[last_in(k, to)] -= weight(k);
      }
    }
    part_[s] = to;
    raise(s);
  }

  // The only sample of the part, other than one on its way, that holds the key.
  std::uint32_t last_in(std::uint32_t k, std::uint32_t p) const {
    for (std::uint32_t const u : g_->samples_of(k)) {
      if (part_[u] == p) return u;
    }
    throw error{"clustering lost a sample"};
  }

  void raise(std::uint32_t s) {
    std::int32_t* const limit = limit_.data() + part_[s] * parts_;
    for (std::size_t p = 0; p < parts_; ++p) limit[p] = std::max(limit[p], value(s, p));
  }

  std::int32_t weight(std::uint32_t k) const { return static_cast<std::int32_t>(g_->weight[k]); }

  cluster_incidence const* g_ = nullptr;
  std::span<std::uint32_t> part_;
  std::size_t parts_ = 0;
  std::size_t looks_ = 0;
  exec::buffer<std::uint32_t> held_;       // (keys, parts) samples of the part with that key
  exec::buffer<std::int32_t> leave_;       // (samples) weight of keys that only this sample of its part holds
  exec::buffer<std::int32_t> join_;        // (samples, parts) weight of its keys that the part does not hold
  std::vector<std::int32_t> limit_;        // (parts, parts) at least the value of any sample of the first that goes to the second
  exec::buffer<std::uint32_t> member_;     // samples by part
  exec::buffer<std::uint32_t> at_;         // (samples) place in member_
  std::vector<std::uint32_t> first_, next_;
};

}  // namespace nestpipe::embedding
