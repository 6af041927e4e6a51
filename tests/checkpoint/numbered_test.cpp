// Checkpoints by step: the last few stay.

#include "small_engine.hpp"

#include <nestpipe/checkpoint/numbered.hpp>

#include <doctest/doctest.h>

using namespace checkpoint_test;

namespace {

std::vector<std::string> names(fs::path const& directory) {
  std::vector<std::string> all;
  for (auto const& entry : fs::directory_iterator{directory}) all.push_back(entry.path().filename().string());
  std::sort(all.begin(), all.end());
  return all;
}

}  // namespace

TEST_CASE("directories are named by step") {
  CHECK(np::checkpoint::step_directory("run", 123) == fs::path{"run/step-000123"});
  CHECK(np::checkpoint::step_directory("run", 12345678) == fs::path{"run/step-12345678"});
}

TEST_CASE("the last ones are kept, the newest is found") {
  scratch_directory dir;
  fs::path const parent = dir / "run";
  CHECK_FALSE(np::checkpoint::latest(parent));
  CHECK(on_ranks(2, [&](auto& e) {
          e.fill(20);
          for (std::uint64_t const step : {100, 200, 999999, 1000000, 1000100}) {
            e.set_progress(step, step);
            CHECK(np::checkpoint::save_numbered(e, parent, {}, 3) == np::checkpoint::step_directory(parent, step));
          }
        }) == "");
  CHECK(names(parent) == std::vector<std::string>{"step-1000000", "step-1000100", "step-999999"});
  CHECK(np::checkpoint::latest(parent) == parent / "step-1000100");
  CHECK(load_small(*np::checkpoint::latest(parent)) == "");
  // Keeping all, and saving one step twice.
  CHECK(on_ranks(1, [&](auto& e) {
          e.fill(20);
          for (std::uint64_t const step : {1000200, 1000200, 1000300}) {
            e.set_progress(step, step);
            np::checkpoint::save_numbered(e, parent, {}, 0);
          }
        }) == "");
  CHECK(np::checkpoint::numbered(parent).size() == 5);
}

TEST_CASE("what crashes leave is cleared up and never counted") {
  scratch_directory dir;
  fs::path const parent = dir / "run";
  auto const save_step = [&](std::uint64_t step) {
    return on_ranks(1, [&](auto& e) {
      e.fill(20);
      e.set_progress(step, step);
      np::checkpoint::save_numbered(e, parent, {}, 2);
    });
  };
  CHECK(save_step(10) == "");
  CHECK(save_step(20) == "");
  fs::copy(parent / "step-000020", parent / "step-000030.tmp-0123456789abcdef");  // unfinished
  fs::rename(parent / "step-000020", parent / "step-000020.old-0123456789abcdef");  // cut off between the renames
  fs::create_directory(parent / "step-000077");                                    // no checkpoint
  fs::create_directory(parent / "step-99");                                        // not our spelling
  fs::copy(parent / "step-000010", parent / "step-000011.backup");
  REQUIRE(np::checkpoint::latest(parent) == parent / "step-000020");
  CHECK(load_small(*np::checkpoint::latest(parent)) == "");
  CHECK(save_step(40) == "");
  CHECK(names(parent) == std::vector<std::string>{"step-000011.backup", "step-000020", "step-000040", "step-000077", "step-99"});
}

TEST_CASE("runs do not mix") {
  scratch_directory dir;
  fs::path const parent = dir / "run";
  auto const save_step = [&](std::uint64_t step) {
    return on_ranks(2, [&](auto& e) {
      e.set_progress(step, step);
      np::checkpoint::save_numbered(e, parent, {}, 1);
    });
  };
  CHECK(save_step(500) == "");
  CHECK(has(save_step(100), "there are checkpoints of later steps than 100"));
  CHECK(np::checkpoint::latest(parent) == parent / "step-000500");
  CHECK_THROWS_AS(np::checkpoint::require_no_later(parent, 0), np::config_error);
  CHECK_NOTHROW(np::checkpoint::require_no_later(parent, 500));
  CHECK_NOTHROW(np::checkpoint::require_no_later(dir / "new", 0));
  CHECK_THROWS_AS(np::checkpoint::keep_last(parent, 0), np::config_error);
}
