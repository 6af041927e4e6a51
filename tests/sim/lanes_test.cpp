// Virtual lanes: order, waits, ranks, memory.
#include "sim/schedules.hpp"

#include <doctest/doctest.h>
#include <nestpipe/sim/simulate.hpp>
#include <nestpipe/sim/skew.hpp>
#include <nestpipe/sim/step_parts.hpp>

#include <cstdlib>
#include <functional>
#include <new>

#include <malloc.h>

namespace {

std::size_t live_bytes = 0;
std::size_t most_bytes = 0;

}  // namespace

// Not inline into callers: gcc takes malloc and free for a mismatched pair otherwise.
[[gnu::noinline]] void* operator new(std::size_t n) {
  void* const p = std::malloc(n);
  if (p == nullptr) throw std::bad_alloc{};
  live_bytes += malloc_usable_size(p);
  if (live_bytes > most_bytes) most_bytes = live_bytes;
  return p;
}
[[gnu::noinline]] void operator delete(void* p) noexcept {
  if (p == nullptr) return;
  live_bytes -= malloc_usable_size(p);
  std::free(p);
}
[[gnu::noinline]] void operator delete(void* p, std::size_t) noexcept { ::operator delete(p); }

namespace {

namespace np = nestpipe;
namespace exec = np::exec;
using exec::stage;

using any_cost = std::function<double(exec::op const&, std::size_t)>;
using lanes_type = np::sim::virtual_lanes<any_cost>;
static_assert(exec::executor<np::sim::virtual_lanes<np::sim::step_parts>>);
static_assert(np::sim::cost_model<any_cost>);

exec::event issue(lanes_type& lanes, exec::op const& o, std::initializer_list<exec::event> after = {}) {
  return lanes.issue(o, std::span{after.begin(), after.size()});
}

}  // namespace

TEST_CASE("an op begins when its lane is free, what it waits for has ended, and the host has come to it") {
  lanes_type lanes{[](exec::op const& o, std::size_t) { return o.what == stage::route ? 5.0 : 2.0; }};
  auto const read = issue(lanes, {stage::read, 0});
  issue(lanes, {stage::read, 1});
  CHECK(lanes.lane_end(exec::lane::input) == 4);
  auto const staged = issue(lanes, {stage::stage, 0}, {read});
  CHECK(lanes.lane_end(exec::lane::copy) == 4);
  auto const routed = issue(lanes, {stage::route, 0}, {staged});
  CHECK(lanes.lane_end(exec::lane::route) == 9);
  issue(lanes, {stage::retrieve, 7});
  CHECK(lanes.lane_end(exec::lane::lookup) == 2);
  lanes.wait(routed);
  issue(lanes, {stage::retrieve, 0});
  CHECK(lanes.lane_end(exec::lane::lookup) == 11);
  lanes.drain();
  issue(lanes, {stage::read, 2});
  CHECK(lanes.lane_end(exec::lane::input) == 13);
}

TEST_CASE("handing over to another lane takes its time, the next op of the same lane does not") {
  lanes_type lanes{[](exec::op const&, std::size_t) { return 1.0; }, 1, 0.25};
  auto const read = issue(lanes, {stage::read, 0});
  issue(lanes, {stage::read, 1}, {read});
  CHECK(lanes.lane_end(exec::lane::input) == 2);
  auto const staged = issue(lanes, {stage::stage, 0}, {read});
  CHECK(lanes.lane_end(exec::lane::copy) == 2.25);
  lanes.wait(staged);
  issue(lanes, {stage::retrieve, 0});
  CHECK(lanes.lane_end(exec::lane::lookup) == 3.5);
}

TEST_CASE("an event older than what is remembered counts as the oldest remembered, never as earlier") {
  lanes_type lanes{[](exec::op const&, std::size_t) { return 1.0; }};
  lanes.remember({4, 4, 4, 4, 4, 4, 4});
  auto const first = issue(lanes, {stage::read, 0});
  for (std::uint64_t b = 1; b < 10; ++b) issue(lanes, {stage::read, b});
  issue(lanes, {stage::stage, 0}, {first});
  CHECK(lanes.lane_end(exec::lane::copy) == 8);  // reads 6 to 9 are remembered; read 6 ended at 7
}

