// Simulated steps against the closed forms of the cost model, for random lookup, exchange, compute and micro-batches.
#include "sim/schedules.hpp"

#include <doctest/doctest.h>
#include <nestpipe/core/random.hpp>
#include <nestpipe/sim/simulate.hpp>
#include <nestpipe/sim/step_parts.hpp>

#include <algorithm>

namespace {

namespace np = nestpipe;
using np::exec::stage;
using np::sim::step_parts;

template <class Schedule>
np::sim::prediction simulated(Schedule const& s, step_parts const& c, std::uint64_t batches = 60) {
  np::sim::virtual_lanes<step_parts> lanes{c};
  return np::sim::simulate(s, lanes, {.batches = batches, .warm_up = 20, .micro_batches = c.micro_batches});
}
template <class Schedule>
double step(Schedule const& s, step_parts const& c) {
  return simulated(s, c).step_seconds;
}

// Lookup up to 3 compute times, exchange up to `most` of it.
step_parts drawn(std::uint64_t i, double most) {
  np::counter_random const r{17, 3, i};
  step_parts p;
  p.compute = 0.02 + r.uniform_double(0);
  p.lookup = 3 * p.compute * r.uniform_double(1);
  p.exchange = most * p.compute * r.uniform_double(2);
  p.micro_batches = static_cast<std::uint32_t>(2 + r.below(3, 31));
  return p;
}

double slowest_lookup(step_parts const& p) { return p.lookup * 0.5; }  // retrieve and write_back share a lane

bool near(double a, double b) { return std::abs(a - b) <= 1e-9 * std::max(a, b); }

}  // namespace

TEST_CASE("the plain loop takes lookup, exchange and compute, one after the other") {
  for (std::uint64_t i = 0; i < 100; ++i) {
    step_parts const p = drawn(i, 3);
    CAPTURE(i);
    CHECK(near(step(np::schedule::sequential{}, p), p.lookup + p.exchange + p.compute));
  }
}

TEST_CASE("prefetch hides reading, staging and routing behind the rest of the step") {
  for (std::uint64_t i = 0; i < 100; ++i) {
    step_parts const p = drawn(i, 3);
    CAPTURE(i);
    CHECK(near(step(np::schedule::prefetch{}, p), slowest_lookup(p) + p.exchange + p.compute));
  }
}

TEST_CASE("dual buffers leave exchange and compute, or the slowest lookup lane") {
  std::size_t bound_by_lookup = 0;
  for (std::uint64_t i = 0; i < 100; ++i) {
    step_parts const p = drawn(i, 1);
    CAPTURE(i);
    bound_by_lookup += slowest_lookup(p) > p.exchange + p.compute;
    CHECK(near(step(np::test::plain_dual(), p), std::max(p.exchange + p.compute, slowest_lookup(p))));
  }
  CHECK(bound_by_lookup > 0);
}

TEST_CASE("frozen windows leave 1/N of the exchange while it is shorter than compute") {
  for (std::uint64_t i = 0; i < 100; ++i) {
    step_parts const p = drawn(i, 1);
    CAPTURE(i);
    CHECK(near(step(np::test::plain_frozen(), p), p.lookup + p.compute + p.exchange / p.micro_batches));
  }
}

TEST_CASE("both levels: compute and 1/N of the exchange, or the slowest lookup lane") {
  for (std::uint64_t i = 0; i < 100; ++i) {
    step_parts const p = drawn(i, 1);
    CAPTURE(i);
    CHECK(near(step(np::test::plain_nested(), p), std::max(p.compute + p.exchange / p.micro_batches, slowest_lookup(p))));
  }
}

TEST_CASE("the knee: from exchange = compute on, exchange is what a step takes") {
  for (std::uint64_t i = 0; i < 100; ++i) {
    step_parts p = drawn(i, 1);
    p.lookup = 0;
    CAPTURE(i);
    for (double const ratio : {0.25, 0.5, 0.9, 1.0, 1.1, 1.5, 2.0, 4.0}) {
      p.exchange = ratio * p.compute;
      double const s = step(np::test::plain_nested(), p);
      if (ratio <= 1) {
        CHECK(near(s, p.compute + p.exchange / p.micro_batches));
      } else {
        CHECK(s >= p.exchange * (1 - 1e-9));
        CHECK(s <= (p.exchange + p.compute / p.micro_batches) * (1 + 1e-9));
        CHECK(s < p.compute + p.exchange);
      }
    }
  }
}

