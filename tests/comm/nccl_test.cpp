// comm::nccl on the emulated device, ranks as threads; its meeting places with real files and sockets.
#include <doctest/doctest.h>

#include <nestpipe/comm/nccl.cuh>
#include <nestpipe/comm/threads.hpp>

#include "comm_conformance.hpp"
#include "emulation/emulation.hpp"

#include <nccl.h>

#include <unistd.h>

#include <cstdlib>

namespace np = nestpipe;
using np::comm::nccl;
using np::comm::threads;
using namespace std::chrono_literals;

static_assert(np::comm::communicator<nccl> && np::comm::audit<nccl>());

namespace {

std::string failure_of(std::size_t size, auto&& f) {
  try {
    threads::run(size, f);
  } catch (std::exception const& e) {
    return e.what();
  }
  return {};
}
bool contains(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

std::filesystem::path scratch() {
  static int n = 0;
  return std::filesystem::temp_directory_path() / ("nestpipe-meeting-" + std::to_string(::getpid()) + "-" + std::to_string(n++));
}

}  // namespace

TEST_CASE("nccl meets the suite of communicators") {
  for (std::size_t const size : {1, 2, 3, 4}) {
    CAPTURE(size);
    std::atomic<std::size_t> arrived{0};
    threads::run(size, [&](threads& host) {
      nccl comm = nccl::over(host);
      comm_conformance::values(comm, 10, 3000);
      comm_conformance::several_channels(comm, 3, 8);
      comm_conformance::refuses_misuse(comm);
      comm_conformance::barrier_waits(comm, arrived);
      comm_conformance::stress(comm, 30);
    });
  }
}

TEST_CASE("calls on device memory are queued on the caller's stream, behind what is there and before what follows") {
  threads::run(3, [](threads& host) {
    nccl comm = nccl::over(host);
    auto channel = comm.channel("exchange");
    std::size_t const rank = comm.rank();
    np::exec::cuda_stream stream;
    np::exec::pinned_buffer<float> in, out;
    np::exec::buffer<float, np::exec::cuda> send, receive;
    in.resize(3);
    out.resize(3);
    send.resize(3, stream.get());
    receive.resize(3, stream.get());
    std::vector<std::size_t> const one(3, sizeof(float));
    for (std::uint64_t step = 0; step < 5; ++step) {
      for (std::size_t r = 0; r < 3; ++r) in[r] = static_cast<float>(100 * step + 10 * rank + r);
      np::exec::copy_to_device(send.data(), in.data(), 3, stream.get());
      channel.all_to_all_v(reinterpret_cast<std::byte const*>(send.data()), one, reinterpret_cast<std::byte*>(receive.data()), one, stream.get(), {"exchange", step});
      channel.all_reduce_sum(receive.data(), 3, stream.get(), {"exchange", step});
      np::exec::copy_to_host(out.data(), receive.data(), 3, stream.get());
      channel.wait(stream.get(), np::comm::operation::all_to_all_v, {"exchange", step});
      // Rank q sent 100 step + 10 q + rank; the sum over ranks of element q is 300 step + 30 q + 3.
      for (std::size_t q = 0; q < 3; ++q) comm_conformance::check(out[q] == static_cast<float>(300 * step + 30 * q + 3), "device memory");
    }
  });
}

TEST_CASE("the failure of one rank ends the wait of the others, with its reason") {
  std::atomic<int> woken{0};
  std::string const line = failure_of(3, [&](threads& host) {
    nccl comm = nccl::over(host);
    auto channel = comm.channel("exchange");
    if (comm.rank() == 2) {
      std::this_thread::sleep_for(30ms);
      comm.abort("lost the disk");
      throw np::error{"lost the disk"};
    }
    emulation::nccl_patience(0.2);
    try {
      channel.barrier({"exchange_rows", 7});
    } catch (np::comm::aborted const& e) {
      if (contains(e.what(), "rank 2 failed: lost the disk (rank " + std::to_string(comm.rank()) + " was in exchange_rows, step 7)")) ++woken;
      throw;
    }
  });
  emulation::nccl_patience(20);
  CHECK(line == "lost the disk");
  CHECK(woken == 2);
}

TEST_CASE("a rank that does not come is reported when the deadline is over") {
  emulation::nccl_patience(0.3);
  std::string const line = failure_of(2, [&](threads& host) {
    nccl comm = nccl::over(host, {.deadline = 100ms});
    auto channel = comm.channel("exchange");
    if (comm.rank() == 0) channel.barrier({"exchange_rows", 9});
    std::this_thread::sleep_for(20ms);
  });
  emulation::nccl_patience(20);
  CHECK(contains(line, "all_reduce_sum on channel 'exchange' did not end within 0.1 s (rank 0, exchange_rows, step 9)"));
}

TEST_CASE("sizes that do not agree are an error, not a hang") {
  emulation::nccl_patience(0.3);
  std::string const line = failure_of(2, [&](threads& host) {
    nccl comm = nccl::over(host);
    auto channel = comm.channel("exchange");
    std::vector<std::byte> bytes(64);
    std::vector<std::size_t> const sizes = comm.rank() == 0 ? std::vector<std::size_t>{8, 16} : std::vector<std::size_t>{8, 8};
    channel.all_to_all_v(bytes, sizes, bytes, sizes, {"exchange_rows", 3});
  });
  emulation::nccl_patience(20);
  CHECK(contains(line, "exchange_rows, step 3"));
}

TEST_CASE("without a device there is one line") {
  emulation::settings none;
  none.devices = 0;
  emulation::use(none);
  CHECK(contains(failure_of(1, [](threads& host) { nccl::over(host); }), "no CUDA device"));
  emulation::use({});
}

TEST_CASE("ranks meet at a file, and a failure is told there") {
  auto const path = scratch();
  std::atomic<int> met{0};
  threads::run(3, [&](threads& host) {  // of the host only the rank is used
    nccl comm = nccl::from_file(path, host.rank(), 3);
    comm_conformance::values(comm, 3, 500);
    ++met;
  });
  CHECK(met == 3);
  CHECK_FALSE(std::filesystem::exists(path.string() + ".0"));

  std::string const line = failure_of(2, [&](threads& host) {
    auto m = np::comm::detail::meet_at_file(scratch().parent_path() / (path.filename().string() + "-b"), host.rank(), 2, 10s);
    std::byte word[8]{};
    m.broadcast(word);
    if (host.rank() == 1) {
      m.abort("no more power");
      return;
    }
    np::comm::detail::first_failure const* f = nullptr;
    for (int i = 0; i < 500 && (f = m.failure()) == nullptr; ++i) std::this_thread::sleep_for(10ms);
    throw np::error{f == nullptr ? "nobody told" : std::to_string(f->rank()) + ": " + f->reason()};
  });
  CHECK(line == "1: no more power");
  std::filesystem::remove(scratch().parent_path() / (path.filename().string() + "-b.failed"));

  CHECK(contains(failure_of(1, [&](threads&) {
          std::byte word[8]{};
          np::comm::detail::meet_at_file(path, 1, 2, 50ms).broadcast(word);
        }),
        "rank 0 did not come to the meeting place within 0.05 s"));
}

TEST_CASE("ranks meet over TCP; who fails, leaves or vanishes is told apart") {
  std::string const port = std::to_string(20000 + ::getpid() % 20000);
  std::atomic<int> right{0};
  auto const run = [&](auto f) {
    threads::run(3, [&](threads& host) { f(np::comm::detail::meet_over_tcp("127.0.0.1", port, host.rank(), 3, 20s)); });
  };
  auto const told = [](np::comm::detail::meeting const& m) -> np::comm::detail::first_failure const* {
    for (int i = 0; i < 500; ++i) {
      if (auto const* f = m.failure()) return f;
      std::this_thread::sleep_for(10ms);
    }
    return nullptr;
  };
  run([&](np::comm::detail::meeting m) {
    std::uint64_t word = m.rank == 0 ? 42 : 0;
    m.broadcast({reinterpret_cast<std::byte*>(&word), sizeof word});
    right += word == 42 ? 1 : 0;
    if (m.rank == 2) std::this_thread::sleep_for(50ms);
    right += m.failure() == nullptr ? 1 : 0;  // ranks that have left are no failure
  });
  CHECK(right == 6);
  right = 0;
  run([&](np::comm::detail::meeting m) {
    if (m.rank == 2) {
      m.abort("no more power");
      std::this_thread::sleep_for(100ms);
      return;
    }
    auto const* f = told(m);
    right += f != nullptr && f->rank() == 2 && f->reason() == "no more power" ? 1 : 0;
  });
  CHECK(right == 2);
  CHECK(contains(failure_of(1, [&](threads&) { np::comm::detail::meet_over_tcp("127.0.0.1", port, 1, 2, 100ms); }), "rank 0 does not answer"));
  CHECK(contains(failure_of(1, [&](threads&) { np::comm::detail::meet_over_tcp("127.0.0.1", port, 0, 2, 100ms); }), "only 1 of 2 ranks came"));
}

TEST_CASE("the environment of a launcher") {
  ::unsetenv("RANK");
  CHECK_THROWS_WITH_AS(nccl::from_environment(), doctest::Contains("the environment variable RANK is not set"), np::config_error);
  ::setenv("RANK", "zero", 1);
  CHECK_THROWS_WITH_AS(nccl::from_environment(), doctest::Contains("the environment variable RANK is no number (zero)"), np::config_error);
  ::setenv("RANK", "0", 1);
  ::setenv("WORLD_SIZE", "1", 1);
  nccl comm = nccl::from_environment();
  CHECK(comm.size() == 1);
  comm_conformance::values(comm, 2, 100);
}