TEST_CASE("a collective ends on all ranks with the last; other ops each on their own") {
  lanes_type lanes{[](exec::op const& o, std::size_t rank) { return o.what == stage::forward_backward ? 1.0 + static_cast<double>(rank) : 0.5; }, 3};
  auto const rows = issue(lanes, {stage::exchange_rows, 0});
  auto const computed = issue(lanes, {stage::forward_backward, 0}, {rows});
  for (std::size_t r = 0; r < 3; ++r) CHECK(lanes.lane_end(exec::lane::compute, r) == 1.5 + static_cast<double>(r));
  issue(lanes, {stage::exchange_gradients, 0}, {computed});
  for (std::size_t r = 0; r < 3; ++r) CHECK(lanes.lane_end(exec::lane::exchange, r) == 4.0);
}

TEST_CASE("one link: collectives of all lanes one at a time, in the earliest gap that is long enough") {
  lanes_type lanes{[](exec::op const& o, std::size_t) { return o.what == stage::route ? 2.0 : o.what == stage::reduce_dense ? 3.0 : o.what == stage::forward_backward ? 4.0 : 1.0; }};
  for (bool const shared : {false, true}) {
    lanes.share_link(shared);
    lanes.start({});
    auto const rows = issue(lanes, {stage::exchange_rows, 0});               // 0 to 1
    auto const computed = issue(lanes, {stage::forward_backward, 0}, {rows});  // 1 to 5
    issue(lanes, {stage::exchange_gradients, 0}, {computed});                // 5 to 6
    CHECK(lanes.lane_end(exec::lane::exchange) == 6);
    issue(lanes, {stage::route, 1});  // 1 to 3
    CHECK(lanes.lane_end(exec::lane::route) == (shared ? 3 : 2));
    issue(lanes, {stage::reduce_dense, 0}, {rows});  // 3 to 5 is too short
    CHECK(lanes.lane_end(exec::lane::reduce) == (shared ? 9 : 4));
    issue(lanes, {stage::route, 2});
    CHECK(lanes.lane_end(exec::lane::route) == (shared ? 5 : 4));
  }
  // A step cannot be shorter than all that crosses the link.
  np::sim::step_parts p{.lookup = 1, .exchange = 0.5, .compute = 0.6, .micro_batches = 4, .reduce = 0.2};
  np::sim::virtual_lanes<np::sim::step_parts> one{p};
  one.share_link(true);
  double const step = np::sim::simulate(np::schedule::nested{}, one, {.micro_batches = 4}).step_seconds;
  CHECK(step >= 0.5 + 0.2 + 0.15 - 1e-9);
  CHECK(step < 1.0);
}

TEST_CASE("the slowest rank sets the step; taking turns at it costs more than being it all the time") {
  auto const step = [](auto slow) {
    any_cost const cost = [slow](exec::op const& o, std::size_t rank) {
      if (o.what == stage::forward_backward) return slow(o, rank) ? 2.0 : 1.0;
      return np::sim::is_collective(o.what) ? 0.25 : 0.0;
    };
    lanes_type lanes{cost, 2};
    return np::sim::simulate(np::schedule::sequential{}, lanes, {.batches = 20, .warm_up = 4, .micro_batches = 4}).step_seconds;
  };
  // 4 micro-batches, an exchange before and after each; route, and reduce beside the last gradients.
  CHECK(step([](auto const&, std::size_t) { return false; }) == doctest::Approx(0.25 + 4 * 1.5));
  CHECK(step([](auto const&, std::size_t rank) { return rank == 1; }) == doctest::Approx(0.25 + 4 * 2.5));
  CHECK(step([](exec::op const& o, std::size_t rank) { return o.part % 2 == rank; }) == doctest::Approx(0.25 + 4 * 2.5));
  CHECK(step([](exec::op const& o, std::size_t rank) { return o.part == rank; }) == doctest::Approx(0.25 + 2 * 2.5 + 2 * 1.5));
}

