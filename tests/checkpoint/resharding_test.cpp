// R ranks save, S ranks load: the same parameters, and training goes on to the same bits.

#include "trainers.hpp"

#include <doctest/doctest.h>

using namespace checkpoint_test;

namespace {

template <class Trainer>
np::digest train_through(std::size_t world_size, std::uint64_t steps, typename Trainer::policies const& p) {
  np::digest d;
  REQUIRE(with_trainers<Trainer>(world_size, small_config(world_size, steps), p, [&](Trainer& t) {
            t.fit(stream());
            auto const own = t.parameters_digest();
            if (t.engine().comm().rank() == 0) d = own;
          }) == "");
  return d;
}

template <class Trainer>
np::digest save_at(std::size_t world_size, std::uint64_t steps, typename Trainer::policies const& p, fs::path const& to) {
  np::digest d;
  REQUIRE(with_trainers<Trainer>(world_size, small_config(world_size, steps), p, [&](Trainer& t) {
            t.fit(stream());
            auto const own = t.parameters_digest();
            t.save(to);
            if (t.engine().comm().rank() == 0) d = own;
          }) == "");
  return d;
}

/// Loads, checks, trains on.
template <class Trainer>
np::digest resume(std::size_t world_size, std::uint64_t steps, typename Trainer::policies const& p, fs::path const& from, np::digest const& saved) {
  np::digest loaded, end;
  REQUIRE(with_trainers<Trainer>(world_size, small_config(world_size, steps), p, [&](Trainer& t) {
            t.load(from);
            auto const first = t.parameters_digest();
            t.fit(stream());
            auto const second = t.parameters_digest();
            if (t.engine().comm().rank() == 0) loaded = first, end = second;
          }) == "");
  CHECK(loaded == saved);
  return end;
}

}  // namespace

TEST_CASE("any number of ranks loads what any number of ranks saved") {
  scratch_directory dir;
  using trainer = dlrm_trainer<>;
  trainer::policies const p{.model = small_dlrm()};
  // 40 batches an epoch: the save is in the middle of the second epoch.
  np::digest const uninterrupted = train_through<trainer>(1, 48, p);
  for (std::size_t const saving : {1, 2, 3, 4, 8}) {
    fs::path const at = dir / "model";
    np::digest const saved = save_at<trainer>(saving, 43, p, at);
    CHECK(saved != uninterrupted);
    CHECK(np::checkpoint::read_manifest(at).position == np::data::data_position{1, 3 * 96});
    for (std::size_t const loading : {1, 2, 3, 4, 8}) {
      CAPTURE(saving);
      CAPTURE(loading);
      CHECK(resume<trainer>(loading, 48, p, at, saved) == uninterrupted);
    }
  }
}

TEST_CASE("rows move between storage policies") {
  scratch_directory dir;
  using hashed = dlrm_trainer<np::storage::hashed<>>;
  using dense = dlrm_trainer<np::storage::dense>;
  np::digest const end = train_through<hashed>(1, 8, {.model = small_dlrm()});
  np::digest const saved = save_at<hashed>(2, 5, {.model = small_dlrm()}, dir / "hashed");
  CHECK(resume<dense>(1, 8, {.model = small_dlrm()}, dir / "hashed", saved) == end);
  CHECK(resume<dense>(3, 8, {.model = small_dlrm()}, dir / "hashed", saved) == end);
  CHECK(save_at<dense>(2, 5, {.model = small_dlrm()}, dir / "dense") == saved);
  CHECK(resume<hashed>(3, 8, {.model = small_dlrm()}, dir / "dense", saved) == end);
}

TEST_CASE("an optimizer without state, and a model with few parameters") {
  scratch_directory dir;
  using trainer = np::trainer<np::model::logistic<>, np::storage::hashed<>, np::comm::threads, np::schedule::sequential, np::optimizer::sgd, np::optimizer::adagrad,
                              np::exec::inline_lanes>;
  np::digest const end = train_through<trainer>(2, 8, {});
  np::digest const saved = save_at<trainer>(2, 5, {}, dir / "model");
  CHECK(resume<trainer>(4, 8, {}, dir / "model", saved) == end);
}

TEST_CASE("the step of bias corrections returns: adam goes on as if never stopped") {
  scratch_directory dir;
  using trainer = dlrm_trainer<>;
  np::digest const saved = save_at<trainer>(1, 5, {.model = small_dlrm()}, dir / "model");
  np::digest const end = train_through<trainer>(1, 8, {.model = small_dlrm()});
  CHECK(resume<trainer>(1, 8, {.model = small_dlrm()}, dir / "model", saved) == end);
  // The same with the step forgotten: the digest must notice.
  np::digest forgotten;
  REQUIRE(with_trainers<trainer>(1, small_config(1, 3), {.model = small_dlrm()}, [&](trainer& t) {
            t.load(dir / "model");
            t.engine().set_progress(0, t.engine().samples());
            t.fit(stream());
            forgotten = t.parameters_digest();
          }) == "");
  CHECK(forgotten != end);
}

TEST_CASE("loading replaces what the engine had") {
  scratch_directory dir;
  using trainer = dlrm_trainer<>;
  np::digest const saved = save_at<trainer>(1, 2, {.model = small_dlrm()}, dir / "model");
  np::digest loaded;
  REQUIRE(with_trainers<trainer>(1, small_config(1, 9), {.model = small_dlrm()}, [&](trainer& t) {
            t.fit(stream());
            t.load(dir / "model");
            loaded = t.parameters_digest();
            CHECK(t.engine().step() == 2);
            CHECK(t.engine().samples() == 2 * 96);
          }) == "");
  CHECK(loaded == saved);
}

TEST_CASE("a checkpoint made after an epoch goes on with the next one") {
  scratch_directory dir;
  using trainer = dlrm_trainer<>;
  // 38 and a half batches an epoch.
  auto const rows = stream(38 * 96 + 48);
  auto config = small_config(1, 0);
  np::digest end, saved_end, resumed;
  REQUIRE(with_trainers<trainer>(1, config, {.model = small_dlrm()}, [&](trainer& t) {
            t.fit(rows, [&](std::uint64_t epoch, np::fit_result const&) {
              if (epoch == 0) t.save(dir / "epoch-1");
              return true;
            });
            t.save(dir / "end");
            end = t.parameters_digest();
          }) == "");
  REQUIRE(with_trainers<trainer>(1, config, {.model = small_dlrm()}, [&](trainer& t) {
            t.load(dir / "end");
            t.fit(rows);  // nothing is left to do
            saved_end = t.parameters_digest();
          }) == "");
  CHECK(saved_end == end);
  REQUIRE(with_trainers<trainer>(2, small_config(2, 0), {.model = small_dlrm()}, [&](trainer& t) {
            t.load(dir / "epoch-1");
            t.fit(rows);
            auto const d = t.parameters_digest();
            if (t.engine().comm().rank() == 0) resumed = d;
          }) == "");
  CHECK(resumed == end);
}
