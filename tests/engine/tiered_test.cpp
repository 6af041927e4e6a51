// Rows that move between two tiers give the bits of rows that stay: every exact schedule, ranks, lanes, sizes of the fast tier.
#include <doctest/doctest.h>

#include <nestpipe/comm/threads.hpp>
#include <nestpipe/exec/any_of.hpp>
#include <nestpipe/exec/inline_lanes.hpp>
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/fm.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/optimizer/rowwise_adagrad.hpp>
#include <nestpipe/schedule/any_of.hpp>
#include <nestpipe/schedule/nested.hpp>
#include <nestpipe/schedule/prefetch.hpp>
#include <nestpipe/schedule/sequential.hpp>
#include <nestpipe/storage/any_of.hpp>
#include <nestpipe/storage/audited.hpp>
#include <nestpipe/storage/dense.hpp>
#include <nestpipe/storage/eviction/lru.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/storage/tiered.hpp>
#include <nestpipe/trainer.hpp>

#include <support/click_stream.hpp>
#include <support/hooked_lanes.hpp>

#include <mutex>
#include <string>
#include <vector>

namespace np = nestpipe;
namespace st = np::storage;

namespace {

// What a fast tier that forgot to mark rows as changed would leave below: rows are created there, and never written again.
class write_once : public st::hashed<> {
 public:
  void write(std::span<np::key_type const> keys, std::span<st::row_handle const>, float const* rows) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      st::row_handle handle = st::no_row;
      std::vector<float> old(row_floats_);
      read(keys.subspan(i, 1), std::span{&handle, 1}, old.data());
      if (handle == st::no_row) st::hashed<>::write(keys.subspan(i, 1), std::span<st::row_handle const>{&handle, 1}, rows + i * row_floats_);
    }
  }
  void open(st::storage_spec const& spec) {
    row_floats_ = spec.row_floats;
    st::hashed<>::open(spec);
  }

 private:
  std::size_t row_floats_ = 0;
};

using with_due = st::tiered<st::fast_memory, st::hashed<>>;
using with_lru = st::tiered<st::fast_memory, st::dense, st::eviction::lru>;
using broken = st::tiered<st::fast_memory, write_once>;
using stores = st::any_of<st::hashed<>, st::dense, with_due, with_lru, broken>;
using schedules = np::schedule::any_of<np::schedule::sequential, np::schedule::prefetch, np::schedule::dual_buffer<>, np::schedule::frozen_window, np::schedule::nested>;
using inline_lanes = np::test::hooked<np::exec::inline_lanes>;
using thread_lanes = np::test::hooked<np::exec::thread_lanes>;
using executors = np::exec::any_of<inline_lanes, thread_lanes>;
using trainer_type = np::trainer<np::model::fm<float, np::math::plain>, st::audited<stores>, np::comm::threads, schedules, np::optimizer::rowwise_adagrad,
                                 np::optimizer::adam, executors>;

template <class S>
S deep(std::uint64_t routes) {
  S s{};
  s.routes = routes;
  return s;
}

std::vector<std::pair<std::string, schedules>> const all_schedules{
    {"sequential", np::schedule::sequential{}},
    {"prefetch", np::schedule::prefetch{}},
    {"prefetch, routes 3", deep<np::schedule::prefetch>(3)},
    {"dual_buffer", np::schedule::dual_buffer<>{}},
    {"frozen_window", np::schedule::frozen_window{}},
    {"nested", np::schedule::nested{}},
    {"nested, routes 4", deep<np::schedule::nested>(4)},
};

struct outcome {
  std::string digest;
  double loss = 0, logloss = 0;
  std::uint64_t rows = 0;
  st::tier_counters tiers;         ///< over all tables and ranks
  st::audit_counters audit;
};
bool same(outcome const& a, outcome const& b) { return a.digest == b.digest && a.loss == b.loss && a.logloss == b.logloss && a.rows == b.rows; }

