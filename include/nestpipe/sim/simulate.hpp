#pragma once
/// @file
/// Runs a schedule, the very object that trains, on virtual lanes.

#include <nestpipe/schedule/schedule.hpp>
#include <nestpipe/sim/virtual_lanes.hpp>

namespace nestpipe::sim {

/// What is simulated.
struct plan {
  std::uint64_t batches = 40;         ///< in all
  std::uint64_t warm_up = 10;         ///< of them, left out of the result
  std::uint32_t micro_batches = 1;    ///< of one rank
  std::uint64_t slots = 6;
  std::uint32_t buckets = 1;
};

struct prediction {
  double step_seconds = 0;            ///< mean over the batches after warm-up
  trace::stage_times per_step;        ///< of rank 0, mean over the same batches
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
        warm_ = lanes_.lane_end(exec::lane::compute);
        lanes_.recorder().reset_times();
      }
      end_ = lanes_.lane_end(exec::lane::compute);
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

  double seconds() const { return end_ - warm_; }

 private:
  Lanes& lanes_;
  plan plan_;
  std::array<exec::event, 64> routed_{};
  double warm_ = 0;
  double end_ = 0;
};

}  // namespace detail

/// @param lanes  fresh virtual lanes with their cost model
/// @return step time and exposed times; O(batches * ops per batch * ranks)
/// @throws config_error if nothing is left after warm-up
template <class Schedule, class Cost>
prediction simulate(Schedule const& schedule, virtual_lanes<Cost>& lanes, plan const& p) {
  require(p.batches > p.warm_up, "a simulation needs batches after its warm-up", {}, "raise batches");
  detail::virtual_pipeline pipeline{lanes, p};
  schedule.run(pipeline);
  auto const counted = static_cast<double>(p.batches - p.warm_up);
  prediction out;
  out.step_seconds = pipeline.seconds() / counted;
  out.per_step = lanes.recorder().times();
  for (double& x : out.per_step.total) x /= counted;
  for (double& x : out.per_step.exposed) x /= counted;
  out.per_step.compute /= counted;
  out.per_step.unattributed /= counted;
  return out;
}

}  // namespace nestpipe::sim
