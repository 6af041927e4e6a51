#pragma once
/// @file
/// What a schedule sees of an engine: ops go to the executor's lanes.

#include <nestpipe/exec/executor.hpp>
#include <nestpipe/schedule/schedule.hpp>

namespace nestpipe::engine {

template <class Engine, class Executor>
class pipeline {
 public:
  /// @param batches_read  batches below this number were read and staged before the last boundary; advanced by run
  pipeline(Engine& engine, Executor& executor, std::uint64_t& batches_read)
      : engine_{engine}, executor_{executor}, batches_read_{batches_read}, already_read_{batches_read} {}

  template <class... Events>
  exec::event issue(exec::op const& o, Events... after) {
    static_assert(sizeof...(after) <= exec::max_dependencies);
    if (o.what == exec::stage::read || o.what == exec::stage::stage) {
      if (o.batch < already_read_) return {};
      if (o.batch >= batches_read_) batches_read_ = o.batch + 1;
    }
    std::array<exec::event, sizeof...(after) + 1> const list{after..., exec::event{}};
    exec::event const e = executor_.issue(o, std::span{list}.first(sizeof...(after)));
    if (o.what == exec::stage::route) routed_[o.batch % routed_.size()] = e;
    return e;
  }

  auto agreed(std::uint64_t batch) {
    executor_.wait(routed_[batch % routed_.size()]);
    return engine_.info(batch);
  }

  std::uint64_t first_batch() const { return engine_.next_batch(); }
  std::uint32_t micro_batches() const { return static_cast<std::uint32_t>(engine_.groups().count()); }  // several may be one to the schedule
  std::uint64_t slots() const { return engine_.config().slots; }
  std::uint32_t buckets() const { return static_cast<std::uint32_t>(engine_.buckets().size()); }
  void drain() { executor_.drain(); }

 private:
  Engine& engine_;
  Executor& executor_;
  std::uint64_t& batches_read_;
  std::uint64_t already_read_;
  std::array<exec::event, 64> routed_{};
};

}  // namespace nestpipe::engine
