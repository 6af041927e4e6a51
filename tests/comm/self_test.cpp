#include <doctest/doctest.h>

#include <nestpipe/comm/self.hpp>

#include "comm_conformance.hpp"

#include <string>

namespace np = nestpipe;

static_assert(np::comm::communicator<np::comm::self> && np::comm::audit<np::comm::self>());

TEST_CASE("self meets the suite of communicators") {
  np::comm::self comm;
  comm_conformance::values(comm, 50, 5000);
  comm_conformance::several_channels(comm, 3, 20);
  comm_conformance::stress(comm, 200);
  comm_conformance::refuses_misuse(comm);
  std::atomic<std::size_t> arrived{0};
  comm_conformance::barrier_waits(comm, arrived);
}

TEST_CASE("self: an abort ends later collectives of every copy") {
  np::comm::self comm;
  auto copy = comm;
  auto channel = copy.channel("x");
  comm.abort("disk is full");
  comm.abort("too late to matter");
  CHECK_THROWS_WITH_AS(channel.barrier({"route", 3}), "rank 0 failed: disk is full (rank 0 was in route, step 3)",
                       np::comm_error);
}

TEST_CASE("self: without share of its own every caller makes one") {
  np::comm::self comm;
  auto const p = np::comm::share<int>(comm, [] { return std::make_shared<int>(4); });
  CHECK(*p == 4);
}
