#pragma once
/// @file
/// One host thread and one CUDA stream per lane.

#include <nestpipe/exec/cuda/buffer.cuh>
#include <nestpipe/exec/cuda/stream.cuh>
#include <nestpipe/exec/thread_lanes.hpp>

#include <memory>
#include <vector>

namespace nestpipe::exec {

/// An op is first *issued*: its host part has run on the lane's thread and has queued its device part on the lane's stream; then
/// *complete*, when the stream has come that far. An op starts when what it waits for is issued; its device part waits, on the
/// stream, until that is complete. Host data that a device part writes is therefore read only after wait_for_device().
///
/// The device is the one that is current where start() is called. Recorded intervals are those of the host parts.
class cuda_lanes {
 public:
  /// Engines that are run by these lanes keep windows and micro-batches in device memory.
  using space = cuda;

  cuda_lanes() = default;
  cuda_lanes(cuda_lanes const&) = delete;
  cuda_lanes& operator=(cuda_lanes const&) = delete;
  ~cuda_lanes() { stop(); }

  /// @throws error when there is no device
  void start(work w) {
    stop();
    require_cuda_device();
    device_ = this_device();
    keep_device_memory();
    if (!state_) state_ = std::make_unique<state>();
    for (auto& l : state_->lanes) l.issued = l.executed = 0;
    work_ = w;
    inner_.start(work::of(*this));
  }

  event issue(op const& o, std::span<event const> after) {
    per_lane& l = state_->lanes[static_cast<std::size_t>(lane_of(o.what))];
    dependencies& d = l.waits[++l.issued % ring];  // read by the lane's thread once the op is in its queue
    d.count = 0;
    for (event const e : after) {
      if (e.ticket == 0 || e.where == lane_of(o.what)) continue;
      if (d.count == max_dependencies) throw error{"an op waits for too many events", std::string{name(o.what)}};
      d.on[d.count++] = e;
    }
    return inner_.issue(o, after);
  }

  void wait(event e) {
    inner_.wait(e);
    if (e.ticket != 0) done(e).synchronize();
  }
  void drain() {
    inner_.drain();
    for (auto const& l : state_->lanes) l.stream.synchronize();
  }
  trace::recorder& recorder() { return inner_.recorder(); }
  double now() const { return inner_.now(); }

  void stop() noexcept {
    inner_.stop();
    if (!state_) return;
    for (auto const& l : state_->lanes) (void)cudaStreamSynchronize(l.stream.get());
  }

  // What the inner lanes call, on the lane's thread.

  void execute(op const& o) {
    NESTPIPE_CUDA_TRY(cudaSetDevice(device_));
    per_lane& l = state_->lanes[static_cast<std::size_t>(lane_of(o.what))];
    std::uint64_t const ticket = ++l.executed;
    dependencies const& d = l.waits[ticket % ring];
    for (std::size_t i = 0; i < d.count; ++i) done(d.on[i]).hold(l.stream.get());
    on_stream const here{l.stream.get()};
    work_.execute(o);
    l.done[ticket % ring].record(l.stream.get());
  }
  void failed(std::exception_ptr e) noexcept { work_.failed(std::move(e)); }

 private:
  // More than an inner lane lets wait, so no entry is used again before its op has run. An event that is recorded again while
  // somebody still waits for its old place only makes him wait longer.
  static constexpr std::size_t ring = 512;

  struct dependencies {
    std::array<event, max_dependencies> on{};
    std::size_t count = 0;
  };
  struct per_lane {
    cuda_stream stream;
    std::vector<cuda_event> done;
    std::vector<dependencies> waits = std::vector<dependencies>(ring);
    std::uint64_t issued = 0;    // by the issuing thread
    std::uint64_t executed = 0;  // by the lane's thread
    per_lane() {
      for (std::size_t i = 0; i < ring; ++i) done.emplace_back();
    }
  };
  struct state {
    std::array<per_lane, lane_count> lanes;
  };
  cuda_event const& done(event e) const { return state_->lanes[static_cast<std::size_t>(e.where)].done[e.ticket % ring]; }

  work work_;
  int device_ = 0;
  std::unique_ptr<state> state_;
  thread_lanes inner_;  // last: its threads end before the rest goes
};

}  // namespace nestpipe::exec
