// Intervals of all ranks arrive on rank 0, on its clock, whatever the ranks' own clocks say.
#include <doctest/doctest.h>

#include <nestpipe/comm/self.hpp>
#include <nestpipe/comm/threads.hpp>
#include <nestpipe/engine/gather_trace.hpp>

#include <chrono>
#include <stdexcept>

namespace np = nestpipe;
namespace exec = np::exec;
using np::comm::threads;

namespace {

void check(bool ok, char const* what) {
  if (!ok) throw std::runtime_error{what};
}

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

template <class Comm>
void gathers(Comm& comm) {
  auto channel = comm.channel("control");
  std::size_t const r = comm.rank();
  double const offset = static_cast<double>(r) * 1000;
  auto const now = [&] { return seconds() - offset; };
  channel.barrier({"test", 0});
  double const common = seconds();
  // Rank r keeps 2 r intervals: none, two, four.
  std::vector<np::trace::interval> mine;
  for (std::uint64_t k = 0; k < 2 * r; ++k)
    mine.push_back({{exec::stage::read, k, static_cast<std::uint32_t>(r)}, {exec::lane::input, k + 1}, now(), now() + 1, {}, 0});
  auto const all = np::engine::gather_trace(channel, r, comm.size(), std::span<np::trace::interval const>{mine}, now);
  if (r != 0) return check(all.empty(), "only rank 0 gets them");
  check(all.size() == comm.size(), "every rank");
  for (std::size_t n = 0; n < all.size(); ++n) {
    check(all[n].rank == n && all[n].intervals.size() == 2 * n, "counts");
    for (std::size_t k = 0; k < all[n].intervals.size(); ++k) {
      auto const& i = all[n].intervals[k];
      check(i.what.batch == k && i.what.part == n && i.self.ticket == k + 1, "content");
      check(std::abs(i.begin - common) < 1.0 && i.end - i.begin > 0.9, "on rank 0's clock");
    }
  }
}

}  // namespace

TEST_CASE("one rank") {
  np::comm::self comm;
  gathers(comm);
}

TEST_CASE("three ranks with clocks a thousand seconds apart") {
  threads::run(3, [](threads& comm) { gathers(comm); });
}
