#pragma once
/// @file
/// Simulated runs of a machine.

#include "machine.hpp"

#include <nestpipe/sim/simulate.hpp>

namespace simulate_cluster {

struct result {
  std::size_t workers = 0;
  std::string schedule;
  std::uint32_t micro_batches = 1;
  nestpipe::sim::prediction predicted;
  double busiest_lane = 0;  ///< seconds a step: no order of the stages is faster
  double efficiency = 0;    ///< step at the smallest size over step here: each worker keeps its batch
  bool extrapolated = false;
  std::vector<nestpipe::trace::interval> intervals;  ///< of rank 0, where asked for
};

/// @throws nestpipe::config_error if ranks differ and there are too many to simulate each
result run(machine const& m, std::size_t workers, std::uint32_t micro_batches, std::string const& schedule, bool intervals = false);

/// First batch of the steady state in `intervals`.
std::uint64_t steady_batch();

}  // namespace simulate_cluster
