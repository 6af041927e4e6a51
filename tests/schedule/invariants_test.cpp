// The promises of the schedules on key streams made to break them, over 200 steps with random delays: bits of the plain loop,
// and no stale read, use after evict or lost update. Then each rule is taken away, and the test must notice.
// Source of the list: NestPipe (arXiv 2604.06956), consistency propositions; see also schedule/dual_buffer.hpp.
#include <doctest/doctest.h>

#include <nestpipe/comm/threads.hpp>
#include <nestpipe/data/in_memory.hpp>
#include <nestpipe/math/default.hpp>
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/fm.hpp>
#include <nestpipe/optimizer/adagrad.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/optimizer/any_of.hpp>
#include <nestpipe/optimizer/rowwise_adagrad.hpp>
#include <nestpipe/schedule/any_of.hpp>
#include <nestpipe/schedule/nested.hpp>
#include <nestpipe/schedule/prefetch.hpp>
#include <nestpipe/schedule/sequential.hpp>
#include <nestpipe/storage/audited.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/trainer.hpp>

#include <support/hooked_lanes.hpp>

#include <chrono>
#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

namespace np = nestpipe;
using np::exec::stage;

namespace {

constexpr std::size_t batch_rows = 20;  // 8 micro-batches do not divide it
constexpr std::size_t steps = 204;

/// Wraps every op: `around(op, run)` decides what happens in its place.
template <class Inner>
class tampered {
 public:
  std::function<void(np::exec::op const&, std::function<void()> const&)> around{};

  void start(np::exec::work w) {
    work_ = w;
    inner_.start(np::exec::work::of(*this));
  }
  np::exec::event issue(np::exec::op const& o, std::span<np::exec::event const> after) { return inner_.issue(o, after); }
  void wait(np::exec::event e) { inner_.wait(e); }
  void drain() { inner_.drain(); }
  void stop() noexcept { inner_.stop(); }
  void execute(np::exec::op const& o) {
    if (around) {
      around(o, [&] { work_.execute(o); });
    } else {
      work_.execute(o);
    }
  }
  void failed(std::exception_ptr e) noexcept { work_.failed(std::move(e)); }

 private:
  np::exec::work work_;
  Inner inner_;
};

/// dual_buffer without the fence: t + 1 is retrieved before t - 1 has been written back, into another window than it should be
/// if there were three. With two windows the rows of t - 1 are overwritten before they are stored.
struct without_fence {
  using consistency = np::schedule::exact;  // a lie
  constexpr std::uint32_t windows() const { return 2; }

