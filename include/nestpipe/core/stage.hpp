#pragma once
/// @file
/// The stages of one step, the lanes they run on, and the operations a schedule issues. Names only: no work is here.

#include <array>
#include <cstddef>
#include <cstdint>
#include <string_view>

namespace nestpipe::exec {

/// What is done to a batch (or to one micro-batch of it: `part`).
enum class stage : std::uint8_t {
  read,                ///< parse the batch
  stage,               ///< move ids, dense features and labels to the compute space
  route,               ///< de-duplicate keys, exchange them with their owners, agree on the batch
  retrieve,            ///< owners read rows into a window
  refresh,             ///< rows that the window just updated also holds are copied from it
  exchange_rows,       ///< owners send rows to the ranks that need them (part: local micro-batch)
  forward_backward,    ///< pool, forward, loss, backward to the embeddings, per-key gradients (part)
  weight_gradients,    ///< the weight half of backward (part; all dense parameters, or one bucket of them)
  exchange_gradients,  ///< per-key gradients return to their owners, who fold them in (part)
  reduce_dense,        ///< dense gradients over micro-batches and ranks (part: bucket)
  update_rows,         ///< one optimizer update per row
  update_dense,        ///< one optimizer update per dense parameter
  write_back,          ///< updated rows return to storage; new rows are created
};
inline constexpr std::size_t stage_count = 13;

/// One in-order queue each.
enum class lane : std::uint8_t { input, copy, route, lookup, exchange, compute, reduce };
inline constexpr std::size_t lane_count = 7;

constexpr std::string_view name(stage s) {
  constexpr std::array<std::string_view, stage_count> names{
      "read",  "stage",        "route",       "retrieve",     "refresh",    "exchange_rows", "forward_backward", "weight_gradients", "exchange_gradients",
      "reduce_dense", "update_rows", "update_dense", "write_back"};
  return names[static_cast<std::size_t>(s)];
}

constexpr std::string_view name(lane l) {
  constexpr std::array<std::string_view, lane_count> names{"input", "copy", "route", "lookup", "exchange", "compute", "reduce"};
  return names[static_cast<std::size_t>(l)];
}

constexpr lane lane_of(stage s) {
  switch (s) {
    case stage::read: return lane::input;
    case stage::stage: return lane::copy;
    case stage::route: return lane::route;
    case stage::retrieve:
    case stage::write_back: return lane::lookup;
    case stage::exchange_rows:
    case stage::exchange_gradients: return lane::exchange;
    case stage::reduce_dense: return lane::reduce;
    default: return lane::compute;
  }
}

/// Which rows an exchange moves: all at once, or those known early and those known late.
enum class portion : std::uint8_t { all, early, late };

constexpr std::string_view name(portion p) { return p == portion::all ? "all" : p == portion::early ? "early" : "late"; }

/// One unit of work: a stage of a batch.
struct op {
  stage what = stage::read;
  std::uint64_t batch = 0;
  std::uint32_t part = 0;
  portion rows = portion::all;
  /// Of the dense parameters: bucket `bucket` of `buckets` (weight_gradients, reduce_dense). 0 of 1: all of them.
  std::uint32_t bucket = 0;
  std::uint32_t buckets = 1;
};

/// Completion of an op: lanes complete in order, so a place in a lane's order says it all. Ticket 0 is complete already.
struct event {
  lane where = lane::input;
  std::uint64_t ticket = 0;
};

/// Longest list of events one op may wait for.
inline constexpr std::size_t max_dependencies = 8;

}  // namespace nestpipe::exec
