#pragma once
/// @file
/// What a cost model is. With one, the schedules that train run on a virtual clock (sim/virtual_lanes.hpp, sim/simulate.hpp).
///
/// | requirement on a cost model C (copyable value) | meaning |
/// |---|---|
/// | `cost(op, rank)` | -> double: seconds that this op keeps its lane busy on this rank; not negative, finite, the same whenever it is asked |
///
/// | model | where its numbers come from |
/// |---|---|
/// | `sim::step_parts` | the seconds of lookup, exchange and compute in one plain step |
/// | `sim::parametric` | links (latency and bandwidth, inside and between nodes), rates of stores and processors, sizes |
/// | `sim::profile` | stage seconds of `sequential` runs on a real machine |
/// | `sim::industrial::at` | published figures of one 1,536-worker system |

#include <nestpipe/exec/stage.hpp>

#include <concepts>
#include <cstddef>

namespace nestpipe::sim {

template <class C>
concept cost_model = std::copy_constructible<C> && requires(C const& c, exec::op const& o, std::size_t rank) {
  { c(o, rank) } -> std::convertible_to<double>;
};

/// Stages done once per micro-batch; the others are done once per batch.
constexpr bool per_micro_batch(exec::stage s) {
  return s == exec::stage::exchange_rows || s == exec::stage::forward_backward || s == exec::stage::weight_gradients || s == exec::stage::exchange_gradients;
}

/// Share of an exchange or an update that one portion of its rows makes up. @param early  share of the early portion
constexpr double portion_share(exec::portion p, double early) {
  return p == exec::portion::all ? 1.0 : p == exec::portion::early ? early : 1.0 - early;
}

}  // namespace nestpipe::sim
