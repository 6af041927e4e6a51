#include <doctest/doctest.h>

#include <nestpipe/comm/any_of.hpp>
#include <nestpipe/comm/self.hpp>
#include <nestpipe/comm/threads.hpp>

#include "comm_conformance.hpp"

#include <array>

namespace np = nestpipe;
using np::comm::self;
using np::comm::threads;
using any = np::comm::any_of<self, threads>;
using twice = np::comm::any_of<any, self>;  // the same kind of channel may come twice

static_assert(np::comm::communicator<any> && np::comm::audit<any>());
static_assert(np::comm::communicator<twice>);

namespace {

void whole_suite(any comm, std::atomic<std::size_t>& arrived) {
  comm_conformance::values(comm, 20, 3000);
  comm_conformance::several_channels(comm, 2, 10);
  comm_conformance::refuses_misuse(comm);
  comm_conformance::barrier_waits(comm, arrived);
  comm_conformance::stress(comm, 200);
}

}  // namespace

TEST_CASE("any_of meets the suite with each member") {
  std::atomic<std::size_t> arrived{0};
  whole_suite(self{}, arrived);
  arrived = 0;
  threads::run(3, [&](threads& comm) { whole_suite(comm, arrived); });

  twice nested{any{self{}}};
  comm_conformance::values(nested, 5, 100);
}

TEST_CASE("any_of forwards abort and share") {
  std::array<int const*, 3> seen{};
  CHECK_THROWS_WITH_AS(threads::run(3,
                                    [&](threads& inner) {
                                      any comm{inner};
                                      auto const p =
                                          np::comm::share<int>(comm, [] { return std::make_shared<int>(1); });
                                      seen[comm.rank()] = p.get();
                                      auto channel = comm.channel("x");
                                      if (comm.rank() == 1) {
                                        comm.abort("cause");
                                      } else {
                                        channel.barrier({"waiting", 1});
                                      }
                                    }),
                       "rank 1 failed: cause", np::comm_error);
  CHECK((seen[0] != nullptr && seen[0] == seen[1] && seen[0] == seen[2]));
}
