#pragma once
/// @file
/// The configurations whose step times are predicted, listed before any was run. The simulator is calibrated on `sequential`
/// with 2 and with 16 micro-batches and exchange x 1 only.

#include "../exposure/experiment.hpp"

#include <vector>

namespace bench {

struct configuration {
  named_schedule chosen;
  std::size_t micro_batches;
  double exchange;  ///< seconds of exchange, times those of the calibration (the link's bandwidth divided by it)
};

inline std::vector<configuration> ten_configurations() {
  using namespace np::schedule;
  dual_buffer<> plain_dual;
  plain_dual.early = plain_dual.shared_first = false;
  frozen_window plain_frozen;
  plain_frozen.split_backward = false;
  return {{{"prefetch", prefetch{}}, 8, 1},
          {{"dual_buffer", dual_buffer<>{}}, 8, 1},
          {{"dual_buffer, nothing early", plain_dual}, 4, 2},
          {{"frozen_window", frozen_window{}}, 8, 1},
          {{"frozen_window, whole backward", plain_frozen}, 16, 1},
          {{"nested", nested_with(true, true, true)}, 8, 1},
          {{"nested", nested_with(true, true, true)}, 32, 1},
          {{"nested, no part", nested_with(false, false, false)}, 8, 1},
          {{"nested, no part", nested_with(false, false, false)}, 4, 0.5},
          {{"nested", nested_with(true, true, true)}, 8, 2.5}};
}

}  // namespace bench
