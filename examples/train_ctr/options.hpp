#pragma once
/// @file
/// What the user asked for on the command line.

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

namespace train_ctr {

/// One optimizer with its numbers; a negative number means the optimizer's own default.
struct optimizer_choice {
  std::string name;
  double rate = -1;
  double l2 = 0;
  double l1 = 0;
  double eps = -1;
  double beta1 = -1;
  double beta2 = -1;
  double momentum = -1;
  double initial_accumulator = -1;
};

/// Numbers of an optimizer by name.
using optimizer_numbers = std::vector<std::pair<std::string, double>>;

struct options {
  // data
  std::vector<std::string> data, valid, test;
  std::string format = "criteo";
  std::string label;
  std::vector<std::string> categorical, dense, columns, positive;
  std::vector<std::pair<std::string, std::uint64_t>> buckets;
  std::vector<std::string> bucket_only;  // of these the dense column is dropped
  bool header = true;
  bool standardize = false;
  bool raw_dense = false;
  char delimiter = ',';
  char separator = 0;
  std::string fields = "bag";
  std::vector<std::uint64_t> slots;
  std::string split;
  std::uint64_t train_rows = 0;
  std::uint32_t min_count = 0;
  std::uint64_t shuffle_window = 0;
  bool regression = false;
  bool strict = false;
  std::string files = "shared";
  std::uint64_t synthetic_rows = 400'000;
  std::uint64_t synthetic_valid_rows = 50'000;
  std::uint64_t synthetic_vocabulary = 100'000;
  double synthetic_exponent = 1.05;

  // model
  std::string model = "dlrm";
  std::size_t dim = 16;
  std::vector<std::size_t> hidden, bottom;
  std::size_t cross_layers = 3;
  std::size_t cross_rank = 0;
  double embedding_scale = -1;
  std::string storage = "hashed";
  std::uint64_t memory_budget = 0;   // bytes, of the fast tiers of one rank
  std::string slow_tier;             // rocksdb, or not given
  std::string storage_dir;           // of rows on disk; empty: a place for temporary files
  std::uint64_t cardinality = 0;
  std::string codec = "float32";
  std::uint64_t admit_count = 1;
  double admit_probability = 1;
  std::uint32_t shards = 1024;

  // training
  optimizer_choice rows{.name = "adagrad"};
  optimizer_choice dense_part{.name = "adam"};
  std::uint64_t warmup_steps = 0, decay_start = 0, decay_steps = 0;
  double decay_power = 1, decay_end = 0;
  double row_clip = 0, dense_clip = 0;
  std::uint64_t batch_size = 2048;
  std::uint64_t epochs = 1;
  std::uint64_t steps = 0;
  std::uint64_t patience = 0;
  std::uint64_t seed = 1;

  // machine
  std::string schedule = "nested";
  std::string early_rows, split_backward;  // on, off, or not given
  std::uint64_t look_ahead = 0;      // batches routed beyond the next; 0: the schedule's own
  std::string executor = "threads";
  std::string reduction = "ordered";
  std::string cluster = "off";
  std::uint32_t cluster_groups = 0;  // 0: as many as ranks
  bool reuse_rows = false;
  std::uint64_t tune_steps = 0;      // per variant of the schedule; 0: as given
  std::uint64_t ranks = 1;
  std::uint64_t micro_batches = 1;  // of one rank
  std::uint64_t threads = 1;        // likewise
  double link_latency = 0, link_bandwidth = 0;  // emulated; 0: none
  bool mpi = false;                 // ranks are the processes of an MPI job

  // results
  std::uint64_t save_every = 0;      // steps; 0: only at the end
  std::uint64_t keep = 3;            // numbered checkpoints; 0: all
  bool incremental = false;
  std::string save, save_best, resume, report, predict, trace, timeline;
  bool quiet = false;

  std::vector<std::string> given;  // the command line, for the report
};

/// Reads the command line. `--help` and `--version` print and leave through `done`.
/// @throws nestpipe::config_error with one line for everything that is wrong with a value
struct parsed {
  options chosen;
  bool done = false;
};
parsed parse(int argc, char** argv);

/// Number of processes and this one's place in it when an MPI launcher started the program; size 0 otherwise.
struct launch {
  std::size_t size = 0;
  std::size_t rank = 0;
};
launch launched();

}  // namespace train_ctr
