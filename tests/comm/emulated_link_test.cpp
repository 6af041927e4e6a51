#include <doctest/doctest.h>

#include <nestpipe/comm/any_of.hpp>
#include <nestpipe/comm/emulated_link.hpp>
#include <nestpipe/comm/self.hpp>
#include <nestpipe/comm/threads.hpp>

#include "comm_conformance.hpp"

#include <array>
#include <chrono>
#include <thread>

namespace np = nestpipe;
using np::comm::link_options;
using np::comm::self;
using np::comm::threads;
using linked = np::comm::emulated_link<threads>;
using any_linked = np::comm::emulated_link<np::comm::any_of<self, threads>>;

static_assert(np::comm::communicator<linked> && np::comm::audit<linked>());
static_assert(np::comm::communicator<any_linked>);
static_assert(np::comm::communicator<np::comm::any_of<linked, self>>);

namespace {

double seconds_since(std::chrono::steady_clock::time_point begin) { return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count(); }

// The link seconds that one rank's collective has taken by plan, beside the real ones, which the machine's load adds to.
template <class Call>
std::array<double, 2> cost(linked& comm, linked::channel_type& channel, Call call) {
  channel.barrier({"align", 0});
  double const before = comm.traffic().seconds;
  auto const begin = std::chrono::steady_clock::now();
  call();
  double const real = seconds_since(begin);
  return {comm.traffic().seconds - before, real};
}

void uneven(linked::channel_type& channel, std::size_t rank, std::size_t size, std::size_t unit) {
  std::vector<std::size_t> to(size), from(size);
  std::size_t out = 0, in = 0;
  for (std::size_t r = 0; r < size; ++r) {
    to[r] = r == rank ? 5 : unit * (rank + 1);
    from[r] = r == rank ? 5 : unit * (r + 1);
    out += to[r];
    in += from[r];
  }
  std::vector<std::byte> send(out), recv(in);
  channel.all_to_all_v(std::span<std::byte const>{send}, std::span<std::size_t const>{to}, std::span{recv}, std::span<std::size_t const>{from}, {"uneven", 1});
}

}  // namespace

TEST_CASE("the whole suite over a slow link, values and misuse as without") {
  link_options const slow{20e-6, 1e9, {}};
  std::atomic<std::size_t> arrived{0};
  threads::run(3, [&](threads& inner) {
    linked comm{inner, slow};
    comm_conformance::values(comm, 15, 3000);
    comm_conformance::several_channels(comm, 3, 8);
    comm_conformance::refuses_misuse(comm);
    comm_conformance::barrier_waits(comm, arrived);
    comm_conformance::stress(comm, 50);
  });
  any_linked alone{np::comm::any_of<self, threads>{self{}}, slow};
  comm_conformance::values(alone, 5, 100);
  CHECK(alone.traffic().messages_out == 0);
}

TEST_CASE("a transfer takes latency plus bytes over bandwidth, and the caller sleeps for it") {
  threads::run(2, [](threads& inner) {
    linked comm{inner, {2e-3, 1e6, {}}};
    auto channel = comm.channel("x");
    // Rank 0 sends 4000 bytes, rank 1 sends 8000: each rank waits for the longer of both ways.
    auto const [planned, real] = cost(comm, channel, [&] { uneven(channel, comm.rank(), 2, 4000); });
    comm_conformance::check(planned > 0.010 - 1e-9 && planned < 0.010 + 1e-6, "2 ms + 8 ms, planned " + std::to_string(planned));
    comm_conformance::check(real >= 0.0095, "slept, real " + std::to_string(real));
    auto const before = comm.traffic();
    comm_conformance::check(before.bytes_out == 4000 * (comm.rank() + 1), "bytes out");
    comm_conformance::check(before.bytes_in == 4000 * (2 - comm.rank()), "bytes in");
    comm_conformance::check(before.messages_out == 2, "one barrier message, one block");

    std::vector<float> values(1000, 1.0f);
    auto const reduced = cost(comm, channel, [&] { channel.all_reduce_sum(std::span{values}, {"sum", 1}); });
    comm_conformance::check(std::abs(reduced[0] - 2 * (2e-3 + 2000e-6)) < 1e-6, "two halves of 2000 bytes");
    std::vector<std::byte> one(500), all(1000);
    auto const gathered = cost(comm, channel, [&] { channel.all_gather(std::span<std::byte const>{one}, std::span{all}, {"gather", 1}); });
    comm_conformance::check(std::abs(gathered[0] - 2.5e-3) < 1e-6, "one block");
    auto const cast = cost(comm, channel, [&] { channel.broadcast(std::span{all}, 1, {"cast", 1}); });
    comm_conformance::check(std::abs(cast[0] - 3e-3) < 1e-6, "one message from the root");
    std::vector<std::size_t> const nothing(2, 0);
    auto const empty = cost(comm, channel, [&] {
      channel.all_to_all_v({}, std::span<std::size_t const>{nothing}, {}, std::span<std::size_t const>{nothing}, {"empty", 1});
    });
    comm_conformance::check(empty[0] == 0, "no bytes, no message");
  });
}

