#include <doctest/doctest.h>

#include <nestpipe/comm/threads.hpp>

#include "comm_conformance.hpp"

#include <array>
#include <string>

namespace np = nestpipe;
using np::comm::threads;
using namespace std::chrono_literals;

static_assert(np::comm::communicator<threads> && np::comm::audit<threads>());

namespace {

double seconds_of(auto&& f) {
  auto const start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// What run() throws, as text; empty if it does not.
std::string failure_of(std::size_t size, auto&& f, threads::options settings = {}) {
  try {
    threads::run(size, f, settings);
  } catch (std::exception const& e) {
    return e.what();
  }
  return {};
}

bool contains(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("threads meet the suite of communicators") {
  for (std::size_t const size : {1, 2, 3, 4}) {
    CAPTURE(size);
    std::atomic<std::size_t> arrived{0};
    threads::run(size, [&](threads& comm) {
      comm_conformance::values(comm, 40, 5000);
      comm_conformance::values(comm, 2, 300000);
      comm_conformance::several_channels(comm, 4, 25);
      comm_conformance::refuses_misuse(comm);
      comm_conformance::barrier_waits(comm, arrived);
      comm_conformance::stress(comm, 1000);
    });
  }
}

TEST_CASE("threads: random start delays") {
  for (int round = 0; round < 20; ++round) {
    threads::run(4, [&](threads& comm) {
      std::this_thread::sleep_for(
          std::chrono::microseconds{(comm.rank() * 7919 + static_cast<std::size_t>(round) * 104729) % 3000});
      comm_conformance::values(comm, 2, 100);
    });
  }
}

TEST_CASE("threads: the exception of one rank reaches the caller, the others leave within a second") {
  std::array<std::string, 4> echoes;
  double const took = seconds_of([&] {
    CHECK_THROWS_WITH_AS(threads::run(4,
                                      [&](threads& comm) {
                                        auto first = comm.channel("route");
                                        auto second = comm.channel("exchange");
                                        if (comm.rank() == 2) {
                                          std::this_thread::sleep_for(50ms);
                                          throw np::data_error{"bad line", "day_0.tsv:7"};
                                        }
                                        try {
                                          (comm.rank() == 0 ? first : second).barrier({"exchange_rows", 17});
                                        } catch (np::comm::aborted const& e) {
                                          CHECK(e.failed_rank() == 2);
                                          echoes[comm.rank()] = e.what();
                                          throw;
                                        }
                                      }),
                         "bad line (day_0.tsv:7)", np::data_error);
  });
  CHECK(took < 1.0);
  CHECK(echoes[0] == "rank 2 failed: bad line (day_0.tsv:7) (rank 0 was in exchange_rows, step 17)");
  CHECK(echoes[1] == "rank 2 failed: bad line (day_0.tsv:7) (rank 1 was in exchange_rows, step 17)");
  CHECK(echoes[3] == "rank 2 failed: bad line (day_0.tsv:7) (rank 3 was in exchange_rows, step 17)");
}

TEST_CASE("threads: an abort wakes every lane of every rank") {
  std::atomic<int> woken{0};
  std::string const line = failure_of(3, [&](threads& comm) {
    std::vector<threads::channel_type> open;
    for (auto const* name : {"a", "b", "c"}) open.push_back(comm.channel(name));
    std::vector<std::thread> lanes;
    for (std::size_t c = 0; c < 3; ++c) {
      lanes.emplace_back([&, c] {
        try {
          if (comm.rank() == 1 && c == 1) {
            std::this_thread::sleep_for(30ms);
            comm.abort("lost the disk");
          } else if (comm.rank() != 1 || c != 0) {
            for (std::uint64_t step = 0;; ++step) open[c].barrier({"waiting", step});
          } else {
            open[c].barrier({"waiting", 0});
          }
        } catch (np::comm::aborted const&) {
          ++woken;
        }
      });
    }
    for (auto& lane : lanes) lane.join();
  });
  CHECK(woken == 7);                              // all but the one that aborts and the one whose only barrier was met
  CHECK(line == "rank 1 failed: lost the disk");  // nobody threw, and yet the world has failed
}

TEST_CASE("threads: the cause wins over echoes, whichever rank ends first") {
  for (std::size_t culprit = 0; culprit < 3; ++culprit) {
    std::string const line = failure_of(3, [&](threads& comm) {
      auto channel = comm.channel("x");
      if (comm.rank() == culprit) {
        comm.abort("cause");
        std::this_thread::sleep_for(20ms);  // all echoes are thrown before
        throw np::config_error{"the cause"};
      }
      channel.barrier({"x", 0});
    });
    CHECK(line == "the cause");
  }
}

TEST_CASE("threads: exceptions that are no std::exception pass through") {
  CHECK_THROWS_AS(threads::run(2,
                               [](threads& comm) {
                                 if (comm.rank() == 1) throw 5;
                                 comm.channel("x").barrier({"x", 0});
                               }),
                  int);
}

TEST_CASE("threads: a late rank is reported with rank, stage, step and who is missing") {
  double const took = seconds_of([] {
    std::string const line = failure_of(4,
                                        [](threads& comm) {
                                          auto channel = comm.channel("exchange");
                                          channel.barrier({"route", 4});
                                          if (comm.rank() == 3) std::this_thread::sleep_for(600ms);
                                          channel.all_reduce_sum({}, {"reduce_dense", 5});
                                        },
                                        {.deadline = 150ms});
    CHECK(contains(line, "all_reduce_sum on channel 'exchange' did not end within 0.15 s"));
    CHECK(contains(line, "reduce_dense, step 5"));
    CHECK(contains(line, "still waiting for rank 3 (last in route, step 4)"));
  });
  CHECK(took < 2.0);
  std::string const line = failure_of(2,
                                      [](threads& comm) {
                                        auto channel = comm.channel("exchange");
                                        if (comm.rank() == 0) channel.barrier({"route", 4});
                                      },
                                      {.deadline = 50ms});
  CHECK(contains(line, "(rank 0, route, step 4, still waiting for rank 1 (never came))"));
}

TEST_CASE("threads: mistakes in the sequence of calls are found") {
  std::string line = failure_of(2, [](threads& comm) {
    auto channel = comm.channel("x");
    float value = 0;
    if (comm.rank() == 0) channel.barrier({"left", 1});
    if (comm.rank() == 1) channel.all_reduce_sum({&value, 1}, {"right", 2});
  });
  CHECK(contains(line, "barrier"));
  CHECK(contains(line, "all_reduce_sum"));
  CHECK(contains(line, "left, step 1"));
  CHECK(contains(line, "right, step 2"));

  line = failure_of(3, [](threads& comm) {
    auto channel = comm.channel("x");
    std::byte bytes[4] = {};
    channel.broadcast(bytes, comm.rank() == 2 ? 1 : 0, {"left", 1});
  });
  CHECK(contains(line, "disagree"));

  line = failure_of(2, [](threads& comm) {
    auto channel = comm.channel("x");
    std::byte bytes[8] = {};
    std::size_t const send[2] = {1, comm.rank() == 0 ? 4u : 1u};
    std::size_t const recv[2] = {1, 1};
    channel.all_to_all_v(bytes, std::span{send}.first(2), bytes, std::span{recv}.first(2), {"exchange_rows", 1});
  });
  CHECK(contains(line, "exchange_rows, step 1"));

  line = failure_of(2, [](threads& comm) { comm.channel(comm.rank() == 0 ? "a" : "b"); });
  CHECK(contains(line, "ranks open different channels"));
}

TEST_CASE("threads: share makes one object") {
  std::atomic<int> made{0};
  std::array<int const*, 4> seen{};
  threads::run(4, [&](threads& comm) {
    auto const p = np::comm::share<int>(comm, [&] {
      ++made;
      return std::make_shared<int>(9);
    });
    seen[comm.rank()] = p.get();
  });
  CHECK(made == 1);
  CHECK((seen[0] != nullptr && seen[0] == seen[1] && seen[0] == seen[2] && seen[0] == seen[3]));
  CHECK(failure_of(3, [](threads& comm) {
          np::comm::share<int>(comm, []() -> std::shared_ptr<int> { throw np::data_error{"no such file"}; });
        }) == "no such file");
}

TEST_CASE("threads: channels outlive the communicators they came from") {
  std::vector<threads::channel_type> open;
  for (auto& comm : threads::make(2)) open.push_back(comm.channel("x"));
  std::thread other{[&] { open[0].barrier({"late", 0}); }};
  open[1].barrier({"late", 0});
  other.join();
  CHECK_THROWS_AS(threads::make(0), np::config_error);
}

TEST_CASE("threads: failures at random moments under load never hang and never corrupt") {
  for (std::uint64_t round = 0; round < 60; ++round) {
    std::string const line = failure_of(4, [&](threads& comm) {
      auto channel = comm.channel("x");
      for (std::uint64_t step = 0;; ++step) {
        if (comm.rank() == round % 4 && step == 1 + round % 9) throw np::data_error{"planned"};
        comm_conformance::one_round_of_each(channel, comm.rank(), 4, step, 4000, step);
      }
    });
    CHECK(line == "planned");
  }
}
