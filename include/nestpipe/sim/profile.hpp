#pragma once
/// @file
/// The cost model of a machine that was measured: stage seconds of `sequential` runs, which predict every other schedule.

#include <nestpipe/core/error.hpp>
#include <nestpipe/sim/sim.hpp>
#include <nestpipe/sim/skew.hpp>
#include <nestpipe/trace/recorder.hpp>

#include <algorithm>

namespace nestpipe::sim {

/// A run with schedule::sequential, one rank of it.
struct measured_run {
  trace::stage_times times;       ///< summed over `steps`; of the exposed ones only reduce_dense is used
  std::uint64_t steps = 0;
  std::uint32_t micro_batches = 1;
  double step_seconds = 0;        ///< 0: unknown, then handing over is taken to cost nothing
  bool one_link = false;          ///< see virtual_lanes::share_link: the reduction's own time is then what is left of it after the last gradients
};

/// Meets cost_model. An op of a stage takes `fixed + whole / micro-batches` seconds (once-per-batch stages: `whole`).
struct profile {
  std::array<double, exec::stage_count> fixed{};  ///< seconds an op, however small ("alpha")
  std::array<double, exec::stage_count> whole{};  ///< seconds a batch, shared out among the micro-batches ("beta" times the size)
  std::uint32_t micro_batches = 1;                ///< to be predicted
  double hand_over = 0;                           ///< seconds between an op's end and the start of one on another lane that waited for it
  double early_share = 0.5;                       ///< of a first micro-batch's rows, not touched by the batch before
  double shared_update = 0.5;                     ///< of the rows updated, shared with the next batch
  skew uneven{};

  double operator()(exec::op const& o, std::size_t rank) const {
    auto const s = static_cast<std::size_t>(o.what);
    double seconds = whole[s];
    if (o.what == exec::stage::exchange_rows || o.what == exec::stage::exchange_gradients) seconds *= portion_share(o.rows, early_share);
    if (o.what == exec::stage::update_rows) seconds *= portion_share(o.rows, 1 - shared_update);
    if (per_micro_batch(o.what)) seconds /= static_cast<double>(micro_batches);
    seconds /= o.buckets;
    return (seconds + fixed[s]) * uneven.factor(o, rank);
  }

  /// Seconds of one batch's exchanges.
  double exchange() const { return sum(exec::stage::exchange_rows) + sum(exec::stage::exchange_gradients); }
  double compute() const { return sum(exec::stage::forward_backward) + sum(exec::stage::weight_gradients) + sum(exec::stage::update_rows) + sum(exec::stage::update_dense); }

  /// Seconds of one batch in a stage.
  double sum(exec::stage s) const {
    auto const k = static_cast<std::size_t>(s);
    return whole[k] + fixed[k] * (per_micro_batch(s) ? static_cast<double>(micro_batches) : 1.0);
  }
};

namespace detail {

/// Ops of a sequential step that wait for another lane: read, stage, route, retrieve, the first exchange, update_rows and
/// write_back; forward_backward and exchange_gradients of each micro-batch. reduce_dense is beside the last gradients.
constexpr double hand_overs(std::uint32_t micro_batches) { return 2.0 * micro_batches + 7.0; }

/// Seconds an op: what a step takes beyond its ops. Of reduce_dense, only what the last gradients did not hide is in the step.
inline double hand_over(measured_run const& r) {
  if (r.step_seconds <= 0) return 0;
  auto const reduce = static_cast<std::size_t>(exec::stage::reduce_dense);
  double busy = r.times.exposed[reduce];
  for (std::size_t s = 0; s < exec::stage_count; ++s) {
    if (s != reduce) busy += r.times.total[s];
  }
  return std::max(0.0, r.step_seconds - busy / static_cast<double>(r.steps)) / hand_overs(r.micro_batches);
}

/// Seconds of a step in a stage.
inline double total(measured_run const& r, std::size_t stage) {
  bool const queued = r.one_link && stage == static_cast<std::size_t>(exec::stage::reduce_dense);
  return (queued ? r.times.exposed[stage] : r.times.total[stage]) / static_cast<double>(r.steps);
}

inline void check(measured_run const& r) {
  require(r.steps > 0 && r.micro_batches > 0, "a measured run needs steps and micro-batches", {}, "run sequential for at least one step");
}

}  // namespace detail

/// One run: no stage has a fixed part, so predictions for other numbers of micro-batches are too low if there is one.
/// @throws config_error if the run is empty
inline profile fit(measured_run const& r) {
  detail::check(r);
  profile p;
  p.micro_batches = r.micro_batches;
  for (std::size_t s = 0; s < exec::stage_count; ++s) p.whole[s] = detail::total(r, s);
  p.hand_over = detail::hand_over(r);
  return p;
}

/// Two runs that differ in micro-batches only: the line through both, neither part negative. What several micro-batches add by
/// repeating keys is in the fixed part. The result predicts `a`'s number of micro-batches until told otherwise.
/// @throws config_error if a run is empty or both have the same number of micro-batches
inline profile fit(measured_run const& a, measured_run const& b) {
  detail::check(a);
  detail::check(b);
  require(a.micro_batches != b.micro_batches, "two measured runs have the same number of micro-batches", std::to_string(a.micro_batches), "vary --micro-batches");
  profile p;
  p.micro_batches = a.micro_batches;
  double const na = a.micro_batches;
  double const nb = b.micro_batches;
  for (std::size_t s = 0; s < exec::stage_count; ++s) {
    double const ta = detail::total(a, s);
    double const tb = detail::total(b, s);
    if (per_micro_batch(static_cast<exec::stage>(s))) p.fixed[s] = std::clamp((tb - ta) / (nb - na), 0.0, std::min(ta / na, tb / nb));
    double const n = per_micro_batch(static_cast<exec::stage>(s)) ? 1.0 : 0.0;
    p.whole[s] = std::max(0.0, ((ta - n * na * p.fixed[s]) + (tb - n * nb * p.fixed[s])) / 2);
  }
  p.hand_over = (detail::hand_over(a) + detail::hand_over(b)) / 2;
  return p;
}

/// The same machine's prediction for more workers, each with the batch it had: everything a worker does alone stays, an
/// exchange's fixed part grows with the number of peers, and its bytes with the share that leaves the worker.
/// @throws config_error if `measured` is 1 (no exchange was seen) and `workers` is not
inline profile with_workers(profile p, std::size_t measured, std::size_t workers) {
  if (workers == measured) return p;
  require(measured > 1 && workers > 0, "a run of one rank does not say what an exchange costs", std::to_string(workers) + " workers", "profile a run of at least two ranks");
  double const peers = static_cast<double>(workers - 1) / static_cast<double>(measured - 1);
  double const leaving = peers * static_cast<double>(measured) / static_cast<double>(workers);
  for (auto const s : {exec::stage::exchange_rows, exec::stage::exchange_gradients}) {
    p.fixed[static_cast<std::size_t>(s)] *= peers;
    p.whole[static_cast<std::size_t>(s)] *= leaving;
  }
  return p;
}

}  // namespace nestpipe::sim
