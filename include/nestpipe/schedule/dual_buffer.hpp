#pragma once
/// @file
/// Overlap across batches with two windows per owner and nothing stale. Source: NestPipe (arXiv 2604.06956), dual-buffer
/// pipelining; early rows and the split update go beyond it.

#include <nestpipe/schedule/frozen_window.hpp>
#include <nestpipe/schedule/route_ahead.hpp>
#include <nestpipe/schedule/sequential.hpp>

namespace nestpipe::schedule {

/// While batch t trains in one window, t + 1 is routed and retrieved into the other, and t - 1 returns to storage. What keeps
/// it exact, each a dependency below:
/// - refresh(t+1) copies the rows that t has just updated, state included, before any of them is sent for t + 1;
/// - retrieve(t+1) is done before refresh(t+1) writes;
/// - retrieve(t+1) starts only when write_back(t-1) is done: a row in t - 1 and t + 1 but not in t is read as t - 1 left it;
/// - write_back(t) follows refresh(t+1), so a window is refilled only when nothing reads it any more.
/// A batch without samples in between is skipped; the one after it is retrieved when the last has been written back.
/// @tparam Inner  order inside a batch: sequential or frozen_window
template <class Inner = sequential>
struct dual_buffer {
  using consistency = exact;

  Inner inner{};
  std::uint64_t ahead = 3;   ///< batches read beyond the one being routed, at least 1
  std::uint64_t routes = 1;  ///< batches routed beyond the one retrieved, at least 1: what stores that look ahead can know. Within batches_in_flight - 3
  bool early = true;         ///< rows of the next batch that this one does not touch are exchanged before this one's update
  bool shared_first = true;  ///< rows that the next batch shares are updated first, the others while those travel

  constexpr std::uint32_t windows() const { return 2; }
  constexpr bool early_rows() const { return early; }

  /// Every combination of what can be switched on and off.
  std::vector<dual_buffer> variants() const {
    std::vector<dual_buffer> list;
    for (bool const sends_early : {true, false}) {
      for (bool const shared : {true, false}) {
        for (auto const& inside : schedule::variants(inner)) {
          dual_buffer v = *this;
          v.inner = inside;
          v.early = sends_early;
          v.shared_first = shared;
          list.push_back(v);
        }
      }
    }
    return list;
  }

  template <class Pipeline>
  void run(Pipeline& p) const {
    using exec::portion;
    using exec::stage;
    std::uint64_t const deep = routes + 3 < p.slots() ? routes : p.slots() - 3;
    read_ahead reader{p, ahead, 2 + deep};
    std::uint64_t t = p.first_batch();
    route_ahead router{p, reader, t};

    // Waits for the agreement on b; its successors are routed at once unless a boundary comes first.
    auto const agree = [&](std::uint64_t b) {
      auto const info = p.agreed(b);
      router.up_to(b + deep);
      return info;
    };

    auto info = agree(t);
    exec::event written{};    // write_back of the last batch trained
    exec::event ready{};      // rows of t are in its window as they must be sent
    bool retrieved = false;   // ... or will be, since the batch before has seen to it
    while (true) {
      if (info.samples != 0) {
        if (!retrieved) ready = p.issue({stage::retrieve, t}, written);
        bool const first_late = retrieved && early;
        retrieved = false;
        micro_batches_done const done = inner.micro_batches(p, t, ready, first_late ? portion::late : portion::all);

        auto next = info;
        exec::event next_rows{};
        if (!info.boundary) {
          next = agree(t + 1);
          retrieved = next.samples != 0;
        }
        if (retrieved) {
          next_rows = p.issue({stage::retrieve, t + 1}, written);
          // Behind the last gradients of t on the exchange lane, beside its last weight gradients on the compute lane.
          if (early) p.issue({stage::exchange_rows, t + 1, 0, portion::early}, next_rows, done.landing);
        }
        exec::event const dense = finish_reduction(p, t, done.weights);
        exec::event updated{};
        ready = {};
        if (retrieved && shared_first) {
          updated = p.issue({stage::update_rows, t, 0, portion::late}, done.gradients);
          ready = p.issue({stage::refresh, t + 1}, updated, next_rows);
          updated = p.issue({stage::update_rows, t, 0, portion::early}, done.gradients);
        } else {
          updated = p.issue({stage::update_rows, t}, done.gradients);
          if (retrieved) ready = p.issue({stage::refresh, t + 1}, updated, next_rows);
        }
        exec::event const replica = p.issue({stage::update_dense, t}, dense);
        written = p.issue({stage::write_back, t}, updated, ready);
        reader.done(t, written, replica);
        if (info.boundary) break;
        info = next;
      } else {
        reader.done(t, written);
        if (info.boundary) break;
        info = agree(t + 1);
      }
      ++t;
    }
    p.drain();
  }
};

/// Both levels: batches overlap, and micro-batches inside them. This is NestPipe.
using nested = dual_buffer<frozen_window>;

}  // namespace nestpipe::schedule
