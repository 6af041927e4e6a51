#pragma once
/// @file
/// What every lane did and when, and how long the compute lane stood idle because of what.

#include <nestpipe/core/stage.hpp>

#include <algorithm>
#include <span>
#include <vector>

namespace nestpipe::trace {

/// One op as it ran. Seconds are on the executor's clock (real or virtual), from its start.
struct interval {
  exec::op what;
  exec::event self;
  double begin = 0, end = 0;
  std::array<exec::event, exec::max_dependencies> after{};  ///< what it waited for; the op before it in its lane goes without saying
  std::size_t dependencies = 0;
};

/// Seconds per stage, summed over the ops of one rank.
struct stage_times {
  std::array<double, exec::stage_count> total{};    ///< running
  std::array<double, exec::stage_count> exposed{};  ///< the compute lane idle because of it
  double compute = 0;                               ///< the compute lane busy
  double unattributed = 0;                          ///< idle, but nothing it waited for was running (the issuing thread)
  double idle() const {
    double sum = unattributed;
    for (double const e : exposed) sum += e;
    return sum;
  }
};

/// Keeps the last intervals of each lane, and attributes every gap in the compute lane: backwards from the op that ends it,
/// along what that op waited for last, then what that one waited for, until the gap is used up.
///
/// Not thread-safe: an executor calls it under its own lock.
class recorder {
 public:
  /// @param kept  intervals per lane that remain for pictures (and for attribution, which looks back a few batches)
  explicit recorder(std::size_t kept = 2048) { keep(kept); }

  /// Forgets all, and keeps `kept` intervals per lane from now on.
  void keep(std::size_t kept) {
    for (auto& l : lanes_) {
      l.ring.assign(std::max<std::size_t>(kept, 256), {});
      l.count = 0;
    }
    times_ = {};
    compute_end_ = -1;
  }

  /// Called once per op when it has ended, in lane order. Constant time but for gaps: O(ops in the gap's chain).
  void add(interval const& i) {
    auto& l = lanes_[static_cast<std::size_t>(i.self.where)];
    times_.total[static_cast<std::size_t>(i.what.what)] += i.end - i.begin;
    if (i.self.where == exec::lane::compute) {
      if (compute_end_ >= 0 && i.begin > compute_end_) attribute(i, compute_end_, i.begin);
      times_.compute += i.end - i.begin;
      compute_end_ = i.end;
    }
    l.ring[l.count++ % l.ring.size()] = i;
  }

  /// Tickets start again at 1; sums stay.
  void restart() {
    for (auto& l : lanes_) l.count = 0;
    compute_end_ = -1;
  }

  /// The next gap is not counted: after a boundary, where the compute lane has nothing to do.
  void pause() { compute_end_ = -1; }

  stage_times const& times() const { return times_; }
  /// Starts the sums anew; intervals stay.
  void reset_times() { times_ = {}; }

  /// The kept intervals of all lanes, by begin.
  std::vector<interval> intervals() const {
    std::vector<interval> all;
    for (auto const& l : lanes_) {
      std::size_t const n = std::min(l.count, l.ring.size());
      for (std::size_t k = l.count - n; k < l.count; ++k) all.push_back(l.ring[k % l.ring.size()]);
    }
    std::sort(all.begin(), all.end(), [](interval const& a, interval const& b) { return a.begin < b.begin; });
    return all;
  }

 private:
  struct lane_log {
    std::vector<interval> ring;
    std::size_t count = 0;  // tickets are 1, 2, ...: ticket k is at (k - 1) % size while kept
  };

  interval const* find(exec::event e) const {
    auto const& l = lanes_[static_cast<std::size_t>(e.where)];
    if (e.ticket == 0 || e.ticket > l.count || l.count - e.ticket >= l.ring.size()) return nullptr;
    interval const& i = l.ring[(e.ticket - 1) % l.ring.size()];
    return i.self.ticket == e.ticket ? &i : nullptr;
  }

  void attribute(interval const& last, double from, double to) {
    interval const* at = &last;
    bool with_lane = false;  // the op before `last` in its own lane is what the gap begins with
    while (to > from) {
      interval const* cause = nullptr;
      auto const consider = [&](exec::event e) {
        interval const* const c = find(e);
        if (c != nullptr && c->end > from && (cause == nullptr || c->end > cause->end)) cause = c;
      };
      for (std::size_t k = 0; k < at->dependencies; ++k) consider(at->after[k]);
      if (with_lane && at->self.ticket > 1) consider({at->self.where, at->self.ticket - 1});
      if (cause == nullptr) {
        times_.unattributed += to - from;
        return;
      }
      double const begin = std::max(from, std::min(cause->begin, to));
      times_.exposed[static_cast<std::size_t>(cause->what.what)] += to - begin;
      to = begin;
      at = cause;
      with_lane = true;
    }
  }

  std::array<lane_log, exec::lane_count> lanes_;
  stage_times times_;
  double compute_end_ = -1;
};

}  // namespace nestpipe::trace
