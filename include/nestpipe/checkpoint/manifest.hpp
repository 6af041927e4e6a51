#pragma once
/// @file
/// manifest.json: everything about a checkpoint but the numbers themselves.

#include <nestpipe/checkpoint/detail/file.hpp>
#include <nestpipe/checkpoint/json.hpp>
#include <nestpipe/core/digest.hpp>
#include <nestpipe/core/schema.hpp>
#include <nestpipe/core/version.hpp>
#include <nestpipe/data/data.hpp>
#include <nestpipe/model/model.hpp>

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

namespace nestpipe::checkpoint {

/// What is written. Version 1, which had no deltas, is read too.
inline constexpr std::uint64_t format_version = 2;

namespace detail {

inline constexpr char const* pooling_names[] = {"sum", "mean", "none", "sum_and_squares"};
inline constexpr char const* init_names[] = {"zeros", "uniform", "normal"};
inline constexpr char const* task_names[] = {"binary", "regression"};
constexpr char const* pooling_name(pooling p) { return pooling_names[static_cast<std::size_t>(p)]; }
constexpr char const* init_name(row_init::kind k) { return init_names[static_cast<std::size_t>(k)]; }
constexpr char const* task_name(model::task t) { return task_names[static_cast<std::size_t>(t)]; }

}  // namespace detail

struct table_entry {
  struct table spec;
  std::uint64_t state_floats = 0;  ///< optimizer state beside an embedding
  std::uint64_t rows = 0;          ///< over all ranks
};

struct parameter_entry {
  std::string name;
  std::uint64_t rows = 0;
  std::uint64_t cols = 0;
  std::uint64_t state_floats = 0;  ///< beside one row of cols floats
};

/// A file of rows of one table: those of some of the shards that one rank owned, sorted by (shard, key). Files may overlap in shards.
struct rows_file_entry {
  std::string name;
  std::uint64_t table = 0;
  std::uint64_t rank = 0;         ///< the shards are congruent to it modulo manifest::world_size
  std::uint64_t first_shard = 0;  ///< and in [first_shard, last_shard]
  std::uint64_t last_shard = 0;
  std::uint64_t rows = 0;
  std::uint64_t removed = 0;      ///< keys whose rows are gone since the parent; in deltas only
  detail::file_sum sum{};
};

/// The checkpoint beside this one that a delta changes.
struct parent_entry {
  std::string directory;         ///< its name; none for a full checkpoint
  std::uint64_t checksum = 0;    ///< of its manifest.json, so of everything it names
};

/// Names of the policies; those that shape the numbers must be the same when loading, the others are for the reader.
struct policy_names {
  std::string model, row_optimizer, dense_optimizer, storage;
};

struct manifest {
  std::uint64_t step = 0;          ///< global batches trained; also the step of bias corrections
  std::uint64_t samples = 0;
  std::uint64_t seed = 0;          ///< of the counter-based generator: it has no other state
  std::uint64_t shards = 0;
  std::uint64_t batch_size = 0;    ///< global
  std::uint64_t micro_batches = 0; ///< over all ranks
  std::uint64_t world_size = 0;    ///< ranks that wrote this
  bool per_rank_files = false;
  std::string data_transform;          ///< how inputs are made from the data, in the program's words; must not change
  std::string data_order;              ///< which rows come in which order; must not change in the middle of an epoch
  enum model::task task = model::task::binary;
  data::data_position position{};  ///< the next row to train on
  schema columns{};
  std::vector<table_entry> tables{};
  std::vector<feature> features{};
  policy_names policies{};
  std::vector<parameter_entry> parameters{};
  detail::file_sum dense_file{};   ///< dense.safetensors
  std::vector<rows_file_entry> files{};
  parent_entry parent{};           ///< of a delta: all other rows are as there
  digest digest_of_all{};          ///< of what the files hold: parameters_digest, if this is no delta
};

}  // namespace nestpipe::checkpoint
