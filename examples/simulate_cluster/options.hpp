#pragma once
/// @file
/// Command line of simulate_cluster.

#include <nestpipe/schedule/any_of.hpp>
#include <nestpipe/schedule/nested.hpp>
#include <nestpipe/schedule/prefetch.hpp>
#include <nestpipe/sim/industrial.hpp>

#include <string>
#include <vector>

namespace simulate_cluster {

using schedules = nestpipe::schedule::any_of<nestpipe::schedule::sequential, nestpipe::schedule::prefetch, nestpipe::schedule::dual_buffer<>,
                                             nestpipe::schedule::frozen_window, nestpipe::schedule::nested>;

struct options {
  std::vector<std::string> profiles;
  std::vector<std::size_t> workers;      ///< empty: as the profile has it
  std::vector<std::string> schedule_names;
  std::uint32_t micro_batches = 0;       ///< 0: as the profile has it
  std::string report, timeline;
  nestpipe::sim::industrial::law law = nestpipe::sim::industrial::law::power;
  std::string link;                      ///< shared, separate; empty: as the profile has it
  double early_share = 0.5;
  double skew = 0;
  std::uint64_t seed = 1;
};

/// @return false if there is nothing to do but what was printed (--help)
/// @throws nestpipe::config_error
bool parse(int argc, char** argv, options& o);

/// sequential, prefetch, dual_buffer, frozen_window or nested; behind it `_plain` (as published: no early rows, nothing shared first,
/// whole backward), then any of +early, +shared, +split to switch one on.
/// @throws nestpipe::config_error
schedules schedule_named(std::string const& text);

}  // namespace simulate_cluster
