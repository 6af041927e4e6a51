#pragma once
/// @file
/// What is simulated: costs for any number of workers.

#include "options.hpp"

#include <functional>

namespace simulate_cluster {

using cost = std::function<double(nestpipe::exec::op const&, std::size_t)>;

struct machine {
  std::string name;
  bool industrial = false;
  std::function<cost(std::size_t workers, std::uint32_t micro_batches)> at;
  std::vector<std::size_t> workers;  ///< where it was measured or described
  std::uint32_t micro_batches = 1;
  double hand_over = 0;
  bool one_link = false;             ///< for all that crosses the network
  bool ranks_differ = false;         ///< then every worker is simulated, else one stands for all
  std::string note;                  ///< how other sizes follow
  /// Sizes outside what the profile was taken at.
  bool extrapolated(std::size_t w) const { return w < workers.front() || w > workers.back(); }
};

/// @throws nestpipe::data_error  a file that cannot be read or is no profile
/// @throws nestpipe::config_error  profiles that do not fit together
machine open(options const& o);

}  // namespace simulate_cluster
