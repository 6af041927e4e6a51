// Run by every rank of an MPI world; a failure ends the job with a line that says what was wrong.
#include <nestpipe/comm/any_of.hpp>
#include <nestpipe/comm/mpi.hpp>
#include <nestpipe/comm/self.hpp>
#include <nestpipe/reduction/ordered.hpp>

#include "comm_conformance.hpp"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

namespace np = nestpipe;
using np::comm::mpi;

static_assert(np::comm::communicator<mpi> && np::comm::audit<mpi>());

namespace {

/// Data longer than the longest message, in pieces that divide nothing.
void pieces() {
  auto comm = mpi::world({.piece_bytes = 100});
  comm_conformance::values(comm, 10, 3000);
}

void by_any_of() {
  np::comm::any_of<np::comm::self, mpi> comm{mpi::world()};
  comm_conformance::values(comm, 5, 1000);
  auto const one = np::comm::share<int>(comm, [] { return std::make_shared<int>(3); });  // one per process
  comm_conformance::check(*one == 3, "share");
}

/// The bits of ordered are those of the tree over all micro-batches, computed here.
float leaf(std::size_t m, std::size_t i) {
  return std::ldexp(static_cast<float>((m * 7919 + i * 104729) % 2001) - 1000.0f,
                    static_cast<int>((m * 5 + i) % 24) - 12);
}
float node(std::size_t o, std::size_t s, std::size_t n, std::size_t i) {
  return o + s >= n ? leaf(o, i) : node(o, 2 * s, n, i) + node(o + s, 2 * s, n, i);
}
void ordered(mpi& comm) {
  std::size_t const total = 12, parameters = 1001, local = total / comm.size();
  auto channel = comm.channel("reduce");
  np::reduction::ordered r;
  r.open({parameters, local, comm.rank(), comm.size()});
  for (std::size_t j = 0; j < local; ++j) {
    for (std::size_t i = 0; i < parameters; ++i) r.leaf(j)[i] = leaf(j * comm.size() + comm.rank(), i);
    r.add(j, 0, parameters);
  }
  r.reduce(channel, 0, 500, {"reduce_dense", 1});
  r.reduce(channel, 500, parameters, {"reduce_dense", 1});
  for (std::size_t i = 0; i < parameters; ++i)
    comm_conformance::check(r.result()[i] == node(0, 1, total, i), "ordered");
}

}  // namespace

int main(int argc, char** argv) {
  return mpi::run(argc, argv, [](mpi& comm) {
    if (char const* const expected = std::getenv("OMPI_COMM_WORLD_SIZE"))
      comm_conformance::check(comm.size() == static_cast<std::size_t>(std::atoi(expected)), "the size of the world");
    comm_conformance::values(comm, 40, 5000);
    comm_conformance::values(comm, 2, 300000);
    comm_conformance::refuses_misuse(comm);
    comm_conformance::several_channels(comm, 4, 25);
    comm_conformance::stress(comm, 1000);
    pieces();
    by_any_of();
    ordered(comm);
    for (int i = 0; i < 300; ++i) comm.channel("opened and closed").barrier({"open", 0});
    if (comm.rank() == 0) std::printf("comm/mpi_test: %zu ranks passed\n", comm.size());
  });
}