TEST_CASE("one micro-batch makes frozen windows the plain loop") {
  step_parts p = drawn(5, 1);
  p.micro_batches = 1;
  CHECK(near(step(np::schedule::frozen_window{}, p), step(np::schedule::sequential{}, p)) == false);  // a split backward hides gradients even so
  CHECK(near(step(np::test::plain_frozen(), p), step(np::schedule::sequential{}, p)));
}

TEST_CASE("what goes beyond the published system gains, costs nothing unless lookup is what a step takes, and never beats the busiest lane") {
  std::size_t gained = 0;
  std::size_t paid = 0;
  for (std::uint64_t i = 0; i < 200; ++i) {
    step_parts p = drawn(i, 1.5);
    p.update = 0.1 * p.compute;
    p.refresh = 0.01 * p.compute;
    CAPTURE(i);
    double const plain = step(np::test::plain_nested(), p);
    double const full = step(np::schedule::nested{}, p);
    np::schedule::nested without = np::schedule::nested{};
    without.shared_first = false;
    CHECK(step(without, p) <= plain * (1 + 1e-9));
    CHECK(full >= p.lower_bound() * (1 - 1e-9));
    // Shared rows first: the others are then updated behind the copy, which waits for the next batch's lookup, and before this
    // batch's write_back. If lookup is the bottleneck, their update is added to it.
    if (slowest_lookup(p) + p.refresh + p.update < p.compute) CHECK(full <= plain * (1 + 1e-9));
    CHECK(full <= (plain + (1 - p.shared_update) * p.update) * (1 + 1e-9));
    gained += full < 0.99 * plain;
    paid += full > 1.001 * plain;
  }
  CHECK(gained > 50);
  CHECK(paid > 0);
}

TEST_CASE("the split published for 1,536 workers, 200 ms: 3.11 x without and at least 3.19 x with the parts beyond") {
  step_parts p;
  p.lookup = 0.0992;
  p.exchange = 0.0416;
  p.compute = 0.0592;
  p.micro_batches = 8;
  double const sequential = step(np::schedule::sequential{}, p);
  CHECK(sequential == doctest::Approx(0.2));
  CHECK(sequential / step(np::test::plain_nested(), p) == doctest::Approx(3.106).epsilon(0.001));
  CHECK(sequential / step(np::schedule::nested{}, p) >= 3.19);
}

TEST_CASE("exposed times and compute add up to the step, for every schedule") {
  for (std::uint64_t i = 0; i < 60; ++i) {
    step_parts const p = drawn(i, 2);
    CAPTURE(i);
    auto const adds_up = [&](auto const& schedule) {
      auto const r = simulated(schedule, p);
      CHECK(near(r.per_step.compute + r.per_step.idle(), r.step_seconds));
      CHECK(r.per_step.unattributed <= 1e-9);
      CHECK(near(r.per_step.compute, p.compute));
    };
    adds_up(np::schedule::sequential{});
    adds_up(np::schedule::prefetch{});
    adds_up(np::test::plain_dual());
    adds_up(np::schedule::frozen_window{});
    adds_up(np::test::plain_nested());
    adds_up(np::schedule::nested{});
  }
}

TEST_CASE("what is exposed is what the closed forms say") {
  step_parts p;
  p.lookup = 0.3;
  p.exchange = 0.2;
  p.compute = 0.4;
  p.micro_batches = 4;
  auto const at = [](np::sim::prediction const& r, stage s) { return r.per_step.exposed[static_cast<std::size_t>(s)]; };
  auto const nested = simulated(np::test::plain_nested(), p);
  CHECK(at(nested, stage::exchange_rows) == doctest::Approx(0.025));
  CHECK(at(nested, stage::exchange_gradients) == doctest::Approx(0.025));
  CHECK(at(nested, stage::retrieve) == doctest::Approx(0));
  auto const frozen = simulated(np::test::plain_frozen(), p);
  CHECK(at(frozen, stage::retrieve) == doctest::Approx(0.09));
  CHECK(at(frozen, stage::read) == doctest::Approx(0.075));
}