outcome train(stores const& store, schedules const& schedule, std::size_t ranks = 1, bool threads = false, std::uint32_t in_flight = 8, std::size_t helpers = 1) {
  np::test::stream_options o;
  o.rows = 50 * 7 + 23;
  o.features = 3;
  o.key_range = 1500;
  o.malformed = [](std::uint64_t row) { return row / 50 == 3; };
  o.max_bag = 4;
  np::test::click_stream const stream{o};
  outcome all;
  std::mutex mutex;
  np::comm::threads::run(ranks, [&](np::comm::threads& comm) {
    np::trainer_config c;
    c.batch_size = 50;
    c.micro_batches = 4 / ranks;
    c.epochs = 2;
    c.seed = 9;
    c.dim = 5;
    c.cardinality = o.key_range;
    c.batches_in_flight = in_flight;
    c.threads = helpers;
    trainer_type::policies p;
    p.storage = st::audited<stores>{store};
    p.schedule = schedule;
    p.row_optimizer.rate = 0.05;
    p.dense_optimizer.rate = 0.01;
    trainer_type trainer{c, comm, p};
    if (threads) {
      trainer.executor().template choose<thread_lanes>().hook = np::test::random_delays(np::mix64(ranks, comm.rank()), 8);
    } else {
      trainer.executor().template choose<inline_lanes>();
    }
    auto const fitted = trainer.fit(stream);
    auto const digest = trainer.parameters_digest();
    auto const metrics = trainer.evaluate(stream);  // reads rows of both tiers, moves none
    CHECK(trainer.parameters_digest() == digest);
    std::lock_guard const lock{mutex};
    if (comm.rank() == 0) {
      all.digest = digest.text();
      all.loss = fitted.loss;
      all.logloss = metrics.log_loss;
    }
    auto const audit = trainer.engine().audit_results();
    all.audit.stale_reads += audit.stale_reads;
    all.audit.use_after_evict += audit.use_after_evict;
    all.audit.lost_updates += audit.lost_updates;
    all.rows += trainer.engine().rows().rows();
    for (std::size_t t = 0; t < trainer.engine().rows().tables(); ++t) {
      trainer.engine().rows().store(t).inner().visit([&](auto const& s) {
        if constexpr (requires { s.tiers(); }) all.tiers += s.tiers();
      });
    }
  });
  return all;
}

// Rows of a fast tier that holds a share of one table's rows on one rank.
st::tier_options share_of(outcome const& truth, double share, std::size_t ranks) {
  return {.rows = std::max<std::uint64_t>(1, static_cast<std::uint64_t>(share * static_cast<double>(truth.rows) / 3 / static_cast<double>(ranks)))};
}

}  // namespace

TEST_CASE("tiers of one, ten and a hundred per cent give the bits of rows in memory") {
  outcome const truth = train(st::hashed<>{}, np::schedule::sequential{});
  REQUIRE(truth.rows > 1000);
  CHECK(same(train(st::dense{}, np::schedule::sequential{}), truth));
  std::size_t turn = 0;
  for (auto const& [name, schedule] : all_schedules) {
    for (std::size_t const ranks : {1U, 2U, 4U}) {
      for (bool const threads : {false, true}) {
        for (double const share : {0.01, 0.1, 1.0}) {
          bool const due = ++turn % 3 != 0;
          CAPTURE(name);
          CAPTURE(ranks);
          CAPTURE(threads);
          CAPTURE(share);
          CAPTURE(due);
          auto const options = share_of(truth, share, ranks);
          outcome const got = due ? train(with_due{options}, schedule, ranks, threads) : train(with_lru{options}, schedule, ranks, threads);
          CHECK(same(got, truth));
          CHECK(got.audit.stale_reads == 0);
          CHECK(got.audit.lost_updates == 0);
          CHECK(got.audit.use_after_evict == 0);
          CHECK(got.tiers.hits + got.tiers.misses > 0);
          if (share < 1) CHECK(got.tiers.evicted > 500);
          if (share < 1) CHECK(got.tiers.rows_down > 500);
        }
      }
    }
  }
}

TEST_CASE("a tier that lets changed rows go unwritten is found out") {
  outcome const truth = train(st::hashed<>{}, np::schedule::sequential{});
  outcome const got = train(broken{share_of(truth, 0.1, 1)}, np::schedule::sequential{});
  CHECK(got.digest != truth.digest);
  CHECK(got.audit.stale_reads > 0);
  CHECK(same(train(broken{st::tier_options{.rows = 10000}}, np::schedule::sequential{}), truth));  // nothing leaves: nothing is lost
}

TEST_CASE("tables of one rank share a budget, also when several threads work on them") {
  outcome const truth = train(st::hashed<>{}, np::schedule::sequential{});
  for (std::size_t const helpers : {1U, 3U}) {
    outcome const got = train(with_due{st::tier_options{.shared = std::make_shared<st::memory_budget>(40000)}}, deep<np::schedule::nested>(2), 1, true, 8, helpers);
    CHECK(same(got, truth));
    CHECK(got.tiers.evicted > 0);
  }
}

TEST_CASE("knowing more batches raises the hit rate, and depth beyond the batches in flight is cut") {
  outcome const truth = train(st::hashed<>{}, np::schedule::sequential{});
  auto const options = share_of(truth, 0.25, 1);
  auto const rate = [&](schedules const& schedule, std::uint32_t in_flight) {
    outcome const got = train(with_due{options}, schedule, 1, false, in_flight);
    CHECK(same(got, truth));
    return got.tiers.hit_rate();
  };
  double const none = rate(np::schedule::sequential{}, 6);
  double const some = rate(deep<np::schedule::prefetch>(4), 8);
  double const more = rate(deep<np::schedule::prefetch>(8), 16);
  MESSAGE("hit rates with 0, 3 and 7 known batches: " << none << ", " << some << ", " << more);
  CHECK(some > none + 0.01);
  CHECK(more > some);
  CHECK(rate(deep<np::schedule::prefetch>(100), 6) > none);
  CHECK(rate(deep<np::schedule::nested>(100), 4) > 0);
}
