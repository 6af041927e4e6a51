#include <doctest/doctest.h>

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdio>
#include <string>

// NESTPIPE_TEST_MPIRUN: the launcher with its flags; NESTPIPE_TEST_SCENARIOS: the program of mpi_scenarios.cpp.

namespace {

struct outcome {
  std::string text;
  int status;
  double seconds;

  bool says(std::string const& part) const { return text.find(part) != std::string::npos; }
  std::size_t times(std::string const& part) const {
    std::size_t n = 0;
    for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++n;
    return n;
  }
};

outcome run(std::string const& scenario, int ranks = 4) {
  auto const start = std::chrono::steady_clock::now();
  std::string const command = std::string{"timeout -k 5 40 " NESTPIPE_TEST_MPIRUN " -np "} + std::to_string(ranks) +
                              " " NESTPIPE_TEST_SCENARIOS " " + scenario + " 2>&1";
  std::FILE* const pipe = ::popen(command.c_str(), "r");
  REQUIRE(pipe != nullptr);
  outcome o;
  std::array<char, 4096> piece;
  while (std::size_t const n = std::fread(piece.data(), 1, piece.size(), pipe)) o.text.append(piece.data(), n);
  int const status = ::pclose(pipe);
  o.status = status < 0 ? status : (status >> 8) & 0xff;
  o.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  return o;
}

}  // namespace

TEST_CASE("mpi: an exception on one rank ends all within seconds, each with its line") {
  outcome const o = run("throw");
  CAPTURE(o.text);
  CHECK(o.status == 1);
  CHECK(o.seconds < 10);
  CHECK(o.times("rank 2: bad line (day_0.tsv:7)\n") == 1);
  for (char const* r : {"0", "1", "3"}) {
    CHECK(o.says(std::string{"rank "} + r + ": rank 2 failed: bad line (day_0.tsv:7) (rank " + r +
                 " was in exchange_rows, step 20)"));
  }
}

TEST_CASE("mpi: a rank killed by a signal ends all within seconds; the others say stage and step") {
  for (char const* scenario : {"kill", "segv"}) {
    outcome const o = run(scenario);
    CAPTURE(o.text);
    CHECK(o.status != 0);
    CHECK(o.seconds < 10);
    for (char const* r : {"0", "1", "3"}) CHECK(o.says(std::string{"rank "} + r + ": stopped by the launcher"));
    CHECK((o.says("was in exchange_rows, step 20") || o.says("was in route, step")));
    CHECK(o.says("rank 2"));  // this one is the launcher's to name
  }
}

TEST_CASE("mpi: a late rank is reported with stage, step and the missing rank") {
  outcome const o = run("late", 3);
  CAPTURE(o.text);
  CHECK(o.status == 1);
  CHECK(o.seconds < 10);
  CHECK(o.says("barrier on channel 'exchange' did not end within 0.5 s"));
  CHECK(o.says("reduce_dense, step 5, still waiting for rank 1)"));
}

TEST_CASE("mpi: a rank in another collective is named with it") {
  outcome const o = run("sequence", 2);
  CAPTURE(o.text);
  CHECK(o.status == 1);
  CHECK((o.says("called broadcast") || o.says("called barrier")));
}

TEST_CASE("mpi: sizes that do not agree are found") {
  outcome const o = run("mismatch", 2);
  CAPTURE(o.text);
  CHECK(o.status == 1);
  CHECK(o.says("rank 0 sends 2 bytes, 3 were expected (rank 1, exchange_rows, step 9)"));
}

TEST_CASE("mpi: what all ranks refuse alike is said once, with status 2") {
  outcome const o = run("config", 3);
  CAPTURE(o.text);
  CHECK(o.status == 2);
  CHECK(o.times("batch size 0 (--batch-size); give 1 or more") == 1);
}

TEST_CASE("mpi: a rank that computes is stopped too") {
  outcome const o = run("busy", 3);
  CAPTURE(o.text);
  CHECK(o.status == 1);
  CHECK(o.seconds < 10);
  CHECK(o.says("rank 1: out of memory"));
  CHECK(o.says("rank 2: rank 1 failed: out of memory (rank 2 was in waiting, step 3)"));
  CHECK(o.says("rank 0: stopped by the launcher"));
}

TEST_CASE("mpi: without run's help the end of a process that knows of a failure ends the job") {
  outcome const o = run("unaided", 3);
  CAPTURE(o.text);
  CHECK(o.status != 0);
  CHECK(o.seconds < 10);
  CHECK(o.says("rank 1 failed: gave up (rank 2 was in waiting, step 3)"));
}

TEST_CASE("mpi: a program that swallows the failure ends all the same") {
  outcome const o = run("caught", 3);
  CAPTURE(o.text);
  CHECK(o.says("rank 2: rank 1 failed: gave up"));
  CHECK(o.status == 1);
  CHECK(o.seconds < 10);
}
