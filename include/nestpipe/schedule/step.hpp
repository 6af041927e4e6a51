#pragma once
/// @file
/// Pieces that schedules share: the micro-batches of a step in plain order, and the loop without look-ahead.

#include <nestpipe/schedule/schedule.hpp>

namespace nestpipe::schedule {

/// What the rest of a step waits for.
struct micro_batches_done {
  exec::event gradients;  ///< all row gradients are folded in
  exec::event weights;    ///< all dense gradients are added up on this rank: finish_reduction may follow
  exec::event landing;    ///< nobody reads the landing buffer any more that the next batch uses first
};

/// Weight gradients of micro-batch m behind `after`. Those of the batch's last one come bucket by bucket, last layers first: a
/// bucket is reduced while the next is computed, and only the last bucket is left to finish_reduction. Returns the last of them.
template <class Pipeline>
exec::event weigh(Pipeline& p, std::uint64_t t, std::uint32_t m, exec::event after) {
  using exec::stage;
  if (m + 1 < p.micro_batches()) return p.issue({stage::weight_gradients, t, m}, after);
  std::uint32_t const buckets = p.buckets();
  for (std::uint32_t b = 0; b < buckets; ++b) {
    after = p.issue({stage::weight_gradients, t, m, exec::portion::all, b, buckets}, after);
    if (b + 1 < buckets) p.issue({stage::reduce_dense, t, b, exec::portion::all, b, buckets}, after);
  }
  return after;
}

/// The bucket of the dense reduction that weigh has left. Returns the end of the whole reduction.
template <class Pipeline>
exec::event finish_reduction(Pipeline& p, std::uint64_t t, exec::event weights) {
  std::uint32_t const last = p.buckets() - 1;
  return p.issue({exec::stage::reduce_dense, t, last, exec::portion::all, last, last + 1}, weights);
}

/// One micro-batch after the other. The inner part of a step: an *inner* has
/// `micro_batches(pipeline, t, rows_ready, first_rows)`, which issues exchange and compute of all micro-batches of t behind
/// `rows_ready`, the first exchange for the rows `first_rows` only.
struct plain_micro_batches {
  template <class Pipeline>
  micro_batches_done micro_batches(Pipeline& p, std::uint64_t t, exec::event rows_ready, exec::portion first_rows) const {
    using exec::stage;
    exec::event e = rows_ready;
    exec::event weights{};
    for (std::uint32_t m = 0; m < p.micro_batches(); ++m) {
      e = p.issue({stage::exchange_rows, t, m, m == 0 ? first_rows : exec::portion::all}, e);
      e = p.issue({stage::forward_backward, t, m}, e);
      e = weights = weigh(p, t, m, e);
      e = p.issue({stage::exchange_gradients, t, m}, e);
    }
    return {e, weights, weights};
  }
};

/// The middle of a step with one window, from retrieve to write_back, behind `after`. Returns the last event.
template <class Inner, class Pipeline, class... Events>
exec::event one_window_step(Inner const& inner, Pipeline& p, std::uint64_t t, Events... after) {
  using exec::stage;
  exec::event const rows = p.issue({stage::retrieve, t}, after...);
  micro_batches_done const done = inner.micro_batches(p, t, rows, exec::portion::all);
  exec::event const dense = finish_reduction(p, t, done.weights);
  exec::event const updated = p.issue({stage::update_rows, t}, done.gradients);
  exec::event const replica = p.issue({stage::update_dense, t}, dense, updated);
  return p.issue({stage::write_back, t}, updated, replica);
}

/// Batch after batch without look-ahead.
template <class Inner, class Pipeline>
void one_batch_at_a_time(Inner const& inner, Pipeline& p) {
  using exec::stage;
  exec::event e{};
  for (std::uint64_t t = p.first_batch();; ++t) {
    e = p.issue({stage::read, t}, e);
    e = p.issue({stage::stage, t}, e);
    e = p.issue({stage::route, t}, e);
    auto const info = p.agreed(t);
    if (info.samples != 0) e = one_window_step(inner, p, t, e);
    if (info.boundary) break;
  }
  p.drain();
}

}  // namespace nestpipe::schedule
