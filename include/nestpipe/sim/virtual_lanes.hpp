#pragma once
/// @file
/// Lanes on a virtual clock: an executor that runs nothing and adds up what a cost model says, for one rank or for a whole
/// cluster of ranks that issue the same ops.

#include <nestpipe/exec/executor.hpp>
#include <nestpipe/sim/sim.hpp>
#include <nestpipe/trace/recorder.hpp>

#include <algorithm>
#include <utility>
#include <vector>

namespace nestpipe::sim {

/// Stages in which no rank is done before all have arrived.
constexpr bool is_collective(exec::stage s) {
  return s == exec::stage::route || s == exec::stage::exchange_rows || s == exec::stage::exchange_gradients || s == exec::stage::reduce_dense;
}

constexpr bool only_collectives(exec::lane l) { return l == exec::lane::route || l == exec::lane::exchange || l == exec::lane::reduce; }

/// Meets the executor concept. An op begins when its lane is free, what it waits for has ended, and the host has issued it;
/// it takes `cost(op, rank)` seconds; a collective ends on all ranks when the last one is through. All ranks issue the same ops.
/// Memory: 8 bytes a rank and remembered op of the lanes without collectives, 8 bytes a remembered op of the others.
/// @tparam Cost  a cost model, see sim/sim.hpp
template <cost_model Cost>
class virtual_lanes {
 public:
  virtual_lanes() : virtual_lanes{Cost{}} {}

  /// @param ranks      that differ in cost; 1 when all are alike (then a collective simply takes its cost)
  /// @param hand_over  seconds from an op's end to the start of one on another lane that waits for it
  explicit virtual_lanes(Cost cost, std::size_t ranks = 1, double hand_over = 0)
      : cost_{std::move(cost)}, ranks_{std::max<std::size_t>(ranks, 1)}, hand_over_{hand_over} {
    std::array<std::size_t, exec::lane_count> some;
    some.fill(64);
    remember(some);
  }

  /// How many ops per lane may still be waited for, newest first; of older ones the end of the oldest remembered is taken, which
  /// is never too early. Restarts the clock and the sums.
  void remember(std::array<std::size_t, exec::lane_count> const& ops) {
    for (std::size_t l = 0; l < exec::lane_count; ++l) {
      lanes_[l].remembered = std::max<std::size_t>(ops[l], 2);
      lanes_[l].stride = only_collectives(static_cast<exec::lane>(l)) ? 1 : ranks_;
    }
    recorder_.reset_times();
    start({});
  }

  /// Collectives of all lanes share one link: one at a time, the earliest gap that is long enough to the one issued first.
  /// Otherwise every lane has a network of its own.
  void share_link(bool shared) { one_link_ = shared; }

  /// The clock starts at 0. The handler is not called.
  void start(exec::work) {
    link_.clear();
    host_.assign(ranks_, 0.0);
    begin_.resize(ranks_);
    end_.resize(ranks_);
    for (auto& l : lanes_) {
      l.issued = 0;
      l.free.assign(ranks_, 0.0);
      l.ends.assign(l.remembered * l.stride, 0.0);
    }
    recorder_.restart();
  }

  exec::event issue(exec::op const& o, std::span<exec::event const> after) {
    exec::lane const where = exec::lane_of(o.what);
    lane_state& l = at(where);
    double ready = 0;
    double last = 0;
    double longest = 0;
    for (std::size_t r = 0; r < ranks_; ++r) {
      double begin = std::max(l.free[r], host_[r]);
      for (exec::event const e : after) {
        if (e.ticket != 0 && e.where != where) begin = std::max(begin, end_of(e, r) + hand_over_);
      }
      begin_[r] = begin;
      double const seconds = cost_(o, r);
      end_[r] = begin + seconds;
      last = std::max(last, end_[r]);
      ready = std::max(ready, begin);
      longest = std::max(longest, seconds);
    }
    if (one_link_ && is_collective(o.what)) last = occupy_link(ready, longest);
    std::uint64_t const ticket = ++l.issued;
    for (std::size_t r = 0; r < ranks_; ++r) {
      if (is_collective(o.what)) end_[r] = last;
      l.free[r] = end_[r];
      l.ends[ticket % l.remembered * l.stride + (l.stride == 1 ? 0 : r)] = end_[r];
    }
    trace::interval i{o, {where, ticket}, begin_[0], end_[0], {}, std::min(after.size(), exec::max_dependencies)};
    for (std::size_t k = 0; k < i.dependencies; ++k) i.after[k] = after[k];
    recorder_.add(i);
    return i.self;
  }

  /// The host goes on when the event is complete.
  void wait(exec::event e) {
    if (e.ticket == 0) return;
    for (std::size_t r = 0; r < ranks_; ++r) host_[r] = std::max(host_[r], end_of(e, r) + hand_over_);
  }
  void drain() {
    for (auto const& l : lanes_) {
      for (std::size_t r = 0; r < ranks_; ++r) host_[r] = std::max(host_[r], l.free[r]);
    }
  }
  void stop() noexcept {}

  /// Of rank 0.
  trace::recorder& recorder() { return recorder_; }
  /// When the last op of a lane ends on a rank.
  double lane_end(exec::lane l, std::size_t rank = 0) const { return lanes_[static_cast<std::size_t>(l)].free[rank]; }
  std::size_t ranks() const { return ranks_; }

 private:
  struct lane_state {
    std::uint64_t issued = 0;
    std::size_t remembered = 2;
    std::size_t stride = 1;
    std::vector<double> free;  // (ranks)
    std::vector<double> ends;  // (remembered, ranks or 1), by ticket
  };

  lane_state& at(exec::lane l) { return lanes_[static_cast<std::size_t>(l)]; }

  // Ends of all ranks of a collective that takes `seconds` and is ready at `ready`.
  double occupy_link(double ready, double seconds) {
    // Whatever is issued from now on begins after the host has come to it.
    double const past = *std::min_element(host_.begin(), host_.end());
    std::erase_if(link_, [&](auto const& use) { return use.second <= past; });
    if (seconds <= 0) return ready;
    auto at = link_.begin();
    for (; at != link_.end() && at->first < ready + seconds; ++at) ready = std::max(ready, at->second);
    link_.insert(at, {ready, ready + seconds});
    return ready + seconds;
  }

  double end_of(exec::event e, std::size_t rank) const {
    auto const& l = lanes_[static_cast<std::size_t>(e.where)];
    std::uint64_t const ticket = std::max(e.ticket, l.issued >= l.remembered ? l.issued - l.remembered + 1 : 1);
    return l.ends[ticket % l.remembered * l.stride + (l.stride == 1 ? 0 : rank)];
  }

  Cost cost_;
  std::size_t ranks_;
  double hand_over_;
  bool one_link_ = false;
  std::vector<std::pair<double, double>> link_;  // when it is taken: begin and end, in order, apart
  std::vector<double> host_, begin_, end_;
  std::array<lane_state, exec::lane_count> lanes_;
  trace::recorder recorder_;
};

}  // namespace nestpipe::sim
