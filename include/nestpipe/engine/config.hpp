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

}  // namespace nestpipe::engine