TEST_CASE("skew: factors have mean 1 and the spread asked for, repeat, and slow the cluster down with its size") {
  np::sim::skew const s{.per_op = 0.1, .seed = 3};
  double sum = 0, squares = 0;
  constexpr std::size_t n = 20000;
  for (std::size_t r = 0; r < n; ++r) {
    double const f = s.factor({stage::read, 4}, r);
    sum += f;
    squares += f * f;
  }
  CHECK(sum / n == doctest::Approx(1).epsilon(0.005));
  CHECK(std::sqrt(squares / n - 1) == doctest::Approx(0.1).epsilon(0.05));
  CHECK(s.factor({stage::read, 4}, 9) == s.factor({stage::read, 4}, 9));
  CHECK(s.factor({stage::read, 4}, 9) != s.factor({stage::read, 5}, 9));
  CHECK(np::sim::skew{}.factor({stage::read, 4}, 9) == 1);
  np::sim::skew const steady{.per_rank = 0.1};
  CHECK(steady.factor({stage::read, 4}, 9) == steady.factor({stage::route, 5}, 9));

  np::sim::step_parts p{.lookup = 1, .exchange = 0.4, .compute = 0.6, .micro_batches = 4, .uneven = s};
  double before = 2;
  for (std::size_t const ranks : {2U, 16U, 128U, 1024U}) {
    np::sim::virtual_lanes<np::sim::step_parts> lanes{p, ranks};
    double const step = np::sim::simulate(np::schedule::sequential{}, lanes, {.batches = 24, .warm_up = 4, .micro_batches = 4}).step_seconds;
    CHECK(step > before);
    before = step;
  }
}

TEST_CASE("the same simulation gives the same bits, on fresh lanes and on used ones") {
  np::sim::step_parts const p{.lookup = 1, .exchange = 0.4, .compute = 0.6, .micro_batches = 8, .uneven = {.per_rank = 0.05, .per_op = 0.2}};
  np::sim::plan const plan{.batches = 30, .warm_up = 5, .micro_batches = 8};
  np::sim::virtual_lanes<np::sim::step_parts> a{p, 7};
  np::sim::virtual_lanes<np::sim::step_parts> b{p, 7};
  auto const once = np::sim::simulate(np::schedule::nested{}, a, plan);
  np::sim::simulate(np::schedule::sequential{}, b, plan);
  auto const again = np::sim::simulate(np::schedule::nested{}, b, plan);
  CHECK(once.step_seconds == again.step_seconds);
  CHECK(once.per_step.total == again.per_step.total);
  CHECK(once.per_step.exposed == again.per_step.exposed);
}

TEST_CASE("10,000 ranks that differ fit into 48 MB, and many micro-batches into their history") {
  np::sim::step_parts const p{.lookup = 1, .exchange = 0.4, .compute = 0.6, .micro_batches = 8, .uneven = {.per_rank = 0.05}};
  std::size_t const before = live_bytes;
  most_bytes = live_bytes;
  {
    np::sim::virtual_lanes<np::sim::step_parts> lanes{p, 10000};
    auto const r = np::sim::simulate(np::schedule::nested{}, lanes, {.batches = 8, .warm_up = 3, .micro_batches = 8});
    CHECK(r.step_seconds > 0.6);
  }
  MESSAGE("most bytes allocated at once: ", most_bytes - before);
  CHECK(most_bytes - before < 48u << 20);

  np::sim::step_parts many{.lookup = 0.1, .exchange = 0.4, .compute = 0.6, .micro_batches = 512};
  np::sim::virtual_lanes<np::sim::step_parts> lanes{many};
  CHECK(np::sim::simulate(np::test::plain_nested(), lanes, {.batches = 20, .warm_up = 5, .micro_batches = 512}).step_seconds == doctest::Approx(0.6 + 0.4 / 512));
}

TEST_CASE("a plan that counts nothing is refused") {
  np::sim::virtual_lanes<np::sim::step_parts> lanes{np::sim::step_parts{.compute = 1}};
  for (np::sim::plan const& p : {np::sim::plan{.batches = 5, .warm_up = 4}, np::sim::plan{.batches = 5, .warm_up = 0}, np::sim::plan{.micro_batches = 0}, np::sim::plan{.slots = 3}})
    CHECK_THROWS_AS(np::sim::simulate(np::schedule::sequential{}, lanes, p), np::config_error);
}
