#include "runs.hpp"

#include <algorithm>

namespace simulate_cluster {

namespace np = nestpipe;
namespace exec = np::exec;

namespace {

constexpr np::sim::plan usual{.batches = 32, .warm_up = 16};

double busiest(np::trace::stage_times const& t) {
  std::array<double, exec::lane_count> lanes{};
  for (std::size_t s = 0; s < exec::stage_count; ++s) lanes[static_cast<std::size_t>(exec::lane_of(static_cast<exec::stage>(s)))] += t.total[s];
  return *std::max_element(lanes.begin(), lanes.end());
}

}  // namespace

std::uint64_t steady_batch() { return usual.warm_up; }

result run(machine const& m, std::size_t workers, std::uint32_t micro_batches, std::string const& schedule, bool intervals) {
  np::require(!m.ranks_differ || workers <= 100'000, "workers that differ are simulated one by one, 100000 at most", std::to_string(workers));
  np::sim::plan plan = usual;
  plan.micro_batches = micro_batches;
  np::sim::virtual_lanes<cost> lanes{m.at(workers, micro_batches), m.ranks_differ ? workers : 1, m.hand_over};
  lanes.share_link(m.one_link);
  result r;
  r.workers = workers;
  r.schedule = schedule;
  r.micro_batches = micro_batches;
  r.predicted = np::sim::simulate(schedule_named(schedule), lanes, plan);
  r.busiest_lane = busiest(r.predicted.per_step);
  r.extrapolated = m.extrapolated(workers);
  if (intervals) r.intervals = lanes.recorder().intervals();
  return r;
}

}  // namespace simulate_cluster
