// Ways in which a job can fail, one per first argument; mpi_failure_test starts it under mpirun and reads what it says.
#include <nestpipe/comm/mpi.hpp>

#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdio>
#include <exception>
#include <string>
#include <thread>
#include <vector>

namespace np = nestpipe;
using np::comm::mpi;
using namespace std::chrono_literals;

namespace {

/// A training loop in miniature on two channels by two threads; rank 2 fails in step 20.
template <class Fail>
void loop(mpi& comm, Fail fail) {
  auto route = comm.channel("route");
  auto exchange = comm.channel("exchange");
  std::exception_ptr failed;
  std::thread lane{[&] {
    try {
      for (std::size_t step = 0;; ++step) route.barrier({"route", step});
    } catch (...) {
      failed = std::current_exception();
    }
  }};
  try {
    std::vector<std::byte> send(1000 * comm.size()), recv(1000 * comm.size());
    std::vector<std::size_t> const sizes(comm.size(), 1000);
    for (std::size_t step = 0;; ++step) {
      if (comm.rank() == 2 && step == 20) {
        std::this_thread::sleep_for(300ms);  // the others now wait in this step
        fail();
      }
      exchange.all_to_all_v(send, sizes, recv, sizes, {"exchange_rows", step});
    }
  } catch (std::exception const& e) {
    comm.abort(e.what());
    lane.join();
    throw;
  }
}

/// A program that does not use mpi::run.
int unaided() {
  mpi comm = mpi::world();
  auto channel = comm.channel("exchange");
  if (comm.rank() == 1) {
    std::this_thread::sleep_for(300ms);
    comm.abort("gave up");
    return 1;
  }
  try {
    channel.barrier({"waiting", 3});
  } catch (np::comm_error const& e) {
    std::fprintf(stderr, "%s\n", e.what());
  }
  return 1;
}

}  // namespace

int main(int argc, char** argv) {
  std::string const scenario = argc > 1 ? argv[1] : "";
  if (scenario == "unaided") return unaided();
  bool const hurried = scenario == "late" || scenario == "sequence";
  return mpi::run(argc, argv,
                  [&](mpi& comm) {
                    if (scenario == "throw") loop(comm, [] { throw np::data_error{"bad line", "day_0.tsv:7"}; });
                    if (scenario == "kill") loop(comm, [] { std::raise(SIGKILL); });
                    if (scenario == "segv") loop(comm, [] { std::raise(SIGSEGV); });
                    if (scenario == "config") throw np::config_error{"batch size 0", "--batch-size", "give 1 or more"};
                    auto channel = comm.channel("exchange");
                    if (scenario == "late") {
                      if (comm.rank() == 1) std::this_thread::sleep_for(1500ms);
                      channel.barrier({"reduce_dense", 5});
                    }
                    if (scenario == "sequence") {
                      std::byte bytes[3] = {};
                      if (comm.rank() == 0) channel.broadcast(bytes, 0, {"left", 1});
                      if (comm.rank() != 0) channel.barrier({"right", 2});
                    }
                    if (scenario == "mismatch") {
                      std::byte bytes[64] = {};
                      std::vector<std::size_t> const mine(comm.size(), 2);
                      std::vector<std::size_t> theirs(comm.size(), 2);
                      if (comm.rank() == 1) theirs[0] = 3;
                      channel.all_to_all_v(bytes, mine, bytes, theirs, {"exchange_rows", 9});
                      channel.barrier({"after", 9});
                    }
                    if (scenario == "busy") {  // one rank computes and listens to nobody
                      if (comm.rank() == 0) std::this_thread::sleep_for(60s);
                      if (comm.rank() == 1) {
                        std::this_thread::sleep_for(300ms);
                        throw np::error{"out of memory"};
                      }
                      channel.barrier({"waiting", 3});
                    }
                    if (scenario == "caught") {  // the failure is swallowed: the job must not end well all the same
                      if (comm.rank() == 1) {
                        std::this_thread::sleep_for(300ms);
                        comm.abort("gave up");
                      }
                      try {
                        channel.barrier({"waiting", 3});
                      } catch (np::comm::aborted const&) {}
                    }
                  },
                  {.deadline = hurried ? 500ms : 60s});
}
