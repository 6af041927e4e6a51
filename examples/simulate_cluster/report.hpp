#pragma once
/// @file
/// What simulate_cluster prints and writes.

#include "runs.hpp"

namespace simulate_cluster {

void print(machine const& m, std::vector<result> const& results, std::size_t base);

/// nestpipe-industrial beside what was published, and what goes beyond it.
void print_consistency(machine const& m, options const& o);

/// @throws nestpipe::error if the file cannot be written
void write_report(options const& o, machine const& m, std::vector<result> const& results, std::size_t base);
void write_timeline(options const& o, result const& r);

}  // namespace simulate_cluster
