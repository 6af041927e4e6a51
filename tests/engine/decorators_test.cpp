// Stores with decorators that change what is computed: one digest for every number of ranks, schedule and executor.
#include <doctest/doctest.h>

#include <nestpipe/comm/threads.hpp>
#include <nestpipe/exec/any_of.hpp>
#include <nestpipe/exec/inline_lanes.hpp>
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/fm.hpp>
#include <nestpipe/optimizer/adagrad.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/schedule/any_of.hpp>
#include <nestpipe/schedule/nested.hpp>
#include <nestpipe/schedule/prefetch.hpp>
#include <nestpipe/schedule/sequential.hpp>
#include <nestpipe/storage/any_of.hpp>
#include <nestpipe/storage/dense.hpp>
#include <nestpipe/storage/encoded.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/trainer.hpp>

#include <support/click_stream.hpp>
#include <support/hooked_lanes.hpp>

#include <string>
#include <vector>

namespace np = nestpipe;
namespace st = np::storage;
using np::math::plain;

namespace {

/// Hides what a store offers beside the concept: the rule that rows are rounded at their update is gone.
template <class S>
class plain_store {
 public:
  plain_store() = default;
  explicit plain_store(S hidden) : hidden_{std::move(hidden)} {}
  void open(st::storage_spec const& spec) { hidden_.open(spec); }
  void read(std::span<np::key_type const> k, std::span<st::row_handle> h, float* rows) { hidden_.read(k, h, rows); }
  void write(std::span<np::key_type const> k, std::span<st::row_handle const> h, float const* rows) { hidden_.write(k, h, rows); }
  std::uint64_t epoch() const { return hidden_.epoch(); }
  void pin(std::span<np::key_type const> k) { hidden_.pin(k); }
  void release(std::span<np::key_type const> k) { hidden_.release(k); }
  void erase(std::span<np::key_type const> k) { hidden_.erase(k); }
  std::uint64_t size() const { return hidden_.size(); }
  template <class F>
  void scan(st::scan_cursor& at, F&& f) const {
    hidden_.scan(at, f);
  }
  bool passed(st::scan_cursor const& at, np::key_type key) const { return hidden_.passed(at, key); }
  st::storage_counters counters() const { return hidden_.counters(); }

 private:
  S hidden_{};
};

using narrow = st::encoded<st::any_of<st::hashed<>, st::dense>, st::codec::any>;
using stores = st::any_of<narrow, plain_store<narrow>>;
using schedules = np::schedule::any_of<np::schedule::sequential, np::schedule::prefetch, np::schedule::dual_buffer<>, np::schedule::frozen_window, np::schedule::nested>;
using inline_lanes = np::test::hooked<np::exec::inline_lanes>;
using thread_lanes = np::test::hooked<np::exec::thread_lanes>;
using trainer_type = np::trainer<np::model::fm<float, plain>, stores, np::comm::threads, schedules, np::optimizer::adagrad, np::optimizer::adam, np::exec::any_of<inline_lanes, thread_lanes>>;
using kind = st::codec::any::kind;

std::vector<std::pair<std::string, schedules>> const all_schedules{
    {"sequential", np::schedule::sequential{}}, {"prefetch", np::schedule::prefetch{}}, {"dual_buffer", np::schedule::dual_buffer<>{}},
    {"frozen_window", np::schedule::frozen_window{}}, {"nested", np::schedule::nested{}},
};

np::test::click_stream stream() {
  np::test::stream_options o;
  o.rows = 50 * 8 + 23;
  return np::test::click_stream{o};
}

np::trainer_config config_for(std::size_t ranks) {
  np::trainer_config c;
  c.batch_size = 50;
  c.micro_batches = 8 / ranks;
  c.epochs = 2;
  c.seed = 9;
  c.dim = 8;
  c.cardinality = 150;
  c.shards = 29;
  return c;
}

struct run_options {
  std::size_t schedule = 0, ranks = 1;
  bool threads = false;
  std::uint64_t delays = 0;  ///< seed; 0: none
};

std::string digest_of(stores const& store, run_options const& r, np::trainer_config const* config = nullptr) {
  std::string digest;
  np::comm::threads::run(r.ranks, [&](np::comm::threads& comm) {
    trainer_type::policies p;
    p.storage = store;
    p.schedule = all_schedules[r.schedule].second;
    p.row_optimizer.rate = 0.05;
    p.dense_optimizer.rate = 0.01;
    trainer_type t{config != nullptr ? *config : config_for(r.ranks), comm, p};
    auto const hook = r.delays == 0 ? std::function<void(np::exec::op const&)>{} : np::test::random_delays(np::mix64(r.delays, comm.rank()), 8);
    if (r.threads) {
      t.executor().choose<thread_lanes>().hook = hook;
    } else {
      t.executor().choose<inline_lanes>().hook = hook;
    }
    t.fit(stream());
    auto const d = t.parameters_digest().text();
    if (comm.rank() == 0) digest = d;
  });
  return digest;
}

/// Ranks 1, 2 and 4, every exact schedule, both executors, delays at random: the digest of the plain loop.
std::string check_one_digest(stores const& store, stores const& elsewhere) {
  std::string const wanted = digest_of(store, {});
  std::uint64_t turn = 0;
  for (std::size_t s = 0; s < all_schedules.size(); ++s) {
    for (std::size_t const ranks : {1, 2, 4}) {
      CAPTURE(all_schedules[s].first);
      CAPTURE(ranks);
      bool const threads = ++turn % 2 == 1;
      CHECK(digest_of(turn % 3 == 0 ? elsewhere : store, {s, ranks, threads, turn}) == wanted);
    }
  }
  return wanted;
}

}  // namespace

TEST_CASE("rows kept in fewer bits: one digest a codec for every way to train") {
  std::vector<std::string> seen{digest_of(narrow{}, {})};
  for (kind const k : {kind::bfloat16, kind::float16, kind::int8}) {
    for (st::encoding const how : {st::encoding{st::rounding::stochastic, false}, st::encoding{st::rounding::nearest, true}}) {
      CAPTURE(st::codec::any{k}.name());
      seen.push_back(check_one_digest(narrow{{}, k, how}, narrow{st::dense{}, k, how}));
    }
  }
  std::sort(seen.begin(), seen.end());
  CHECK(std::unique(seen.begin(), seen.end()) == seen.end());  // every option changes what is computed
}

TEST_CASE("without rounding at the update, bits depend on the schedule") {
  narrow const exact, narrowed{{}, kind::bfloat16};
  CHECK(digest_of(plain_store<narrow>{exact}, {4, 2, true, 1}) == digest_of(exact, {}));
  CHECK(digest_of(plain_store<narrow>{narrowed}, {0, 1}) != digest_of(plain_store<narrow>{narrowed}, {4, 1}));
}
