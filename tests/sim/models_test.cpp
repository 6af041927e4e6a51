// Links, the parametric model, fits, and the published system.
#include "sim/schedules.hpp"

#include <doctest/doctest.h>
#include <nestpipe/sim/industrial.hpp>
#include <nestpipe/sim/parametric.hpp>
#include <nestpipe/sim/profile.hpp>
#include <nestpipe/sim/simulate.hpp>

namespace {

namespace np = nestpipe;
namespace sim = np::sim;
using np::exec::stage;

static_assert(sim::cost_model<sim::step_parts> && sim::cost_model<sim::parametric> && sim::cost_model<sim::profile>);

template <class Schedule, class Cost>
double step(Schedule const& s, Cost const& c, std::size_t ranks = 1, double hand_over = 0) {
  sim::virtual_lanes<Cost> lanes{c, ranks, hand_over};
  return sim::simulate(s, lanes, {.batches = 40, .warm_up = 20, .micro_batches = c.micro_batches}).step_seconds;
}

// The run that a cost model would be measured with.
template <class Cost>
sim::measured_run measured(Cost c, std::uint32_t micro_batches, double hand_over = 0) {
  c.micro_batches = micro_batches;
  sim::virtual_lanes<Cost> lanes{c, 1, hand_over};
  auto const r = sim::simulate(np::schedule::sequential{}, lanes, {.batches = 12, .warm_up = 4, .micro_batches = micro_batches});
  return {r.per_step, 1, micro_batches, r.step_seconds};
}

sim::parametric machine() {
  sim::parametric p;
  p.workers = 16;
  p.micro_batches = 4;
  p.samples = 1000;
  p.keys = 10'000;
  p.row_bytes = 100;
  p.key_bytes = 8;
  p.network = {4, {1e-6, 1e9}, {1e-5, 1e8}};
  p.read_samples = 1e5;
  p.staged_bytes = 1e9;
  p.sample_bytes = 1000;
  p.retrieved_rows = 1e6;
  p.written_rows = 2e6;
  p.forward = p.input_backward = p.weight_backward = 2e-5;
  return p;
}

}  // namespace

TEST_CASE("an all-to-all sends to neighbours and to other nodes at once, and keeps its own share") {
  sim::hierarchy const h{4, {1e-6, 1e9}, {1e-5, 1e8}};
  CHECK(h.all_to_all(1e6, 1) == 0);
  CHECK(h.all_to_all(1e6, 4) == doctest::Approx(3e-6 + 0.75e6 / 1e9));
  CHECK(h.all_to_all(1e6, 16) == doctest::Approx(12e-5 + 0.75e6 / 1e8));
  CHECK(sim::hierarchy{}.all_to_all(1e6, 16) == 0);  // no latency, endless bandwidth
  CHECK(h.all_reduce(1e6, 1) == 0);
  CHECK(h.all_reduce(1e6, 4) == doctest::Approx(4e-6 + 1.5e6 / 1e9));
  CHECK(h.all_reduce(1e6, 16) == doctest::Approx(8e-5 + 1.875e6 / 1e8));
  CHECK(h.all_reduce(1e6, 9) == doctest::Approx(8e-5 + 2e6 * 8 / 9 / 1e8));
}

TEST_CASE("parametric: every stage is size over rate") {
  auto const p = machine();
  CHECK(p({stage::read}, 0) == doctest::Approx(0.01));
  CHECK(p({stage::stage}, 0) == doctest::Approx(1e-3));
  CHECK(p({stage::retrieve}, 0) == doctest::Approx(0.01));
  CHECK(p({stage::write_back}, 0) == doctest::Approx(0.005));
  CHECK(p({stage::route}, 0) == doctest::Approx(12e-5 + 0.75 * 8e4 / 1e8));
  CHECK(p({stage::exchange_rows}, 0) == doctest::Approx(12e-5 + 0.75 * 2500 * 100 / 1e8));
  CHECK(p({stage::forward_backward}, 0) == doctest::Approx(0.01));
  CHECK(p({stage::weight_gradients}, 0) == doctest::Approx(0.005));
  CHECK(p({stage::update_dense}, 0) == 0);
  // Portions carry the rows they name, each with messages of its own.
  CHECK(p({stage::exchange_rows, 0, 0, np::exec::portion::early}, 0) + p({stage::exchange_rows, 0, 0, np::exec::portion::late}, 0) ==
        doctest::Approx(12e-5 + p({stage::exchange_rows}, 0)));
}

