// Frozen windows, plain: with early rows and split backward off, only the first row exchange and the last gradient exchange of
// a batch run while no compute of that batch does, and a batch makes 2 N all-to-alls (SYSTEMS.md 1.7, invariant 6). On a
// virtual clock exactly; on threads, with stages that sleep, for most batches (other programs use the cores too).
#include <doctest/doctest.h>

#include <nestpipe/comm/threads.hpp>
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/logistic.hpp>
#include <nestpipe/optimizer/adagrad.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/schedule/nested.hpp>
#include <nestpipe/sim/simulate.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/trainer.hpp>

#include <support/click_stream.hpp>
#include <support/hooked_lanes.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <thread>

namespace np = nestpipe;
namespace exec = np::exec;
using exec::stage;
using np::trace::interval;

namespace {

np::schedule::nested plain_nested() {
  np::schedule::nested n;
  n.early = n.shared_first = false;
  n.inner.split_backward = false;
  return n;
}

// What a batch's exchanges did while compute was idle.
struct batch_view {
  std::size_t exchanges = 0;
  std::set<std::string> outside;  // exchanges that do not run beside compute ops of their batch, but for `slack` of their time
};

std::map<std::uint64_t, batch_view> views(std::vector<interval> const& all, double slack) {
  std::map<std::uint64_t, batch_view> by_batch;
  std::map<std::uint64_t, std::vector<interval const*>> compute;
  for (auto const& i : all) {
    if (i.what.what == stage::forward_backward || i.what.what == stage::weight_gradients) compute[i.what.batch].push_back(&i);
  }
  for (auto const& i : all) {
    bool const rows = i.what.what == stage::exchange_rows;
    if (!rows && i.what.what != stage::exchange_gradients) continue;
    auto& view = by_batch[i.what.batch];
    ++view.exchanges;
    double covered = 0;
    for (auto const* c : compute[i.what.batch]) covered += std::max(0.0, std::min(c->end, i.end) - std::max(c->begin, i.begin));
    if (i.end - i.begin - covered > slack * (i.end - i.begin)) view.outside.insert((rows ? "E" : "G") + std::to_string(i.what.part));
  }
  return by_batch;
}

// Two micro-batches' worth of exchange fit into one of compute: C >= E + G.
constexpr double exchange_seconds = 1.5e-3;
constexpr double forward_seconds = 3e-3;
constexpr double weight_seconds = 1.5e-3;

struct cost {
  double operator()(exec::op const& o, std::size_t) const {
    switch (o.what) {
      case stage::exchange_rows:
      case stage::exchange_gradients: return exchange_seconds;
      case stage::forward_backward: return forward_seconds;
      case stage::weight_gradients: return weight_seconds;
      default: return 1e-4;
    }
  }
};

std::set<std::string> ends_of(std::size_t n) { return {"E0", "G" + std::to_string(n - 1)}; }

// Runs `schedule` with `n` micro-batches on virtual lanes, and gives what was recorded.
template <class Schedule>
std::vector<interval> virtual_run(Schedule const& schedule, std::uint32_t n) {
  np::sim::virtual_lanes<cost> lanes{cost{}};
  np::sim::simulate(schedule, lanes, {.batches = 20, .warm_up = 5, .micro_batches = n});
  return lanes.recorder().intervals();
}

// As above on thread lanes of two ranks whose stages sleep as long as the cost model says. Rank 0's intervals.
template <class Schedule>
std::vector<interval> real_run(Schedule const& schedule, std::size_t n, std::size_t batches) {
  std::vector<interval> recorded;
  np::comm::threads::run(2, [&](np::comm::threads& comm) {
    using trainer_type = np::trainer<np::model::logistic<float, np::math::plain>, np::storage::hashed<>, np::comm::threads, Schedule, np::optimizer::adagrad, np::optimizer::adam,
                                     np::test::hooked<exec::thread_lanes>>;
    np::trainer_config c;
    c.batch_size = 32;
    c.micro_batches = n;
    trainer_type trainer{c, comm, {.schedule = schedule}};
    trainer.executor().hook = [](exec::op const& o) { std::this_thread::sleep_for(std::chrono::duration<double>(cost{}(o, 0))); };
    np::test::stream_options o;
    o.rows = 32 * batches;
    o.malformed_in = 0;
    trainer.fit(np::test::click_stream{o});
    if (comm.rank() == 0) recorded = trainer.executor().recorder().intervals();
  });
  return recorded;
}

}  // namespace

TEST_CASE("a virtual clock: only E1 and GN lie outside compute, 2 N all-to-alls a batch") {
  for (std::uint32_t const n : {1U, 2U, 3U, 4U, 8U, 16U}) {
    CAPTURE(n);
    np::schedule::frozen_window frozen;
    frozen.split_backward = false;
    for (auto const& recorded : {virtual_run(frozen, n), virtual_run(plain_nested(), n)}) {
      auto const all = views(recorded, 1e-9);
      CHECK(all.size() == 20);
      for (auto const& [batch, view] : all) {
        CHECK(view.exchanges == 2 * n);
        CHECK(view.outside == ends_of(n));
      }
    }
  }
}

TEST_CASE("the check sees what the rule forbids: without frozen windows every exchange lies outside") {
  auto const all = views(virtual_run(np::schedule::sequential{}, 4), 1e-9);
  for (auto const& [batch, view] : all) CHECK(view.outside.size() == 8);
}

TEST_CASE("the parts beyond the published system take E1 and GN in as well") {
  // Early rows are one more exchange; the last gradients travel beside weight gradients.
  auto const all = views(virtual_run(np::schedule::nested{}, 8), 1e-9);
  for (auto const& [batch, view] : all) {
    CHECK(view.exchanges == (batch == 0 ? 16 : 17));
    CHECK_FALSE(view.outside.contains("G7"));
  }
}

TEST_CASE("threads: counts always, places for most batches") {
  constexpr std::size_t n = 4, batches = 24;
  np::schedule::frozen_window frozen;
  frozen.split_backward = false;
  for (auto const& recorded : {real_run(frozen, n, batches), real_run(plain_nested(), n, batches)}) {
    auto const all = views(recorded, 0.5);
    CHECK(all.size() == batches);
    std::size_t as_expected = 0;
    for (auto const& [batch, view] : all) {
      CHECK(view.exchanges == 2 * n);
      as_expected += view.outside == ends_of(n) ? 1 : 0;
    }
    CHECK(as_expected * 2 > batches);
  }
}
