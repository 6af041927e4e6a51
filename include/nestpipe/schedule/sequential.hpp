#pragma once
/// @file
/// The plain loop: nothing overlaps. The truth that every other schedule is tested against.

#include <nestpipe/schedule/step.hpp>

namespace nestpipe::schedule {

/// One stage after the other, one batch after the other.
struct sequential : plain_micro_batches {
  using consistency = exact;
  constexpr std::uint32_t windows() const { return 1; }

  template <class Pipeline>
  void run(Pipeline& p) const {
    one_batch_at_a_time(*this, p);
  }
};

}  // namespace nestpipe::schedule
