// Whatever dies when: what was saved last is found.

#include "small_engine.hpp"

#include <nestpipe/checkpoint/inspect.hpp>

#include <doctest/doctest.h>

#include <atomic>
#include <csignal>
#include <sys/resource.h>
#include <sys/wait.h>

using namespace checkpoint_test;
using np::checkpoint::save_phase;

namespace {

/// Runs f in a process of its own. @return its exit status
template <class F>
int in_child(F f) {
  ::pid_t const child = ::fork();
  REQUIRE(child >= 0);
  if (child == 0) {
    int status = 0;
    try {
      f();
    } catch (...) {
      status = 1;
    }
    ::_exit(status);
  }
  int status = 0;
  ::waitpid(child, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

std::size_t entries(fs::path const& directory) { return static_cast<std::size_t>(std::distance(fs::directory_iterator{directory}, {})); }

constexpr save_phase phases[] = {save_phase::opened, save_phase::rows_written, save_phase::manifest_written, save_phase::replacing, save_phase::published};

/// A save of state `what` by two ranks that ends with its process when all that come to a phase have come.
int killed_at(save_phase phase, fs::path const& to, std::uint64_t what) {
  return in_child([&] {
    np::checkpoint::save_options o;
    std::atomic<int> left = phase <= save_phase::rows_written ? 2 : 1;
    o.on_phase = [&](save_phase p) {
      if (p == phase && --left == 0) ::raise(SIGKILL);
    };
    save_small(to, 2, 50, what, o);
  });
}

}  // namespace

TEST_CASE("killed at any moment of the first save: nothing, or all of it") {
  for (save_phase const phase : phases) {
    if (phase == save_phase::replacing) continue;  // there is nothing to replace
    scratch_directory dir;
    CAPTURE(static_cast<int>(phase));
    CHECK(killed_at(phase, dir / "c", 1) == 128 + SIGKILL);
    bool const there = phase == save_phase::published;
    CHECK((load_small(dir / "c") == "") == there);
    // The next save goes through and clears up.
    np::digest const saved = save_small(dir / "c", 1, 50, 3);
    np::digest loaded;
    CHECK(load_small(dir / "c", &loaded) == "");
    CHECK(loaded == saved);
    CHECK(entries(dir.path()) == 1);
  }
}

TEST_CASE("killed at any moment of a replacement: the old one or the new one, whole") {
  for (save_phase const phase : phases) {
    scratch_directory dir;
    CAPTURE(static_cast<int>(phase));
    np::digest const first = save_small(dir / "c", 1, 50, 1);
    CHECK(killed_at(phase, dir / "c", 2) == 128 + SIGKILL);
    CHECK(entries(dir.path()) == (phase == save_phase::published ? 1 : 2));
    CHECK(fs::exists(dir / "c") == (phase != save_phase::replacing));
    np::digest loaded;
    CHECK(load_small(dir / "c", &loaded, 2) == "");
    CHECK((loaded == first) == (phase != save_phase::published));
    CHECK(np::checkpoint::read_schema(dir / "c").dense == 2);
    CHECK(np::checkpoint::verify(dir / "c").empty());
    // Killed again in the same place: still there.
    CHECK(killed_at(phase, dir / "c", 2) == 128 + SIGKILL);
    CHECK(load_small(dir / "c") == "");
    np::digest const third = save_small(dir / "c", 3, 50, 3);
    CHECK(load_small(dir / "c", &loaded) == "");
    CHECK(loaded == third);
    CHECK(entries(dir.path()) == 1);
  }
}

TEST_CASE("an error on one rank reaches all, and leaves what was there") {
  for (save_phase const phase : phases) {
    if (phase == save_phase::published) continue;
    scratch_directory dir;
    CAPTURE(static_cast<int>(phase));
    np::digest const first = save_small(dir / "c", 1, 50, 1);
    std::size_t const world_size = 3;
    std::size_t const failing = phase == save_phase::opened || phase == save_phase::rows_written ? 2 : 0;
    std::vector<std::string> messages(world_size);
    np::digest again;
    CHECK(on_ranks(world_size, [&](auto& e) {
            e.fill(50, 2);
            np::checkpoint::save_options o;
            o.on_phase = [&](save_phase p) {
              if (p == phase && e.comm().rank() == failing) throw np::error{"the disk fell over"};
            };
            try {
              np::checkpoint::save(e, dir / "c", {}, o);
            } catch (np::error const& error) {
              messages[e.comm().rank()] = error.what();
            }
            // The ranks can go on: what was saved is there, and a save without an error replaces it.
            np::checkpoint::load(e, dir / "c");
            auto const d = e.digest();
            if (e.comm().rank() == 0) again = d;
            np::checkpoint::save(e, dir / "c", {});
          }) == "");
    for (auto const& m : messages) {
      CHECK(has(m, "cannot save the checkpoint"));
      CHECK(has(m, "rank " + std::to_string(failing) + ": the disk fell over"));
    }
    CHECK(again == first);
    CHECK(entries(dir.path()) == 1);
  }
}

TEST_CASE("a full disk is an error, not a checkpoint") {
  scratch_directory dir;
  np::digest const first = save_small(dir / "c", 1, 50, 1);
  std::string message;
  fs::path const report = dir / "message";
  CHECK(in_child([&] {
          // No file may grow past 4 KiB: a write fails in the middle, as on a full disk.
          ::signal(SIGXFSZ, SIG_IGN);
          ::rlimit const limit{4096, 4096};
          ::setrlimit(RLIMIT_FSIZE, &limit);
          std::string const m = on_ranks(2, [&](auto& e) {
            e.fill(1000, 2);
            np::checkpoint::save(e, dir / "c", {});
          });
          spill(report, m);
        }) == 0);
  message = slurp(report);
  CHECK(has(message, "cannot write"));
  CHECK(has(message, ".safetensors"));
  np::digest loaded;
  CHECK(load_small(dir / "c", &loaded) == "");
  CHECK(loaded == first);
  CHECK(entries(dir.path()) == 2);  // the checkpoint and the message
}

TEST_CASE("what is no checkpoint is not replaced") {
  scratch_directory dir;
  fs::create_directory(dir / "mine");
  spill(dir / "mine" / "thesis.txt", "years of work");
  spill(dir / "file", "x");
  CHECK_THROWS_WITH(save_small(dir / "mine"), doctest::Contains("something that is no checkpoint is in the way"));
  CHECK_THROWS_WITH(save_small(dir / "file"), doctest::Contains("something that is no checkpoint is in the way"));
  CHECK_THROWS_WITH(save_small(dir / "file" / "below"), doctest::Contains("cannot save the checkpoint"));
  CHECK(slurp(dir / "mine" / "thesis.txt") == "years of work");
  CHECK_THROWS_WITH(save_small(""), doctest::Contains("needs a directory"));
  // An empty directory and missing parents are fine, and so is a slash at the end.
  fs::create_directory(dir / "empty");
  save_small(dir / "empty");
  save_small(dir / "a/b/c/");
  CHECK(load_small(dir / "a/b/c/") == "");
  // Neighbours whose names only look alike stay.
  fs::create_directory(dir / "empty.old");
  fs::create_directory(dir / "empty.tmp-backup");
  save_small(dir / "empty");
  CHECK(fs::exists(dir / "empty.old"));
  CHECK(fs::exists(dir / "empty.tmp-backup"));
}
