#pragma once
/// @file
/// Runs a schedule, the very object that trains, on virtual lanes.

#include <nestpipe/schedule/schedule.hpp>
#include <nestpipe/sim/virtual_lanes.hpp>

namespace nestpipe::sim {

/// What is simulated.
struct plan {
  std::uint64_t batches = 40;         ///< in all; the last, which nothing follows, is not counted
  std::uint64_t warm_up = 10;         ///< of them, not counted either
  std::uint32_t micro_batches = 1;    ///< of one rank
  std::uint64_t slots = 6;
  std::uint32_t buckets = 1;
};

struct prediction {
  double step_seconds = 0;            ///< mean over the batches counted, from update to update of rank 0
  trace::stage_times per_step;        ///< of rank 0, mean over the same batches; compute and idle times add up to step_seconds
};

namespace detail {

/// The pipeline that a schedule sees: endless batches with samples, until the planned number.
template <class Lanes>
class virtual_pipeline {
 public:
  struct info {
    std::uint64_t samples = 1;
    bool boundary = false;
  };

  virtual_pipeline(Lanes& lanes, plan const& p) : lanes_{lanes}, plan_{p} {}

  template <class... Events>
  exec::event issue(exec::op const& o, Events... after) {
    std::array<exec::event, sizeof...(after) + 1> const list{after..., exec::event{}};
    exec::event const e = lanes_.issue(o, std::span{list}.first(sizeof...(after)));
    if (o.what == exec::stage::route) routed_[o.batch % routed_.size()] = e;
    if (o.what == exec::stage::update_dense) {
      if (o.batch + 1 == plan_.warm_up) {
        begin_ = lanes_.lane_end(exec::lane::compute);
        lanes_.recorder().reset_times();
      }
      if (o.batch + 2 == plan_.batches) {
        end_ = lanes_.lane_end(exec::lane::compute);
        times_ = lanes_.recorder().times();
      }
    }
    return e;
  }
  info agreed(std::uint64_t batch) {
    lanes_.wait(routed_[batch % routed_.size()]);
    return {1, batch + 1 >= plan_.batches};
  }
  std::uint64_t first_batch() const { return 0; }
  std::uint32_t micro_batches() const { return plan_.micro_batches; }
  std::uint64_t slots() const { return plan_.slots; }
  std::uint32_t buckets() const { return plan_.buckets; }
  void drain() { lanes_.drain(); }

  double seconds() const { return end_ - begin_; }
  trace::stage_times const& times() const { return times_; }

 private:
  Lanes& lanes_;
  plan plan_;
  std::array<exec::event, 64> routed_{};
  double begin_ = 0;
  double end_ = 0;
  trace::stage_times times_;
};

}  // namespace detail

/// @param lanes  virtual lanes with their cost model; started anew, and left with rank 0's intervals in their recorder
/// @return step time and exposed times; O(batches * ops per batch * ranks)
/// @throws config_error if nothing is left to count
template <class Schedule, class Cost>
prediction simulate(Schedule const& schedule, virtual_lanes<Cost>& lanes, plan const& p) {
  require(p.warm_up > 0 && p.batches > p.warm_up + 1, "a simulation counts the batches between its warm-up and its last one", {}, "raise batches, and let warm_up be at least 1");
  require(p.micro_batches > 0 && p.slots >= 4 && p.buckets > 0, "a simulation needs at least one micro-batch, 4 slots and one bucket");
  // A batch's data live in a slot, so nothing is waited for once all slots have been used again.
  std::size_t const held = p.slots + 2;
  std::size_t const n = p.micro_batches;
  lanes.remember({held, held, held, 2 * held, (2 * n + 1) * held, (2 * n + 4) * held, p.buckets * held});
  detail::virtual_pipeline pipeline{lanes, p};
  schedule.run(pipeline);
  auto const counted = static_cast<double>(p.batches - p.warm_up - 1);
  prediction out;
  out.step_seconds = pipeline.seconds() / counted;
  out.per_step = pipeline.times();
  for (double& x : out.per_step.total) x /= counted;
  for (double& x : out.per_step.exposed) x /= counted;
  out.per_step.compute /= counted;
  out.per_step.unattributed /= counted;
  return out;
}

}  // namespace nestpipe::sim
