#pragma once
/// @file
/// Ranks that are not alike: factors on op times, drawn without state.

#include <nestpipe/core/random.hpp>
#include <nestpipe/exec/stage.hpp>

#include <cmath>

namespace nestpipe::sim {

/// Log-normal factors of mean 1: one for each rank, always the same, times one for each op of each rank.
struct skew {
  double per_rank = 0;     ///< standard deviation of the logarithm
  double per_op = 0;
  std::uint64_t seed = 1;  ///< a pure function of (seed, op, rank) is drawn, so runs repeat

  /// O(1).
  double factor(exec::op const& o, std::size_t rank) const {
    double logarithm = 0;
    if (per_rank > 0) logarithm += per_rank * counter_random{seed, 0, 0}.normal(rank) - per_rank * per_rank / 2;
    if (per_op > 0) {
      std::uint64_t const op = static_cast<std::uint64_t>(o.what) | static_cast<std::uint64_t>(o.rows) << 8 | static_cast<std::uint64_t>(o.part) << 16;
      logarithm += per_op * counter_random{seed, 1 + o.batch, op}.normal(rank) - per_op * per_op / 2;
    }
    return logarithm == 0 ? 1.0 : std::exp(logarithm);
  }
};

}  // namespace nestpipe::sim
