#pragma once
/// @file
/// What the engine is told once.

#include <nestpipe/core/schema.hpp>
#include <nestpipe/embedding/cluster_mode.hpp>
#include <nestpipe/model/model.hpp>

namespace nestpipe::engine {

struct engine_config {
  struct schema schema;
  embedding_layout layout;
  enum model::task task = model::task::binary;
  std::size_t batch_size = 2048;     ///< global, rows
  std::size_t micro_batches = 1;     ///< of one rank
  std::size_t threads = 1;           ///< that compute for this rank; the same on every rank. Same bits for any number
  std::uint64_t seed = 1;
  std::uint32_t shards = 1024;       ///< fixed for the life of a model
  std::uint32_t slots = 6;           ///< batches that may be in flight, at least 2
  std::uint32_t windows = 1;         ///< 2: consecutive batches overlap
  bool early_rows = false;           ///< the first exchange of a batch comes in two portions (needs two windows)
  bool reuse_rows = false;           ///< a rank receives each row once per batch and keeps it: fewer bytes, a larger landing buffer
  bool dense_buckets = true;         ///< dense gradients are reduced in parts, each as soon as backward has it, where the model has parts
  std::string data_transform{};      ///< goes into checkpoints: see trainer_config
  std::string data_order{};
  bool per_rank_files = false;
  embedding::clustering cluster = embedding::clustering::off;  ///< moves samples among micro-batches so that they share keys
  /// Samples stay among global micro-batches with equal number modulo this. The ranks divide it, it divides the micro-batches
  /// of all ranks. 0: the number of ranks.
  std::uint32_t cluster_groups = 0;
  float row_clip_norm = 0.0f;        ///< 0: rows are not clipped
  float dense_clip_norm = 0.0f;      ///< 0: dense gradients are not clipped
};

/// The same with what may be left open filled in.
/// @throws config_error on values that do not fit together
inline engine_config checked(engine_config c, std::size_t world_size) {
  require(c.batch_size > 0, "batch size must be at least 1", {}, "set batch_size");
  require(c.micro_batches > 0, "micro-batches per rank must be at least 1", {}, "set micro_batches");
  require(c.threads > 0 && c.threads <= 1024, "threads of a rank must be from 1 to 1024", {}, "set threads");
  require(c.windows == 1 || c.windows == 2, "a schedule uses one or two windows", "schedule", "return 1 or 2 from windows()");
  require(!c.early_rows || c.windows == 2, "early rows need two windows", "schedule", "use dual_buffer");
  require(c.slots >= 2 * c.windows && c.slots <= 64, "batches in flight must be from 2 (4 with two windows) to 64", {}, "set batches_in_flight");
  require(!c.per_rank_files || c.batch_size % world_size == 0, "with files per rank the batch size must be a multiple of the number of ranks",
          "batch size " + std::to_string(c.batch_size) + ", ranks " + std::to_string(world_size), "change either");
  std::size_t const all = world_size * c.micro_batches;
  if (c.cluster_groups == 0) c.cluster_groups = static_cast<std::uint32_t>(world_size);
  require(c.cluster_groups % world_size == 0 && all % c.cluster_groups == 0, "cluster groups must be a multiple of the ranks and divide the micro-batches of all ranks",
          "cluster groups " + std::to_string(c.cluster_groups) + ", ranks " + std::to_string(world_size) + ", micro-batches " + std::to_string(all),
          "set cluster_groups to such a number, or to 0 for one group a rank");
  return c;
}

}  // namespace nestpipe::engine
