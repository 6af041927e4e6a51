#pragma once
/// @file
/// Read, stage and route run ahead of the step; everything that touches rows keeps the plain order.

#include <nestpipe/schedule/sequential.hpp>

#include <array>

namespace nestpipe::schedule {

/// Prepares the next batches while the current one trains.
struct prefetch {
  using consistency = exact;

  std::uint64_t ahead = 2;  ///< batches read beyond the one in training, at least 1

  constexpr std::uint32_t windows() const { return 1; }

  template <class Pipeline>
  void run(Pipeline& p) const {
    using exec::stage;
    std::uint64_t const first = p.first_batch();
    std::uint64_t const wanted = ahead > 0 ? ahead : 1;
    std::uint64_t const depth = wanted < p.slots() ? wanted : p.slots() - 1;
    std::uint64_t next_read = first;
    exec::event last{};                        // of the batch in training
    std::array<exec::event, 64> done{};        // last event of each recent batch, by slot
    std::array<exec::event, 64> staged{};
    exec::event routed{};

    auto const read_up_to = [&](std::uint64_t t) {
      for (; next_read <= t; ++next_read) {
        exec::event const free = next_read >= first + p.slots() ? done[(next_read - p.slots()) % done.size()] : exec::event{};
        exec::event const e = p.issue({stage::read, next_read}, free);
        staged[next_read % staged.size()] = p.issue({stage::stage, next_read}, e);
      }
    };

    read_up_to(first);
    routed = p.issue({stage::route, first}, staged[first % staged.size()]);
    for (std::uint64_t t = first;; ++t) {
      auto const info = p.agreed(t);
      if (info.samples != 0) last = sequential::train(p, t, routed, last);
      done[t % done.size()] = last;
      if (info.boundary) break;
      read_up_to(t + depth);
      routed = p.issue({stage::route, t + 1}, staged[(t + 1) % staged.size()]);
    }
    p.drain();
  }
};

}  // namespace nestpipe::schedule
