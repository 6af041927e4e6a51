#pragma once
/// @file
/// What a run found out, as JSON and as a table.

#include "options.hpp"
#include "watched.hpp"

#include <nestpipe/metric/collector.hpp>
#include <nestpipe/storage/tier_options.hpp>

#include <optional>

namespace train_ctr {

struct epoch_record {
  std::uint64_t epoch = 0;
  std::uint64_t steps = 0;
  double train_loss = 0;
  double seconds = 0;  ///< training only
  std::optional<nestpipe::metric::summary> valid;
};

/// The result of rank 0; the same on every rank but for times and memory.
struct report {
  std::uint64_t samples = 0;
  std::uint64_t steps = 0;
  std::uint64_t total_steps = 0;  ///< those before --resume included
  double seconds = 0;             ///< training, without evaluations
  double floor_seconds = 0;       ///< the least that work takes on what this machine reached; with a report only
  double train_loss = 0;          ///< of the last epoch
  std::vector<epoch_record> epochs;
  std::optional<std::uint64_t> best_epoch;
  std::optional<nestpipe::metric::summary> valid, test;  ///< of the best epoch
  std::optional<double> best_auc;                        ///< possible on the synthetic stream
  std::string digest;
  std::uint64_t unique_rows = 0;
  std::uint64_t refused_occurrences = 0, dropped_gradients = 0;  ///< by --admit-count and --admit-probability
  nestpipe::storage::tier_counters tiers;                ///< of all ranks
  std::uint64_t data_rows = 0;
  std::uint64_t skipped_lines = 0;  ///< malformed ones, each counted once
  std::vector<std::string> complaints;
  std::uint64_t dense_parameters = 0;
  std::size_t features = 0, dense_columns = 0;
  nestpipe::trace::stage_times times;                    ///< of rank 0
  std::vector<std::pair<std::uint64_t, std::uint64_t>> rss_at;  ///< (step, bytes)
  bool stopped = false;
  optimizer_numbers row_numbers, dense_numbers;
};

std::string to_json(options const& o, report const& r);
std::string to_table(options const& o, report const& r);
/// One line for the end of an epoch.
std::string epoch_line(epoch_record const& e);

}  // namespace train_ctr
