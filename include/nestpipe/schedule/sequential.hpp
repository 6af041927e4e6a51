#pragma once
/// @file
/// The plain loop: nothing overlaps. The truth that every other schedule is tested against.

#include <nestpipe/schedule/schedule.hpp>

namespace nestpipe::schedule {

/// One stage after the other, one batch after the other.
struct sequential {
  using consistency = exact;

  constexpr std::uint32_t windows() const { return 1; }

  template <class Pipeline>
  void run(Pipeline& p) const {
    using exec::stage;
    exec::event e{};
    for (std::uint64_t t = p.first_batch();; ++t) {
      e = p.issue({stage::read, t}, e);
      e = p.issue({stage::stage, t}, e);
      e = p.issue({stage::route, t}, e);
      auto const info = p.agreed(t);
      if (info.samples != 0) e = train(p, t, e);
      if (info.boundary) break;
    }
    p.drain();
  }

  /// The middle of a step, from retrieve to write_back, in order, behind `after`. Returns the last event.
  template <class Pipeline, class... Events>
  static exec::event train(Pipeline& p, std::uint64_t t, Events... after) {
    using exec::stage;
    exec::event e = p.issue({stage::retrieve, t}, after...);
    for (std::uint32_t m = 0; m < p.micro_batches(); ++m) {
      e = p.issue({stage::exchange_rows, t, m}, e);
      e = p.issue({stage::forward_backward, t, m}, e);
      e = p.issue({stage::weight_gradients, t, m}, e);
      e = p.issue({stage::exchange_gradients, t, m}, e);
    }
    for (std::uint32_t b = 0; b < p.buckets(); ++b) e = p.issue({stage::reduce_dense, t, b}, e);
    e = p.issue({stage::update_rows, t}, e);
    e = p.issue({stage::update_dense, t}, e);
    return p.issue({stage::write_back, t}, e);
  }
};

}  // namespace nestpipe::schedule
