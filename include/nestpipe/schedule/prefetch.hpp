#pragma once
/// @file
/// Read, stage and route run ahead of the step; everything that touches rows keeps the plain order.

#include <nestpipe/schedule/read_ahead.hpp>
#include <nestpipe/schedule/step.hpp>

namespace nestpipe::schedule {

/// Prepares the next batches while the current one trains.
struct prefetch {
  using consistency = exact;

  std::uint64_t ahead = 2;  ///< batches read beyond the one in training, at least 1

  constexpr std::uint32_t windows() const { return 1; }

  template <class Pipeline>
  void run(Pipeline& p) const {
    using exec::stage;
    read_ahead reader{p, ahead, 1};
    std::uint64_t t = p.first_batch();
    exec::event last{};
    reader.up_to(t);
    exec::event routed = p.issue({stage::route, t}, reader.staged(t));
    for (;; ++t) {
      auto const info = p.agreed(t);
      if (info.samples != 0) last = one_window_step(plain_micro_batches{}, p, t, routed, last);
      reader.done(t, last);
      if (info.boundary) break;
      reader.up_to(t + 1);
      routed = p.issue({stage::route, t + 1}, reader.staged(t + 1));
    }
    p.drain();
  }
};

}  // namespace nestpipe::schedule
