#pragma once
/// @file
/// One configuration, trained with emulated lookup, exchange and compute, and what of it was hidden.

#include "key_stream.hpp"
#include "paced.hpp"

#include <nestpipe/comm/emulated_link.hpp>
#include <nestpipe/engine/gather_trace.hpp>
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/fm.hpp>
#include <nestpipe/optimizer/adagrad.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/schedule/any_of.hpp>
#include <nestpipe/schedule/nested.hpp>
#include <nestpipe/schedule/prefetch.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/trace/exposure.hpp>
#include <nestpipe/trainer.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <cstdio>
#include <string>
#include <vector>

namespace bench {

namespace np = nestpipe;
using schedules = np::schedule::any_of<np::schedule::sequential, np::schedule::prefetch, np::schedule::dual_buffer<>, np::schedule::frozen_window, np::schedule::nested>;

struct named_schedule {
  std::string name;
  schedules schedule;
};

inline np::schedule::nested nested_with(bool early, bool shared_first, bool split) {
  np::schedule::nested n;
  n.early = early;
  n.shared_first = shared_first;
  n.inner.split_backward = split;
  return n;
}

/// What is trained and what it is made to cost: seconds of one sequential step, for each rank.
struct setup {
  std::size_t micro_batches = 8;  ///< of a rank
  std::size_t samples = 128;      ///< of a rank and batch
  double lookup = 0.0992, exchange = 0.0416, compute = 0.0592;
  double update = 0;              ///< part of compute that update_rows takes; 0: its real work only, on top of compute
  double latency = 20e-6;         ///< seconds a message
  sharing share = sharing::natural;
  std::uint64_t steps = 24, warm_up = 6;

  /// Read, stage, route, retrieve, write_back: shares of the lookup. write_back and retrieve together stay below compute.
  static constexpr std::array<double, 5> lookup_shares{0.25, 0.10, 0.15, 0.30, 0.20};

  /// The busiest lane: no order of the stages can make a step shorter.
  double lower_bound() const { return std::max({compute, exchange, lookup * 0.5}); }

  pace paces(std::size_t ranks) const {
    using exec::stage;
    pace p;
    p[stage::read] = lookup * lookup_shares[0];
    p[stage::stage] = lookup * lookup_shares[1];
    p[stage::route] = lookup * lookup_shares[2];
    p[stage::retrieve] = lookup * lookup_shares[3];
    p[stage::write_back] = lookup * lookup_shares[4];
    p[stage::forward_backward] = (compute - update) * 2 / 3 / static_cast<double>(micro_batches);
    p[stage::weight_gradients] = (compute - update) / 3 / static_cast<double>(micro_batches);
    p[stage::update_rows] = update;
    p.late_update = update > 0 ? stream(ranks, 16).measure(0).shared : 0;
    return p;
  }
  key_stream stream(std::size_t ranks, std::uint64_t batches) const {
    return key_stream{{.rows = batches * samples * ranks, .batch = samples * ranks, .share = share}};
  }
};

struct outcome {
  std::string digest;
  std::vector<double> steps;     ///< seconds between updates of rank 0, after warm-up
  np::trace::exposure exposed;   ///< of rank 0, a step
  double exchange = 0;           ///< seconds a step that rank 0's exchange lane was busy
  double link_seconds = 0;       ///< of them on the link, a step
  double bytes = 0;              ///< that rank 0 sent over the link, a step
  double cores = 0;              ///< of this process, mean: how much real work there was
  std::vector<np::trace::rank_intervals> timeline;  ///< of all ranks, on rank 0

