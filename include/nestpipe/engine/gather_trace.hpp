#pragma once
/// @file
/// All ranks' intervals on one rank and on one clock, for timelines.

#include <nestpipe/comm/comm.hpp>
#include <nestpipe/trace/chrome.hpp>

#include <algorithm>
#include <cstring>

namespace nestpipe::engine {

/// Collective. Rank 0 gets every rank's intervals on its own clock, the others get nothing.
/// @param channel  the engine's control channel, lanes idle
/// @param mine     this rank's intervals, on the clock that `now` reads
/// @param now      callable: seconds
/// @note Clocks are lined up by barriers: to tens of microseconds where cores are free; medians of several are taken.
template <comm::channel Channel, class Now>
std::vector<trace::rank_intervals> gather_trace(Channel& channel, std::size_t rank, std::size_t size, std::span<trace::interval const> mine, Now now) {
  comm::call_site const at{"gather_trace", 0};
  constexpr std::size_t rounds = 21;
  std::array<double, rounds> stamps{};
  for (double& s : stamps) {
    channel.barrier(at);
    s = now();
  }
  struct header {
    std::array<double, rounds> stamps;
    std::uint64_t intervals;
  };
  header const own{stamps, mine.size()};
  std::vector<header> all(size);
  channel.all_gather(std::as_bytes(std::span{&own, 1}), std::as_writable_bytes(std::span{all}), at);

  static_assert(std::is_trivially_copyable_v<trace::interval>);
  std::vector<std::size_t> to(size, 0), from(size, 0);
  to[0] = mine.size_bytes();
  std::size_t total = 0;
  for (std::size_t r = 0; r < size && rank == 0; ++r) total += from[r] = static_cast<std::size_t>(all[r].intervals) * sizeof(trace::interval);
  std::vector<std::byte> bytes(total);
  channel.all_to_all_v(std::as_bytes(mine), std::span<std::size_t const>{to}, std::span{bytes}, std::span<std::size_t const>{from}, at);

  std::vector<trace::rank_intervals> ranks;
  std::byte const* next = bytes.data();
  for (std::size_t r = 0; r < size && rank == 0; ++r) {
    std::array<double, rounds> ahead{};
    for (std::size_t k = 0; k < rounds; ++k) ahead[k] = all[r].stamps[k] - own.stamps[k];
    std::nth_element(ahead.begin(), ahead.begin() + rounds / 2, ahead.end());
    double const shift = ahead[rounds / 2];
    trace::rank_intervals one{r, std::vector<trace::interval>(static_cast<std::size_t>(all[r].intervals))};
    if (from[r] != 0) std::memcpy(one.intervals.data(), next, from[r]);
    next += from[r];
    for (auto& i : one.intervals) {
      i.begin -= shift;
      i.end -= shift;
    }
    ranks.push_back(std::move(one));
  }
  return ranks;
}

/// As above, for a trainer that has trained with an executor that records.
template <class Trainer>
std::vector<trace::rank_intervals> gather_trace(Trainer& trainer)
  requires requires { trainer.executor().recorder(); }
{
  auto& comm = trainer.engine().comm();
  auto const mine = trainer.executor().recorder().intervals();
  return gather_trace(trainer.engine().control(), comm.rank(), comm.size(), mine, [&] { return trainer.executor().now(); });
}

}  // namespace nestpipe::engine
