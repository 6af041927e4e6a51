#pragma once
/// @file
/// Read, stage and route run ahead of the step; everything that touches rows keeps the plain order.

#include <nestpipe/schedule/route_ahead.hpp>
#include <nestpipe/schedule/step.hpp>

namespace nestpipe::schedule {

/// Prepares the next batches while the current one trains.
struct prefetch {
  using consistency = exact;

  std::uint64_t ahead = 2;  ///< batches read beyond the one in training, at least 1
  std::uint64_t routes = 1; ///< ... and routed: from 2 on, stores that look ahead can know them. Below batches_in_flight

  constexpr std::uint32_t windows() const { return 1; }

  template <class Pipeline>
  void run(Pipeline& p) const {
    std::uint64_t const deep = routes < p.slots() ? routes : p.slots() - 1;
    read_ahead reader{p, ahead, deep};
    std::uint64_t t = p.first_batch();
    route_ahead router{p, reader, t};
    exec::event last{};
    for (;; ++t) {
      auto const info = p.agreed(t);
      if (info.samples != 0) last = one_window_step(plain_micro_batches{}, p, t, router.routed(t), last);
      reader.done(t, last);
      if (info.boundary) break;
      router.up_to(t + deep);
    }
    p.drain();
  }
};

}  // namespace nestpipe::schedule