  template <class Pipeline>
  void run(Pipeline& p) const {
    std::uint64_t t = p.first_batch();
    auto const route = [&](std::uint64_t b) { p.issue({stage::route, b}, p.issue({stage::stage, b}, p.issue({stage::read, b}))); };
    route(t);
    auto info = p.agreed(t);
    np::exec::event ready = p.issue({stage::retrieve, t});
    std::vector<std::uint64_t> unwritten;
    for (;; ++t) {
      auto const done = np::schedule::plain_micro_batches{}.micro_batches(p, t, ready, np::exec::portion::all);
      np::exec::event const dense = np::schedule::finish_reduction(p, t, done.weights);
      np::exec::event next_rows{};
      auto next = info;
      if (!info.boundary) {
        route(t + 1);
        next = p.agreed(t + 1);
        next_rows = p.issue({stage::retrieve, t + 1}, dense);  // before write_back(t - 1) is even issued
      }
      np::exec::event const updated = p.issue({stage::update_rows, t}, done.gradients);
      if (!info.boundary) ready = p.issue({stage::refresh, t + 1}, updated, next_rows);
      p.issue({stage::update_dense, t}, dense);
      if (!unwritten.empty()) {
        p.issue({stage::write_back, unwritten.back()}, ready);
        unwritten.pop_back();
      }
      unwritten.push_back(t);
      if (info.boundary) break;
      info = next;
    }
    p.issue({stage::write_back, t});
    p.drain();
  }
};

using schedules = np::schedule::any_of<np::schedule::sequential, np::schedule::prefetch, np::schedule::dual_buffer<>, np::schedule::frozen_window, np::schedule::nested, without_fence>;
using optimizers = np::optimizer::any_of<np::optimizer::adagrad, np::optimizer::rowwise_adagrad, np::optimizer::adam>;
using lanes = tampered<np::exec::thread_lanes>;
using trainer_type = np::trainer<np::model::fm<float, np::math::plain>, np::storage::audited<np::storage::hashed<>>, np::comm::threads, schedules, optimizers, np::optimizer::adam, lanes>;

struct key_stream {
  std::string name;
  std::function<np::key_type(std::uint64_t batch, std::uint64_t sample, std::uint64_t feature)> key;
};

std::vector<key_stream> const streams{
    {"full overlap", [](auto, auto i, auto f) { return i % 7 + 100 * f; }},
    {"no overlap", [](auto t, auto i, auto f) { return t * 1000 + i + (f << 40); }},
    {"every other batch", [](auto t, auto i, auto f) { return (t % 2) * 1000 + i % 9 + 100 * f; }},
    {"every third batch", [](auto t, auto i, auto f) { return (t % 3) * 1000 + i % 9 + 100 * f; }},
    {"a single key", [](auto, auto, auto) { return ~np::key_type{0}; }},
    {"some of all", [](auto t, auto i, auto f) { return np::mix64(np::mix64(t / 2, i), f) % (t % 5 == 0 ? 3 : 60); }},
};

np::data::in_memory dataset(key_stream const& s) {
  std::size_t const n = batch_rows * steps - 3;  // a short last batch
  np::data::sample_columns c;
  c.schema.features = {"a", "b"};
  c.schema.dense = 1;
  c.ids.features = 2;
  c.ids.samples = n;
  for (std::size_t f = 0; f < 2; ++f) {
    for (std::size_t i = 0; i < n; ++i) {
      c.ids.values.push_back(s.key(i / batch_rows, i % batch_rows, f));
      c.ids.offsets.push_back(static_cast<std::uint32_t>(c.ids.values.size()));
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    c.dense.push_back(static_cast<float>(i % 5) * 0.1f);
    c.labels.push_back(np::mix64(i) % 3 == 0 ? 1.0f : 0.0f);
  }
  return np::data::in_memory{std::move(c)};
}

struct outcome {
  std::string digest;
  np::storage::audit_counters violations{};
};

using tamper = std::function<void(trainer_type&, lanes&)>;

outcome run(key_stream const& keys, schedules const& schedule, optimizers const& optimizer, std::size_t ranks, bool delays, bool reuse = false, tamper const& change = {},
            std::uint64_t seed = 0) {
  np::data::in_memory const data = dataset(keys);
  outcome result;
  np::comm::threads::run(ranks, [&](np::comm::threads& comm) {
    np::trainer_config c;
    c.dim = 4;
    c.batch_size = batch_rows;
    c.micro_batches = 8 / ranks;
    c.reuse_rows = reuse;
    trainer_type trainer{c, comm, {.schedule = schedule, .row_optimizer = optimizer}};
    trainer.attach(data.schema());
    auto const sleep = np::test::random_delays(np::mix64(seed, comm.rank()), 24, std::chrono::microseconds{150});
    if (delays) trainer.executor().around = [sleep](np::exec::op const& o, std::function<void()> const& go) { sleep(o), go(); };
    if (change) change(trainer, trainer.executor());
    trainer.fit(data);
    std::string const digest = trainer.parameters_digest().text();
    np::storage::audit_counters const mine = trainer.engine().audit_results();
    std::vector<np::storage::audit_counters> all(comm.size());
    trainer.engine().control().all_gather(std::as_bytes(std::span{&mine, 1}), std::as_writable_bytes(std::span{all}), {"test", 0});
    if (comm.rank() != 0) return;
    result.digest = digest;
    for (auto const& a : all) {
      result.violations.stale_reads += a.stale_reads;
      result.violations.use_after_evict += a.use_after_evict;
      result.violations.lost_updates += a.lost_updates;
    }
  });
  return result;
}

bool clean(outcome const& o) { return o.violations.stale_reads == 0 && o.violations.use_after_evict == 0 && o.violations.lost_updates == 0; }

std::vector<std::pair<std::string, schedules>> const overlapping{
    {"prefetch", np::schedule::prefetch{}},
    {"dual_buffer", np::schedule::dual_buffer<>{}},
    {"frozen_window", np::schedule::frozen_window{}},
    {"nested", np::schedule::nested{}},
    {"nested, rows in one portion", np::schedule::nested{.early = false, .shared_first = false}},
};

std::vector<optimizers> const all_optimizers{np::optimizer::adagrad{.rate = 0.05}, np::optimizer::rowwise_adagrad{.rate = 0.05}, np::optimizer::adam{.rate = 0.02}};

}  // namespace

TEST_CASE("200 steps of streams made to break it: bits of the plain loop, and nothing stale") {
  std::size_t turn = 0;
  for (auto const& keys : streams) {
    CAPTURE(keys.name);
    std::vector<outcome> plain;
    for (auto const& optimizer : all_optimizers) {
      plain.push_back(run(keys, np::schedule::sequential{}, optimizer, 1, false));
      CHECK(clean(plain.back()));
    }
    for (auto const& [name, schedule] : overlapping) {
      for (std::size_t const ranks : {1, 2, 4}) {
        std::size_t const o = turn++ % all_optimizers.size();
        INFO(name << ", " << ranks << " ranks, optimizer " << o);
        outcome const got = run(keys, schedule, all_optimizers[o], ranks, true, turn % 2 == 0);
        CHECK(got.digest == plain[o].digest);
        CHECK(clean(got));
      }
    }
  }
}

// Longer than the gate: NESTPIPE_TEST_MINUTES=30 repeats with other delays every time, and would show a hang.
TEST_CASE("random delays for as long as asked") {
  char const* const minutes = std::getenv("NESTPIPE_TEST_MINUTES");
  if (minutes == nullptr) return;
  auto const end = std::chrono::steady_clock::now() + std::chrono::duration<double>(60 * std::atof(minutes));
  std::vector<std::string> plain;
  for (auto const& keys : streams) plain.push_back(run(keys, np::schedule::sequential{}, all_optimizers[2], 1, false).digest);
  std::size_t runs = 0;
  for (; std::chrono::steady_clock::now() < end; ++runs) {
    std::size_t const k = runs % streams.size();
    std::size_t const ranks = std::size_t{1} << (runs / streams.size() % 3 + 1);  // 2, 4, 8
    auto const& [name, schedule] = overlapping[runs / 3 % overlapping.size()];
    INFO(streams[k].name << ", " << name << ", " << ranks << " ranks, run " << runs);
    outcome const got = run(streams[k], schedule, all_optimizers[2], ranks, true, runs % 2 == 0, {}, runs);
    CHECK(got.digest == plain[k]);
    CHECK(clean(got));
  }
  std::string const done = std::to_string(runs) + " runs of " + std::to_string(steps) + " steps";
  MESSAGE(done);
}

TEST_CASE("without refresh, rows that consecutive batches share are stale, and it shows") {
  tamper const drop = [](trainer_type&, lanes& l) {
    l.around = [](np::exec::op const& o, std::function<void()> const& go) {
      if (o.what != stage::refresh) go();
    };
  };
  auto const& keys = streams[5];
  outcome const plain = run(keys, np::schedule::sequential{}, all_optimizers[0], 2, false);
  outcome const broken = run(keys, np::schedule::nested{}, all_optimizers[0], 2, false, false, drop);
  CHECK(broken.digest != plain.digest);
  CHECK(broken.violations.stale_reads > 0);
}

TEST_CASE("a refresh that leaves the optimizer state behind changes the bits") {
  // Runs refresh, then puts back the state that the slot had before.
  tamper const stateless = [](trainer_type& trainer, lanes& l) {
    l.around = [&trainer](np::exec::op const& o, std::function<void()> const& go) {
      if (o.what != stage::refresh) return go();
      auto& w = trainer.engine().window_of(o.batch);
      std::vector<std::vector<float>> before;
      for (std::size_t t = 0; t < w.tables(); ++t) before.emplace_back(w.rows(t), w.rows(t) + w.slots(t) * w.row_floats(t));
      go();
      for (std::size_t t = 0; t < w.tables(); ++t) {
        for (std::size_t i = 0; i < w.slots(t); ++i) {
          for (std::size_t k = w.dim(t); k + 1 < w.row_floats(t); ++k) w.rows(t)[i * w.row_floats(t) + k] = before[t][i * w.row_floats(t) + k];
        }
      }
    };
  };
  for (auto const& optimizer : all_optimizers) {
    outcome const plain = run(streams[0], np::schedule::sequential{}, optimizer, 1, false);
    outcome const broken = run(streams[0], np::schedule::nested{}, optimizer, 1, false, false, stateless);
    CHECK(broken.digest != plain.digest);
  }
}

// The broken schedule races, as it should: nothing for a build that stops at the first race.
#if defined(__SANITIZE_THREAD__)
constexpr bool races_stop_the_test = true;
#elif defined(__has_feature)
#if __has_feature(thread_sanitizer)
constexpr bool races_stop_the_test = true;
#else
constexpr bool races_stop_the_test = false;
#endif
#else
constexpr bool races_stop_the_test = false;
#endif

TEST_CASE("without the fence between write_back and the next retrieve, updates are lost, and it shows" * doctest::skip(races_stop_the_test)) {
  for (std::size_t const s : {2, 3}) {  // every batch has the same number of keys, so what is overwritten has room
    CAPTURE(streams[s].name);
    outcome const plain = run(streams[s], np::schedule::sequential{}, all_optimizers[2], 1, false);
    outcome const broken = run(streams[s], without_fence{}, all_optimizers[2], 1, false);
    CHECK(broken.digest != plain.digest);
    CHECK_FALSE(clean(broken));
  }
}
