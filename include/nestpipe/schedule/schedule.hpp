#pragma once
/// @file
/// What a schedule is: it decides in which order stages are issued and what each waits for, nothing else. It sees the engine
/// through a *pipeline*, so the same schedule trains on thread lanes, on CUDA streams, and on a virtual clock.
///
/// | requirement on a schedule S (copyable value) | meaning |
/// |---|---|
/// | `typename S::consistency` | `schedule::exact`: every row is read as the last batch left it |
/// | `s.windows()` | windows per owner that it needs (1 or 2) |
/// | `s.early_rows()` (optional, false) | whether it issues the first row exchange of a batch in two portions |
/// | `s.variants()` (optional) | std::vector<S>: settings of it worth trying; the trainer can measure them and keep the fastest |
/// | `s.run(pipeline)` | issues batches from `pipeline.first_batch()` until the agreed batch_info says boundary; returns when all is drained |
///
/// | a pipeline P offers | meaning |
/// |---|---|
/// | `p.issue(op, events...)` | -> event; ops that were issued before the last boundary (read, stage) complete at once |
/// | `p.agreed(t)` | waits on the host for route(t), returns its batch_info |
/// | `p.first_batch()` | number of the next batch |
/// | `p.micro_batches()` | of this rank |
/// | `p.slots()` | batches whose data may be held at once: read(t) waits for the last op of t - slots() |
/// | `p.buckets()` | parts of the dense reduction |
/// | `p.drain()` | waits for everything issued |
///
/// The order of issue must be the same on every rank. A schedule waits for events it has issued before, and never hides a
/// wait elsewhere.

#include <nestpipe/core/error.hpp>
#include <nestpipe/exec/stage.hpp>

#include <concepts>
#include <cstdint>
#include <vector>

namespace nestpipe::schedule {

/// Every forward pass reads exactly the parameters that the plain loop would read.
struct exact {};
/// Rows may miss up to `Batches` batches of updates.
template <std::uint64_t Batches>
struct bounded_stale {};

/// A pipeline that does nothing: what schedules are checked against.
struct pipeline_archetype {
  struct info {
    std::uint64_t samples = 0;
    bool boundary = true;
  };
  template <class... Events>
  exec::event issue(exec::op const&, Events...) { return {}; }
  info agreed(std::uint64_t) { return {}; }
  std::uint64_t first_batch() const { return 0; }
  std::uint32_t micro_batches() const { return 1; }
  std::uint64_t slots() const { return 1; }
  std::uint32_t buckets() const { return 1; }
  void drain() {}
};

template <class S>
concept has_consistency = requires { typename S::consistency; };
template <class S>
concept has_windows = requires(S const& s) {
  { s.windows() } -> std::convertible_to<std::uint32_t>;
};
template <class S>
concept has_run = requires(S const& s, pipeline_archetype& p) { s.run(p); };
template <class S>
concept schedule = has_consistency<S> && has_windows<S> && has_run<S> && std::copy_constructible<S>;
/// For code that is only right when nothing is stale.
template <class S>
concept exact_schedule = schedule<S> && std::same_as<typename S::consistency, exact>;

/// Settings of a schedule worth trying, itself among them; one where there is nothing to choose.
template <class S>
std::vector<S> variants(S const& s) {
  if constexpr (requires { s.variants(); }) {
    return s.variants();
  } else {
    return {s};
  }
}

/// Whether the schedule sends rows early.
template <class S>
constexpr bool early_rows(S const& s) {
  if constexpr (requires { s.early_rows(); }) {
    return s.early_rows();
  } else {
    return false;
  }
}

template <class S>
consteval bool audit() {
  static_assert(has_consistency<S>, "schedule policy [1/4]: define member type consistency (nestpipe::schedule::exact)");
  static_assert(has_windows<S>, "schedule policy [2/4]: provide windows() const");
  static_assert(has_run<S>, "schedule policy [3/4]: provide template run(pipeline&) const");
  static_assert(std::copy_constructible<S>, "schedule policy [4/4]: must be copyable");
  return true;
}

}  // namespace nestpipe::schedule
