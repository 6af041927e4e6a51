// Numbered checkpoints written while training goes on, full and as deltas.

#include "trainers.hpp"

#include <nestpipe/checkpoint/background.hpp>
#include <nestpipe/checkpoint/inspect.hpp>
#include <nestpipe/exec/thread_lanes.hpp>
#include <nestpipe/schedule/dual_buffer.hpp>
#include <nestpipe/schedule/prefetch.hpp>

#include <doctest/doctest.h>

#include <map>

using namespace checkpoint_test;

namespace {

template <class Schedule, class Executor = np::exec::thread_lanes>
using background_trainer = np::trainer<np::model::dlrm<>, np::storage::hashed<>, np::comm::threads, Schedule, np::optimizer::adam, np::optimizer::adam, Executor>;

/// As the trainers' small stream, but with so many ids that most rows rest between two saves.
np::data::synthetic long_stream() {
  np::data::synthetic_options o;
  o.rows = 12 * 96;
  o.features = 3;
  o.dense = 2;
  o.vocabulary = 20'000;
  o.exponent = 1.05;
  o.max_bag = 2;
  o.order.shuffle_window = 50;
  return np::data::synthetic{o};
}

np::trainer_config config_for(std::size_t world_size, std::uint64_t steps) {
  np::trainer_config c = small_config(world_size, steps);
  c.cardinality = 20'000;
  c.epochs = 3;
  return c;
}

np::checkpoint::save_plan plan_for(fs::path const& to, std::uint64_t every, bool incremental) {
  np::checkpoint::save_plan p;
  p.directory = to;
  p.every = every;
  p.keep = 0;
  p.incremental = incremental;
  p.most_changed = 100;
  p.chunk_bytes = 32768;
  p.least_bytes = 100;
  p.spread = 1000;  // far more than there are: most rows are taken because they change, or at the end
  return p;
}

struct run_result {
  np::digest end;
  std::uint64_t early = 0;  // rows that changed before their turn
  std::uint64_t saves = 0;
  std::string problem;
};

template <class Trainer>
run_result run(std::size_t world_size, np::trainer_config const& config, np::checkpoint::save_plan const& plan = {}) {
  bool const saves = !plan.directory.empty();
  run_result r;
  std::atomic<std::uint64_t> early{0};
  r.problem = with_trainers<Trainer>(world_size, config, {.model = small_dlrm()}, [&](Trainer& t) {
    if (saves) t.save_while_training(plan);
    // Each epoch ends with a save of its own, so the saves before it are over by then, however slow the disk.
    t.fit(long_stream(), [&](std::uint64_t, np::fit_result const&) {
      if (saves) t.save_numbered();
      return true;
    });
    auto const d = t.parameters_digest();
    early += t.engine().rows().snapshot().early();
    if (t.engine().comm().rank() == 0) r.end = d, r.saves = t.saves() == nullptr ? 0 : t.saves()->saves();
  });
  r.early = early;
  return r;
}

np::digest loaded_digest(fs::path const& from, std::size_t world_size) {
  using trainer = background_trainer<np::schedule::sequential, np::exec::inline_lanes>;
  np::digest d;
  CHECK(with_trainers<trainer>(world_size, config_for(world_size, 1), {.model = small_dlrm()}, [&](trainer& t) {
          t.load(from);
          auto const own = t.parameters_digest();
          if (t.engine().comm().rank() == 0) d = own;
        }) == "");
  return d;
}

constexpr std::uint64_t saved_steps[] = {5, 12, 15, 24, 25, 36};  // every 5, as soon as the last is done, and every epoch

/// The digests after each of these steps of an undisturbed run.
std::map<std::uint64_t, np::digest> const& truth() {
  static std::map<std::uint64_t, np::digest> const all = [] {
    std::map<std::uint64_t, np::digest> m;
    using trainer = background_trainer<np::schedule::sequential, np::exec::inline_lanes>;
    for (std::uint64_t const step : saved_steps) m[step] = run<trainer>(1, config_for(1, step)).end;
    return m;
  }();
  return all;
}

template <class Schedule>
void saves_what_a_boundary_would(bool incremental, std::size_t world_size) {
  scratch_directory dir;
  fs::path const parent = dir / "run";
  auto const r = run<background_trainer<Schedule>>(world_size, config_for(world_size, 0), plan_for(parent, 5, incremental));
  CHECK(r.problem == "");
  CHECK(r.end == truth().at(36));
  CHECK(r.saves == std::size(saved_steps));
  CHECK(r.early > 100);
  auto const all = np::checkpoint::numbered(parent);
  CHECK(all.size() == r.saves);
  for (auto const& saved : all) {
    CAPTURE(saved.step);
    REQUIRE(truth().contains(saved.step));
    CHECK(np::checkpoint::verify(saved.directory).empty());
    CHECK(loaded_digest(saved.directory, world_size == 2 ? 3 : 1) == truth().at(saved.step));
    auto const m = np::checkpoint::read_manifest(saved.directory);
    CHECK(m.parent.directory.empty() == (!incremental || &saved == &all.front()));
    if (!incremental) CHECK(m.digest_of_all == truth().at(saved.step));
  }
}

}  // namespace

TEST_CASE_TEMPLATE("what is saved during training is what a boundary would have saved", Schedule, np::schedule::sequential, np::schedule::prefetch, np::schedule::frozen_window,
                   np::schedule::dual_buffer<>, np::schedule::nested) {
  for (bool const incremental : {false, true}) {
    for (std::size_t const world_size : {1, 2}) {
      CAPTURE(incremental);
      CAPTURE(world_size);
      saves_what_a_boundary_would<Schedule>(incremental, world_size);
    }
  }
}