TEST_CASE("messages of one rank queue on its link, whatever the channel") {
  // Two channels at once over one link: together they take as long as one after the other.
  threads::run(2, [](threads& inner) {
    linked comm{inner, {10e-3, 1e9, {}}};
    auto a = comm.channel("a");
    auto b = comm.channel("b");
    a.barrier({"align", 0});
    auto const begin = std::chrono::steady_clock::now();
    std::thread other{[&] { uneven(b, comm.rank(), 2, 10); }};
    uneven(a, comm.rank(), 2, 10);
    other.join();
    comm_conformance::check(seconds_since(begin) >= 0.0195, "20 ms over one link");
  });
}

TEST_CASE("three other ranks are three messages out and three in") {
  threads::run(4, [](threads& inner) {
    linked comm{inner, {1e-3, 1e9, {}}};
    auto channel = comm.channel("x");
    std::vector<std::byte> one(1), all(4);
    auto const gathered = cost(comm, channel, [&] { channel.all_gather(std::span<std::byte const>{one}, std::span{all}, {"gather", 1}); });
    comm_conformance::check(std::abs(gathered[0] - 3e-3) < 1e-5, "three rounds, planned " + std::to_string(gathered[0]));
  });
}

TEST_CASE("ranks without shared memory queue their own messages") {
  // As under MPI: comm::threads without share.
  struct apart {
    threads inner;
    std::size_t rank() const { return inner.rank(); }
    std::size_t size() const { return inner.size(); }
    threads::channel_type channel(std::string_view name) { return inner.channel(name); }
    void abort(std::string_view reason) noexcept { inner.abort(reason); }
  };
  threads::run(3, [](threads& inner) {
    np::comm::emulated_link<apart> comm{apart{inner}, {1e-3, 1e6, {}}};
    comm_conformance::values(comm, 5, 300);
    comm_conformance::refuses_misuse(comm);
    auto channel = comm.channel("x");
    channel.barrier({"align", 0});
    auto const before = comm.traffic();
    std::vector<std::byte> one(1000), all(3000);
    channel.all_gather(std::span<std::byte const>{one}, std::span{all}, {"gather", 1});
    auto const after = comm.traffic();
    comm_conformance::check(after.bytes_out - before.bytes_out == 2000 && after.bytes_in - before.bytes_in == 2000, "own messages");
    comm_conformance::check(std::abs(after.seconds - before.seconds - 4e-3) < 1e-6, "two messages of 2 ms");
  });
}

TEST_CASE("only the chosen channels are slow") {
  threads::run(2, [](threads& inner) {
    linked comm{inner, {5e-3, 1e6, {"slow"}}};
    auto fast = comm.channel("fast");
    auto slow = comm.channel("slow");
    for (int i = 0; i < 20; ++i) uneven(fast, comm.rank(), 2, 1000);
    comm_conformance::check(comm.traffic().messages_out == 0, "nothing on the link");
    uneven(slow, comm.rank(), 2, 1000);
    comm_conformance::check(comm.traffic().messages_out == 1, "one message");
  });
}

TEST_CASE("abort wakes a rank that waits for its link, share goes through, labels name what is emulated") {
  CHECK_THROWS_WITH_AS(threads::run(2,
                                    [](threads& inner) {
                                      linked comm{inner, {60.0, 1e9, {}}};
                                      auto const p = np::comm::share<int>(comm, [] { return std::make_shared<int>(3); });
                                      comm_conformance::check(p.use_count() >= 2, "one object");
                                      auto channel = comm.channel("x");
                                      auto const begin = std::chrono::steady_clock::now();
                                      if (comm.rank() == 1) {
                                        std::thread late{[&] {
                                          std::this_thread::sleep_for(std::chrono::milliseconds{50});
                                          comm.abort("enough");
                                        }};
                                        channel.barrier({"waiting", 1});
                                        late.join();
                                      } else {
                                        channel.barrier({"waiting", 1});
                                      }
                                      comm_conformance::check(seconds_since(begin) < 30, "woken");
                                      channel.barrier({"after", 2});
                                    }),
                       "rank 1 failed: enough", np::comm_error);

  linked const comm{threads::make(1).front(), {50e-6, 1.25e8, {"exchange", "reduce"}}};
  CHECK(comm.label() == "emulated link, 50 us a message, 125 MB/s, channels exchange reduce");
  CHECK(link_options{0, 2500.0, {}}.label() == "emulated link, 0 us a message, 2.5 kB/s");
  CHECK(link_options{}.label() == "no emulated link");
  CHECK_THROWS_AS((linked{threads::make(1).front(), {-1.0, 1.0, {}}}), np::config_error);
  CHECK_THROWS_AS((linked{threads::make(1).front(), {0.0, 0.0, {}}}), np::config_error);
}
