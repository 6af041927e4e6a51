#pragma once
// What every communicator must do. A suite is a function over one rank's communicator, called on all ranks of a world;
// it throws std::runtime_error where a rank sees a wrong value, so that it works on any thread and under any launcher.

#include <nestpipe/comm/comm.hpp>

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace comm_conformance {

namespace np = nestpipe;
using np::comm::call_site;

inline void check(bool ok, std::string const& what) {
  if (!ok) throw std::runtime_error{"wrong: " + what};
}

/// Numbers that all ranks can compute for each other. [0, bound)
inline std::size_t draw(std::uint64_t seed, std::uint64_t a, std::uint64_t b, std::uint64_t bound) {
  std::mt19937_64 generator{seed * 1000003 + a * 1009 + b};
  generator.discard(3);
  return generator() % bound;
}
inline std::byte content(std::uint64_t seed, std::size_t from, std::size_t to, std::size_t i) {
  return static_cast<std::byte>((seed * 31 + from * 17 + to * 7 + i * 3) & 0xff);
}

template <class H>
void one_round_of_each(H& h, std::size_t rank, std::size_t size, std::uint64_t seed, std::size_t largest,
                       std::uint64_t step) {
  call_site const at{"conformance", step};
  {  // all_to_all_v: sizes differ by pair, one in three is zero
    auto const bytes = [&](std::size_t from, std::size_t to) {
      return draw(seed, from, to, 3) == 0 ? 0 : draw(seed + 1, from, to, largest + 1);
    };
    std::vector<std::size_t> send_bytes(size), recv_bytes(size);
    std::vector<std::byte> send, recv;
    std::size_t expected = 0;
    for (std::size_t r = 0; r < size; ++r) {
      send_bytes[r] = bytes(rank, r);
      recv_bytes[r] = bytes(r, rank);
      for (std::size_t i = 0; i < send_bytes[r]; ++i) send.push_back(content(seed, rank, r, i));
      expected += recv_bytes[r];
    }
    recv.assign(expected, std::byte{0xee});
    h.all_to_all_v(std::span<std::byte const>{send}, std::span<std::size_t const>{send_bytes}, std::span{recv},
                   std::span<std::size_t const>{recv_bytes}, at);
    std::size_t i = 0;
    for (std::size_t r = 0; r < size; ++r) {
      for (std::size_t j = 0; j < recv_bytes[r]; ++j, ++i) check(recv[i] == content(seed, r, rank, j), "all_to_all_v");
    }
  }
  {
    std::size_t const n = draw(seed, 1, 1, 4) == 0 ? 0 : draw(seed, 2, 2, largest + 1);
    std::vector<std::byte> send(n), recv(n * size);
    for (std::size_t i = 0; i < n; ++i) send[i] = content(seed, rank, 0, i);
    h.all_gather(std::span<std::byte const>{send}, std::span{recv}, at);
    for (std::size_t r = 0; r < size; ++r) {
      for (std::size_t i = 0; i < n; ++i) check(recv[r * n + i] == content(seed, r, 0, i), "all_gather");
    }
    // in place: the own part already lies where it belongs
    std::vector<std::byte> both(n * size);
    for (std::size_t i = 0; i < n; ++i) both[rank * n + i] = content(seed, rank, 5, i);
    h.all_gather(std::span<std::byte const>{both}.subspan(rank * n, n), std::span{both}, at);
    for (std::size_t r = 0; r < size; ++r) {
      for (std::size_t i = 0; i < n; ++i) check(both[r * n + i] == content(seed, r, 5, i), "all_gather in place");
    }
  }
  {
    std::size_t const n = draw(seed, 3, 3, 4) == 0 ? 0 : draw(seed, 4, 4, largest + 1);
    std::size_t const root = draw(seed, 5, 5, size);
    std::vector<std::byte> bytes(n);
    for (std::size_t i = 0; i < n; ++i) bytes[i] = content(seed, rank, 1, i);
    h.broadcast(std::span{bytes}, root, at);
    for (std::size_t i = 0; i < n; ++i) check(bytes[i] == content(seed, root, 1, i), "broadcast");
  }
  {
    std::size_t const n = draw(seed, 6, 6, 4) == 0 ? 0 : draw(seed, 7, 7, largest / 4 + 1);
    std::vector<float> values(n);  // small integers: their sum is exact in every order
    for (std::size_t i = 0; i < n; ++i) values[i] = static_cast<float>(rank * 3 + i % 100);
    h.all_reduce_sum(std::span{values}, at);
    for (std::size_t i = 0; i < n; ++i) {
      float expected = 0;
      for (std::size_t r = 0; r < size; ++r) expected += static_cast<float>(r * 3 + i % 100);
      check(values[i] == expected, "all_reduce_sum");
    }
  }
  h.barrier(at);
}

/// Values of every collective, sizes from zero up to `largest` bytes per pair.
template <class C>
void values(C& comm, std::size_t rounds, std::size_t largest) {
  auto channel = comm.channel("values");
  for (std::uint64_t i = 0; i < rounds; ++i) one_round_of_each(channel, comm.rank(), comm.size(), 100 + i, largest, i);
}

/// Several channels used at the same time, each by its own thread with its own delays.
template <class C>
void several_channels(C& comm, std::size_t channels, std::size_t rounds) {
  using channel_type = np::comm::channel_t<C>;
  std::vector<channel_type> open;
  for (std::size_t c = 0; c < channels; ++c) open.push_back(comm.channel("lane" + std::to_string(c)));
  std::vector<std::exception_ptr> failed(channels);
  std::vector<std::thread> lanes;
  for (std::size_t c = 0; c < channels; ++c) {
    lanes.emplace_back([&, c] {
      try {
        std::mt19937 delays{static_cast<unsigned>(comm.rank() * 100 + c)};
        for (std::uint64_t i = 0; i < rounds; ++i) {
          std::this_thread::sleep_for(std::chrono::microseconds{delays() % 300});
          one_round_of_each(open[c], comm.rank(), comm.size(), c * 1000 + i, 3000, i);
        }
      } catch (...) {
        failed[c] = std::current_exception();
      }
    });
  }
  for (auto& lane : lanes) lane.join();
  for (auto const& e : failed) {
    if (e) std::rethrow_exception(e);
  }
}

/// A barrier holds every rank until the last has come: nobody reads the counter early. Shared memory only.
template <class C>
void barrier_waits(C& comm, std::atomic<std::size_t>& arrived) {
  auto channel = comm.channel("barrier");
  for (std::size_t i = 1; i <= 50; ++i) {
    if (i % comm.size() == comm.rank()) std::this_thread::sleep_for(std::chrono::microseconds{200});
    arrived.fetch_add(1);
    channel.barrier({"barrier_waits", i});
    check(arrived.load() >= i * comm.size(), "barrier");
    channel.barrier({"barrier_waits", i});
  }
}

/// Many small steps: counts, payload, sum, as a training step has them.
template <class C>
void stress(C& comm, std::size_t steps) {
  auto channel = comm.channel("stress");
  std::size_t const size = comm.size(), rank = comm.rank();
  std::vector<std::uint64_t> counts(size), theirs(size), send, recv;
  std::vector<std::size_t> send_count(size), recv_count(size), ones(size, 1);
  np::comm::byte_counts scratch;
  for (std::uint64_t step = 0; step < steps; ++step) {
    call_site const at{"stress", step};
    send.clear();
    for (std::size_t r = 0; r < size; ++r) {
      counts[r] = (step * 7 + rank * 3 + r) % 20;
      send_count[r] = counts[r];
      for (std::size_t i = 0; i < counts[r]; ++i) send.push_back(step + rank * 1000 + r);
    }
    np::comm::all_to_all_v(channel, std::span<std::uint64_t const>{counts}, ones, std::span{theirs}, ones, scratch, at);
    std::size_t total = 0;
    for (std::size_t r = 0; r < size; ++r) total += recv_count[r] = theirs[r];
    recv.assign(total, 0);
    np::comm::all_to_all_v(channel, std::span<std::uint64_t const>{send}, send_count, std::span{recv}, recv_count,
                           scratch, at);
    std::size_t i = 0;
    for (std::size_t r = 0; r < size; ++r) {
      check(theirs[r] == (step * 7 + r * 3 + rank) % 20, "counts");
      for (std::size_t j = 0; j < recv_count[r]; ++j, ++i) check(recv[i] == step + r * 1000 + rank, "payload");
    }
    float one[3] = {1, 2, static_cast<float>(rank)};
    channel.all_reduce_sum(one, at);
    check(one[0] == static_cast<float>(size) && one[2] == static_cast<float>(size * (size - 1) / 2), "sum");
  }
}

/// Calls that cannot be right are refused before anything is sent.
template <class C>
void refuses_misuse(C& comm) {
  auto channel = comm.channel("misuse");
  std::size_t const size = comm.size();
  std::vector<std::byte> buffer(size * 4);
  std::vector<std::size_t> fours(size, 4), fives(size, 5), too_many(size + 1, 1);
  auto const refused = [&](auto call) {
    try {
      call();
    } catch (np::comm_error const& e) {
      check(std::string{e.what()}.find("misuse_stage, step 9") != std::string::npos, e.what());
      return;
    }
    check(false, "misuse was accepted");
  };
  call_site const at{"misuse_stage", 9};
  std::span<std::byte const> const send{buffer};
  std::span<std::byte> const recv{buffer};
  refused([&] {
    channel.all_to_all_v(send, std::span<std::size_t const>{too_many}, recv, std::span<std::size_t const>{too_many},
                         at);
  });
  refused([&] {
    channel.all_to_all_v(send, std::span<std::size_t const>{fives}, recv, std::span<std::size_t const>{fours}, at);
  });
  refused([&] {
    channel.all_to_all_v(send, std::span<std::size_t const>{fours}, recv, std::span<std::size_t const>{fives}, at);
  });
  refused([&] { channel.all_gather(send, recv.first(size * 4 - 1), at); });
  refused([&] { channel.broadcast(recv, size, at); });
  channel.barrier(at);  // and the channel still works
}

}  // namespace comm_conformance
