#pragma once
/// @file
/// Which micro-batches one op handles: as many as the rank has threads, so that they are computed at the same time.

#include <cstddef>

namespace nestpipe::engine {

/// The unit of arithmetic stays the micro-batch, so the bits do not depend on how many go together. A schedule counts groups.
/// Every group has two sets of buffers, one for each member, which alternate over groups and batches.
struct micro_groups {
  std::size_t micro_batches = 1;  ///< of one rank
  std::size_t threads = 1;

  std::size_t count() const { return (micro_batches + threads - 1) / threads; }
  /// Members of group g are [first(g), first(g + 1)): equal numbers as far as possible, at most `threads`.
  std::size_t first(std::size_t g) const { return g * micro_batches / count(); }
  std::size_t size(std::size_t g) const { return first(g + 1) - first(g); }
  /// Sets of buffers that are needed.
  std::size_t buffers() const { return 2 * (micro_batches < threads ? micro_batches : threads); }
  /// Which of two sides group g of the batch trained in `step` uses.
  std::size_t side(std::size_t step, std::size_t g) const { return (step * count() + g) % 2; }
  /// Buffer of member k of group g.
  std::size_t buffer(std::size_t step, std::size_t g, std::size_t k) const { return side(step, g) * (buffers() / 2) + k; }
};

}  // namespace nestpipe::engine
