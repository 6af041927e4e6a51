#pragma once
/// @file
/// Lanes on a virtual clock: an executor that runs nothing and adds up what a cost model says, for one rank or for a whole
/// cluster of ranks that issue the same ops.

#include <nestpipe/exec/executor.hpp>
#include <nestpipe/trace/recorder.hpp>

#include <algorithm>
#include <limits>
#include <vector>

namespace nestpipe::sim {

/// Stages in which no rank is done before all have arrived.
constexpr bool is_collective(exec::stage s) {
  return s == exec::stage::route || s == exec::stage::exchange_rows || s == exec::stage::exchange_gradients || s == exec::stage::reduce_dense;
}

/// Meets the executor concept. An op begins when its lane is free, what it waits for has ended, and the host has issued it;
/// it takes `cost(op, rank)` seconds; a collective ends on all ranks when the last one is through.
/// @tparam Cost  callable `double(exec::op const&, std::size_t rank)`: seconds, not negative; pure
template <class Cost>
class virtual_lanes {
 public:
  virtual_lanes() : virtual_lanes{Cost{}} {}

  /// @param ranks    that differ in cost; 1 when all are alike (then a collective simply takes its cost)
  /// @param history  ops per lane that may still be waited for: a few batches
  explicit virtual_lanes(Cost cost, std::size_t ranks = 1, std::size_t history = 512)
      : cost_{std::move(cost)}, ranks_{std::max<std::size_t>(ranks, 1)}, history_{history} {
    start({});
  }

  /// The clock starts at 0. The handler is not called.
  void start(exec::work) {
    host_.assign(ranks_, 0.0);
    begin_.resize(ranks_);
    end_.resize(ranks_);
    for (auto& l : lanes_) {
      l.issued = 0;
      l.free.assign(ranks_, 0.0);
      l.ends.assign(history_ * ranks_, 0.0);
    }
    recorder_.restart();
  }

  exec::event issue(exec::op const& o, std::span<exec::event const> after) {
    exec::lane const where = exec::lane_of(o.what);
    lane_state& l = at(where);
    double last = 0;
    for (std::size_t r = 0; r < ranks_; ++r) {
      double begin = std::max(l.free[r], host_[r]);
      for (exec::event const e : after) begin = std::max(begin, end_of(e, r));
      begin_[r] = begin;
      end_[r] = begin + cost_(o, r);
      last = std::max(last, end_[r]);
    }
    std::uint64_t const ticket = ++l.issued;
    for (std::size_t r = 0; r < ranks_; ++r) {
      if (is_collective(o.what)) end_[r] = last;
      l.free[r] = end_[r];
      l.ends[(ticket % history_) * ranks_ + r] = end_[r];
    }
    trace::interval i{o, {where, ticket}, begin_[0], end_[0], {}, std::min(after.size(), exec::max_dependencies)};
    std::copy_n(after.begin(), i.dependencies, i.after.begin());
    recorder_.add(i);
    return i.self;
  }

  /// The host goes on when the event is complete.
  void wait(exec::event e) {
    for (std::size_t r = 0; r < ranks_; ++r) host_[r] = std::max(host_[r], end_of(e, r));
  }
  void drain() {
    for (auto const& l : lanes_) {
      for (std::size_t r = 0; r < ranks_; ++r) host_[r] = std::max(host_[r], l.free[r]);
    }
  }
  void stop() noexcept {}

  /// Of rank 0.
  trace::recorder& recorder() { return recorder_; }
  /// When the last op of a lane ends, on the latest rank.
  double lane_end(exec::lane l) const {
    auto const& free = lanes_[static_cast<std::size_t>(l)].free;
    return *std::max_element(free.begin(), free.end());
  }

 private:
  struct lane_state {
    std::uint64_t issued = 0;
    std::vector<double> free;  // (ranks)
    std::vector<double> ends;  // (history, ranks), by ticket
  };

  lane_state& at(exec::lane l) { return lanes_[static_cast<std::size_t>(l)]; }

  double end_of(exec::event e, std::size_t rank) const {
    auto const& l = lanes_[static_cast<std::size_t>(e.where)];
    if (e.ticket == 0 || l.issued - e.ticket >= history_) return 0;  // long past: the lane itself is later
    return l.ends[(e.ticket % history_) * ranks_ + rank];
  }

  Cost cost_;
  std::size_t ranks_;
  std::size_t history_;
  std::vector<double> host_, begin_, end_;
  std::array<lane_state, exec::lane_count> lanes_;
  trace::recorder recorder_;
};

}  // namespace nestpipe::sim
