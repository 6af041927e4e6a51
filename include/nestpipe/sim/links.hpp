#pragma once
/// @file
/// How long a network takes: latency plus bytes over bandwidth ("alpha-beta"), on two levels.

#include <algorithm>
#include <bit>
#include <cstddef>
#include <limits>

namespace nestpipe::sim {

/// One direction of one worker's connection.
struct link {
  double latency = 0;  ///< seconds a message
  double bytes_per_second = std::numeric_limits<double>::infinity();

  double seconds(double messages, double bytes) const { return messages * latency + bytes / bytes_per_second; }
};

/// Workers in nodes. A worker sends on its own link inside the node and on its share of the node's link to others; both at once.
struct hierarchy {
  std::size_t workers_per_node = 1;
  link inside{};
  link between{};  ///< per worker

  /// Every worker sends a message to each other one. What stays on the worker is free.
  /// @param bytes  that one worker has for all workers together, itself included
  double all_to_all(double bytes, std::size_t workers) const {
    if (workers < 2) return 0;
    std::size_t const node = std::min(std::max<std::size_t>(workers_per_node, 1), workers);
    double const each = bytes / static_cast<double>(workers);
    auto const near = static_cast<double>(node - 1);
    auto const far = static_cast<double>(workers - node);
    return std::max(inside.seconds(near, near * each), between.seconds(far, far * each));
  }

  /// Reduce-scatter, then all-gather, as trees: each sends (W-1)/W of the bytes twice in 2 ceil(log2 W) rounds. The slower level counts.
  /// @param bytes  of the whole vector
  double all_reduce(double bytes, std::size_t workers) const {
    if (workers < 2) return 0;
    double const rounds = 2.0 * static_cast<double>(std::bit_width(workers - 1));
    double const sent = 2.0 * bytes * static_cast<double>(workers - 1) / static_cast<double>(workers);
    return workers <= workers_per_node ? inside.seconds(rounds, sent) : std::max(inside.seconds(rounds, sent), between.seconds(rounds, sent));
  }
};

}  // namespace nestpipe::sim
