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
#include <nestpipe/storage/admitting.hpp>
#include <nestpipe/storage/any_of.hpp>
#include <nestpipe/storage/audited.hpp>
#include <nestpipe/storage/dense.hpp>
#include <nestpipe/storage/encoded.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/trainer.hpp>

#include <support/click_stream.hpp>
#include <support/hooked_lanes.hpp>

#include <algorithm>
#include <map>
#include <mutex>
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
using picky = st::admitting<narrow>;
using stores = st::any_of<picky, narrow, plain_store<narrow>>;
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

struct found {
  std::uint64_t rows = 0;
  st::admission_counters admission{};
  bool operator==(found const& o) const {
    return rows == o.rows && admission.refused_occurrences == o.admission.refused_occurrences && admission.dropped_gradients == o.admission.dropped_gradients;
  }
};

std::string digest_of(stores const& store, run_options const& r, found* sums = nullptr) {
  std::string digest;
  std::mutex one;
  np::comm::threads::run(r.ranks, [&](np::comm::threads& comm) {
    trainer_type::policies p;
    p.storage = store;
    p.schedule = all_schedules[r.schedule].second;
    p.row_optimizer.rate = 0.05;
    p.dense_optimizer.rate = 0.01;
    trainer_type t{config_for(r.ranks), comm, p};
    auto const hook = r.delays == 0 ? std::function<void(np::exec::op const&)>{} : np::test::random_delays(np::mix64(r.delays, comm.rank()), 8);
    if (r.threads) {
      t.executor().choose<thread_lanes>().hook = hook;
    } else {
      t.executor().choose<inline_lanes>().hook = hook;
    }
    t.fit(stream());
    auto const d = t.parameters_digest().text();
    std::lock_guard const guard{one};
    if (comm.rank() == 0) digest = d;
    if (sums == nullptr) return;
    sums->rows += t.engine().rows().rows();
    sums->admission.refused_occurrences += t.engine().rows().admission_results().refused_occurrences;
    sums->admission.dropped_gradients += t.engine().rows().admission_results().dropped_gradients;
  });
  return digest;
}

/// Ranks 1, 2 and 4, every exact schedule, both executors, delays at random: the digest of the plain loop.
std::string check_one_digest(stores const& store, stores const& elsewhere) {
  found first;
  std::string const wanted = digest_of(store, {}, &first);
  std::uint64_t turn = 0;
  for (std::size_t s = 0; s < all_schedules.size(); ++s) {
    for (std::size_t const ranks : {1, 2, 4}) {
      CAPTURE(all_schedules[s].first);
      CAPTURE(ranks);
      bool const threads = ++turn % 2 == 1;
      found sums;
      CHECK(digest_of(turn % 3 == 0 ? elsewhere : store, {s, ranks, threads, turn}, &sums) == wanted);
      CHECK(sums == first);
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

TEST_CASE("keys that have not earned a row: one digest for every way to train, and every option changes it") {
  std::string const all = digest_of(narrow{}, {});
  CHECK(digest_of(picky{}, {}) == all);  // a rule that admits everybody
  std::vector<std::string> seen{all};
  for (st::admission_rule const rule : {st::admission_rule{4, 1.0}, st::admission_rule{1, 0.2}, st::admission_rule{3, 0.5}}) {
    CAPTURE(rule.name());
    seen.push_back(check_one_digest(picky{{}, rule}, picky{narrow{st::dense{}}, rule}));
  }
  seen.push_back(check_one_digest(picky{narrow{{}, kind::bfloat16}, {4, 1.0}}, picky{narrow{st::dense{}, kind::bfloat16}, {4, 1.0}}));
  seen.push_back(digest_of(picky{{}, {4, 1.0}, {2, 1}}, {}));  // so small a sketch that collisions let keys in early
  std::sort(seen.begin(), seen.end());
  CHECK(std::unique(seen.begin(), seen.end()) == seen.end());
}

TEST_CASE("with a wide sketch exactly the keys that occur often enough have rows, and what is refused is counted") {
  std::map<std::pair<std::uint32_t, np::key_type>, std::uint64_t> times;
  auto data = stream();
  np::test::click_stream::block block;
  data.frame(block, 100000);
  np::sample_block samples;
  data.parse(block, 0, block.size(), samples);
  for (std::uint32_t f = 0; f < samples.ids.features; ++f) {
    for (std::size_t p = samples.ids.offsets[f * samples.ids.samples]; p < samples.ids.offsets[(f + 1) * samples.ids.samples]; ++p) times[{f, samples.ids.values[p]}] += 2;  // epochs
  }
  std::uint64_t often = 0, refused_at_least = 0;
  for (auto const& [key, n] : times) {
    often += n >= 12 ? 1 : 0;
    refused_at_least += n >= 12 ? 0 : n;
  }
  REQUIRE(often > 50);
  REQUIRE(often < times.size());
  found sums;
  digest_of(picky{{}, {12, 1.0}, {4096, 4}}, {}, &sums);
  CHECK(sums.rows == often);
  CHECK(sums.admission.refused_occurrences >= refused_at_least);
  CHECK(sums.admission.dropped_gradients > 0);
}
