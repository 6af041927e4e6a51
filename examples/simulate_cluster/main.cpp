// ctest: --profile nestpipe-industrial
/// @file
/// simulate_cluster: step times of a cluster, predicted by the very schedules that train. `simulate_cluster --help` lists the flags.
///
/// Exit status: 0 done; 2 a bad value on the command line; 1 anything else, with one line on standard error.

#include "report.hpp"

#include <algorithm>
#include <cstdio>

namespace {

using namespace simulate_cluster;

void simulate(options o) {
  machine const m = open(o);
  if (o.workers.empty()) o.workers = m.industrial ? std::vector<std::size_t>{128, 1536, 10'000, 100'000} : m.workers;
  if (o.schedule_names.empty()) o.schedule_names = {"sequential", "prefetch", "dual_buffer_plain", "frozen_window_plain", "nested_plain", "nested"};
  std::uint32_t const n = o.micro_batches == 0 ? m.micro_batches : o.micro_batches;
  // With a published size to compare with, or from the smallest asked for.
  std::size_t const base = m.industrial ? m.workers.front() : *std::min_element(o.workers.begin(), o.workers.end());
  std::vector<result> results;
  std::vector<double> at_base;
  for (auto const& s : o.schedule_names) at_base.push_back(run(m, base, n, s).predicted.step_seconds);
  for (std::size_t const w : o.workers) {
    for (std::size_t i = 0; i < o.schedule_names.size(); ++i) {
      bool const last = w == o.workers.back() && i + 1 == o.schedule_names.size();
      results.push_back(run(m, w, n, o.schedule_names[i], last && !o.timeline.empty()));
      results.back().efficiency = at_base[i] / results.back().predicted.step_seconds;
    }
  }
  print(m, results, base);
  if (m.industrial && o.skew == 0) print_consistency(m, o);
  if (!o.report.empty()) write_report(o, m, results, base);
  if (!o.timeline.empty()) write_timeline(o, results.back());
}

int fail(std::exception const& e, int status) {
  std::fprintf(stderr, "simulate_cluster: %s\n", e.what());
  return status;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    options o;
    if (parse(argc, argv, o)) simulate(o);
    return 0;
  } catch (nestpipe::config_error const& e) {
    return fail(e, 2);
  } catch (std::exception const& e) {
    return fail(e, 1);
  }
}
