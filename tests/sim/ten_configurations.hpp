#pragma once
// What is predicted from two sequential runs (2 and 16 micro-batches), chosen before any was run.

#include "sim/schedules.hpp"

#include <nestpipe/schedule/any_of.hpp>
#include <nestpipe/sim/step_parts.hpp>

#include <string>
#include <vector>

namespace nestpipe::test {

using schedules = schedule::any_of<schedule::sequential, schedule::prefetch, schedule::dual_buffer<>, schedule::frozen_window, schedule::nested>;

struct configuration {
  std::string name;
  schedules schedule;
  std::uint32_t micro_batches;
  double exchange;  // times the calibrated exchange
};

// A plain step of about 60 ms, split as published for 1,536 workers; every message takes its latency besides.
inline sim::step_parts calibrated_parts() { return {.lookup = 0.0298, .exchange = 0.0125, .compute = 0.0178}; }
inline constexpr double message_seconds = 2e-4;

inline std::vector<configuration> ten_configurations() {
  return {{"prefetch, 4 micro-batches", schedule::prefetch{}, 4, 1},
          {"dual_buffer, 4 micro-batches", schedule::dual_buffer<>{}, 4, 1},
          {"dual_buffer, 8 micro-batches, exchange x 2", schedule::dual_buffer<>{}, 8, 2},
          {"frozen_window, 4 micro-batches", schedule::frozen_window{}, 4, 1},
          {"frozen_window as published, 8 micro-batches", plain_frozen(), 8, 1},
          {"nested, 2 micro-batches", schedule::nested{}, 2, 1},
          {"nested, 8 micro-batches", schedule::nested{}, 8, 1},
          {"nested as published, 8 micro-batches", plain_nested(), 8, 1},
          {"nested as published, 4 micro-batches, exchange x 2", plain_nested(), 4, 2},
          {"nested, 8 micro-batches, exchange x 0.25", schedule::nested{}, 8, 0.25}};
}

}  // namespace nestpipe::test