  double median() const {
    auto sorted = steps;
    if (sorted.empty()) return 0;
    std::nth_element(sorted.begin(), sorted.begin() + static_cast<std::ptrdiff_t>(sorted.size() / 2), sorted.end());
    return sorted[sorted.size() / 2];
  }
  double mean() const {
    double sum = 0;
    for (double const s : steps) sum += s;
    return sum / static_cast<double>(std::max<std::size_t>(steps.size(), 1));
  }
};

inline double cpu_seconds() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  auto const seconds = [](timeval const& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return seconds(u.ru_utime) + seconds(u.ru_stime);
}

/// Collective over the ranks of `comm`. The outcome is rank 0's.
/// @param bytes_per_second  of the emulated link; infinite and no latency: none
template <class Comm>
outcome train(Comm& inner, setup const& s, named_schedule const& chosen, double bytes_per_second, bool paced_ops = true) {
  using comm_type = np::comm::emulated_link<Comm>;
  using trainer_type = np::trainer<np::model::fm<float, np::math::plain>, np::storage::hashed<>, comm_type, schedules, np::optimizer::adagrad, np::optimizer::adam, paced<>>;
  comm_type comm{inner, {s.latency, bytes_per_second, {"exchange"}}};
  np::trainer_config config;
  config.batch_size = s.samples * comm.size();
  config.micro_batches = s.micro_batches;
  config.dim = 8;
  std::vector<std::chrono::steady_clock::time_point> updates;
  updates.reserve(static_cast<std::size_t>(s.steps));
  config.on_step = [&](np::progress const&) { updates.push_back(std::chrono::steady_clock::now()); };
  typename trainer_type::policies policies;
  policies.schedule = chosen.schedule;
  trainer_type trainer{config, comm, policies};
  if (paced_ops) trainer.executor().times = s.paces(comm.size());
  trainer.executor().recorder().keep(8192);
  double const cpu = cpu_seconds();
  auto const fitted = trainer.fit(s.stream(comm.size(), s.steps));
  outcome o;
  o.cores = (cpu_seconds() - cpu) / fitted.seconds;
  auto const traffic = comm.traffic();
  o.bytes = static_cast<double>(traffic.bytes_out) / static_cast<double>(s.steps);
  o.link_seconds = traffic.seconds / static_cast<double>(s.steps);
  for (std::size_t i = static_cast<std::size_t>(s.warm_up); i < updates.size(); ++i) o.steps.push_back(std::chrono::duration<double>(updates[i] - updates[i - 1]).count());
  std::uint64_t counted = 0;
  // Without the last steps, which have nothing after them to overlap with.
  auto const times = np::trace::times_between(trainer.executor().recorder().intervals(), s.warm_up, s.steps - 2, counted);
  if (o.steps.size() > 2) o.steps.resize(o.steps.size() - 2);
  o.exposed = np::trace::summarize(times, counted);
  o.exchange = o.exposed.rows.total + o.exposed.gradients.total;
  o.timeline = np::engine::gather_trace(trainer);
  o.digest = trainer.parameters_digest().text();
  return o;
}

/// The bandwidth at which a sequential step's exchange lane is busy for s.exchange. Two short runs.
template <class Comm>
double calibrate(Comm& comm, setup s) {
  named_schedule const plain{"sequential", np::schedule::sequential{}};
  double const wanted = s.exchange;
  double const latency = s.latency;
  constexpr double unit = 1e9;
  s.steps = 10;
  s.warm_up = 3;
  s.latency = 0;
  double const bytes = train(comm, s, plain, unit, false).link_seconds * unit;  // in the way of the slowest transfers
  s.latency = latency;
  double const fixed = 2 * static_cast<double>(s.micro_batches) * latency * static_cast<double>(comm.size() - 1);
  double rate = bytes / std::max(wanted - fixed, wanted * 0.1);
  // Packing, the copy itself and waking up are part of the lane's time too.
  double const own = std::max(0.0, train(comm, s, plain, rate).exchange - wanted);
  rate = bytes / std::max(wanted - fixed - own, wanted * 0.1);
  auto channel = comm.channel("calibrate");
  channel.broadcast(std::as_writable_bytes(std::span{&rate, 1}), 0, {"calibrate", 0});
  return rate;
}

}  // namespace bench