TEST_CASE("parametric: repeated keys make the exchange grow with micro-batches") {
  auto p = machine();
  p.growth = 0.25;
  for (std::uint32_t const n : {1U, 4U, 16U}) {
    p.micro_batches = n;
    CHECK(p.micro_keys() * n == doctest::Approx(10'000 * std::pow(n, 0.25)));
  }
}

TEST_CASE("parametric: uneven ranks are slower than even ones, by more the more there are") {
  auto p = machine();
  double const even = step(np::schedule::nested{}, p, 8);
  p.uneven = {.per_op = 0.2};
  double const few = step(np::schedule::nested{}, p, 8);
  double const many = step(np::schedule::nested{}, p, 256);
  CHECK(few > even);
  CHECK(many > few);
}

TEST_CASE("a profile of one sequential run predicts the model it was taken from") {
  sim::step_parts const p{.lookup = 0.3, .exchange = 0.12, .compute = 0.2, .update = 0.02, .refresh = 0, .reduce = 0.001};
  auto const f = sim::fit(measured(p, 8));
  auto truth = p;
  truth.micro_batches = 8;
  CHECK(step(np::schedule::nested{}, f) == doctest::Approx(step(np::schedule::nested{}, truth)));
  CHECK(step(np::schedule::frozen_window{}, f) == doctest::Approx(step(np::schedule::frozen_window{}, truth)));
  CHECK(step(np::schedule::dual_buffer<>{}, f) == doctest::Approx(step(np::schedule::dual_buffer<>{}, truth)));
}

TEST_CASE("two sequential runs give latency and bandwidth, and with them other numbers of micro-batches") {
  auto p = machine();
  auto const f = sim::fit(measured(p, 2), measured(p, 16));
  auto const rows = static_cast<std::size_t>(stage::exchange_rows);
  CHECK(f.fixed[rows] == doctest::Approx(12e-5));
  CHECK(f.whole[rows] == doctest::Approx(0.75 * 1e6 / 1e8));
  CHECK(f.fixed[static_cast<std::size_t>(stage::forward_backward)] == doctest::Approx(0).epsilon(1e-9));
  for (std::uint32_t const n : {1U, 4U, 8U, 32U}) {
    auto g = f;
    g.micro_batches = n;
    p.micro_batches = n;
    CHECK(step(np::schedule::nested{}, g) == doctest::Approx(step(np::schedule::nested{}, p)));
    CHECK(step(np::schedule::sequential{}, g) == doctest::Approx(step(np::schedule::sequential{}, p)));
  }
}

TEST_CASE("the time between ops of a real machine is found and used") {
  sim::step_parts const p{.lookup = 0.3, .exchange = 0.12, .compute = 0.2};
  auto slow_reduce = p;
  slow_reduce.reduce = 0.1;  // longer than the last gradients
  for (auto const& q : {p, slow_reduce}) CHECK(sim::fit(measured(q, 4, 1e-3)).hand_over == doctest::Approx(1e-3).epsilon(0.1));
  auto const f = sim::fit(measured(p, 4, 1e-3), measured(p, 8, 1e-3));
  CHECK(f.hand_over == doctest::Approx(1e-3));
  auto truth = p;
  truth.micro_batches = 16;
  auto g = f;
  g.micro_batches = 16;
  CHECK(step(np::schedule::frozen_window{}, g, 1, g.hand_over) == doctest::Approx(step(np::schedule::frozen_window{}, truth, 1, 1e-3)));
}

TEST_CASE("one link: the profile of a run on it predicts other schedules on it") {
  sim::step_parts p{.lookup = 0.3, .exchange = 0.24, .compute = 0.2, .micro_batches = 4, .reduce = 0.05};
  auto const on_one_link = [](auto const& schedule, auto const& c) {
    sim::virtual_lanes<std::remove_cvref_t<decltype(c)>> lanes{c};
    lanes.share_link(true);
    return sim::simulate(schedule, lanes, {.batches = 40, .warm_up = 20, .micro_batches = c.micro_batches});
  };
  auto const r = on_one_link(np::schedule::sequential{}, p);
  sim::measured_run const run{r.per_step, 1, 4, r.step_seconds, true};
  auto const f = sim::fit(run);
  CHECK(f.hand_over == doctest::Approx(0).epsilon(1e-9));
  CHECK(f.sum(stage::reduce_dense) == doctest::Approx(0.05));
  CHECK(on_one_link(np::schedule::nested{}, f).step_seconds == doctest::Approx(on_one_link(np::schedule::nested{}, p).step_seconds));
}

TEST_CASE("fits refuse what says nothing") {
  sim::step_parts const p{.lookup = 0.3, .exchange = 0.12, .compute = 0.2};
  CHECK_THROWS_AS(sim::fit(sim::measured_run{}), np::config_error);
  CHECK_THROWS_AS(sim::fit(measured(p, 8), measured(p, 8)), np::config_error);
  CHECK_THROWS_AS(sim::with_workers(sim::fit(measured(p, 8)), 1, 4), np::config_error);
  CHECK_THROWS_AS(sim::fit_power(1, 1, 1, 2), np::config_error);
  // Noise that makes more micro-batches cheaper gives no negative cost.
  auto cheap = measured(p, 8);
  for (double& x : cheap.times.total) x *= 0.5;
  auto const f = sim::fit(measured(p, 4), cheap);
  for (double const x : f.fixed) CHECK(x == 0);
  for (double const x : f.whole) CHECK(x >= 0);
}

TEST_CASE("more workers: an exchange's latency grows with peers, its bytes with what leaves") {
  auto p = machine();
  p.network.workers_per_node = 1;
  p.workers = 2;
  auto const f = sim::fit(measured(p, 2), measured(p, 16));
  for (std::size_t const w : {2U, 4U, 64U}) {
    p.workers = w;
    auto const g = sim::with_workers(f, 2, w);
    CHECK(g({stage::exchange_rows}, 0) == doctest::Approx([&] {
      p.micro_batches = g.micro_batches;
      return p({stage::exchange_rows}, 0);
    }()));
  }
}

TEST_CASE("published system: within 3 % of its step times and one point of its scaling efficiencies, without having been given them") {
  namespace ind = sim::industrial;
  CHECK(ind::compute == doctest::Approx(1.71499));
  // The laws pass through the two points they are fitted to.
  for (auto const l : {ind::law::power, ind::law::line}) {
    CHECK(ind::at(128, 8, l).lookup == doctest::Approx(ind::lookup_small));
    CHECK(ind::at(1536, 8, l).exchange == doctest::Approx(ind::exchange_large));
  }
  auto const check = [](ind::published const& p, auto const& schedule) {
    double const at_small = step(schedule, ind::at(128));
    double const at_large = step(schedule, ind::at(1536));
    CAPTURE(p.schedule);
    CHECK(at_large == doctest::Approx(p.step_large).epsilon(0.03));
    if (p.step_small > 0) CHECK(at_small == doctest::Approx(p.step_small).epsilon(0.03));
    if (p.efficiency > 0) CHECK(std::abs(at_small / at_large - p.efficiency) < 0.01);
  };
  check(ind::table[0], np::schedule::sequential{});
  check(ind::table[1], np::test::plain_dual());
  check(ind::table[2], np::test::plain_frozen());
  check(ind::table[3], np::test::plain_nested());
}

TEST_CASE("published system: the assumed split of lookup does not move what is compared") {
  namespace ind = sim::industrial;
  auto const step_with = [](std::array<double, 5> const& shares) {
    auto p = ind::at(1536);
    p.lookup_shares = shares;
    return step(np::test::plain_nested(), p);
  };
  double const usual = step_with({0.25, 0.10, 0.15, 0.30, 0.20});
  CHECK(step_with({0.2, 0.2, 0.2, 0.2, 0.2}) == doctest::Approx(usual));
  CHECK(step_with({0.5, 0.05, 0.05, 0.2, 0.2}) == doctest::Approx(usual));
  CHECK(step_with({0.1, 0.05, 0.05, 0.4, 0.4}) > usual * 1.1);  // a lane longer than the step is another matter
}

TEST_CASE("published system: what goes beyond it takes most of the rest, where compute is what a step takes") {
  namespace ind = sim::industrial;
  auto const p = ind::at(1536);
  double const plain = step(np::test::plain_nested(), p);
  double const full = step(np::schedule::nested{}, p);
  CHECK(full < plain - 0.5 * p.exchange / p.micro_batches);
  CHECK(full >= p.lower_bound());
}
