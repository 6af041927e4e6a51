#pragma once
/// @file
/// Everything about a training run that is a number or a name rather than a type.

#include <nestpipe/core/schema.hpp>
#include <nestpipe/embedding/cluster_mode.hpp>
#include <nestpipe/model/model.hpp>
#include <nestpipe/optimizer/rate_schedule.hpp>

#include <functional>

namespace nestpipe {

/// State of a run after an update; the same on every rank.
struct progress {
  std::uint64_t epoch = 0;
  std::uint64_t step = 0;           ///< global batches trained
  std::uint64_t batch_samples = 0;  ///< good samples of this batch
  double loss = 0;                  ///< mean over them, before the update
};

struct trainer_config {
  std::vector<table> tables{};      ///< empty: one table per feature of the data, shaped as the model asks
  std::vector<feature> features{};  ///< empty: as above. In the order of the data's features
  std::size_t dim = 16;             ///< embedding size that the model is asked with
  std::uint64_t cardinality = 0;    ///< of every table made from the data; 0: unknown (storage::dense needs it)
  enum model::task task = model::task::binary;

  std::size_t batch_size = 2048;    ///< rows of a *global* batch; the loss is the mean over its good samples
  std::size_t micro_batches = 1;    ///< of one rank. Results depend on ranks * micro_batches, not on either alone
  /// Threads that compute for one rank: so many micro-batches at once, and shares of what is done row by row. Give a rank at least as
  /// many micro-batches. Results do not depend on it; the same on every rank.
  std::size_t threads = 1;
  std::uint64_t epochs = 1;
  std::uint64_t steps = 0;          ///< stop after so many global batches; 0: no limit
  std::uint64_t seed = 1;
  std::uint32_t shards = 1024;      ///< key ranges that move between ranks as a whole; fixed for the life of a model
  std::uint32_t batches_in_flight = 6;
  bool reuse_rows = false;          ///< each row goes to a rank once per batch and stays there: fewer bytes, more memory
  bool dense_buckets = true;        ///< large dense networks are reduced in parts while backward goes on. With the default reduction the bits are the same
  embedding::clustering cluster = embedding::clustering::off;  ///< samples that share keys go to the same micro-batch: fewer rows travel
  /// Samples stay among micro-batches of the whole batch with equal number modulo this, so results depend on it. A multiple of
  /// the number of ranks that divides ranks * micro_batches; 0: the number of ranks.
  std::uint32_t cluster_groups = 0;
  /// How the program makes inputs from data (fitted statistics, vocabularies), as text that tells two ways apart: a checkpoint
  /// keeps it, and load refuses another. Empty where the data are used as they are.
  std::string data_transform{};
  /// Which rows come in which order (shuffle, split), likewise; load refuses another in the middle of an epoch.
  std::string data_order{};
  bool per_rank_files = false;      ///< each rank reads its own dataset: then the result depends on the number of ranks

  std::uint64_t tune_steps = 0;     ///< try each variant of the schedule for so many steps, then keep the fastest; 0: off. Same bits

  optimizer::rate_schedule row_rate{};
  optimizer::rate_schedule dense_rate{};
  float row_clip_norm = 0.0f;       ///< 0: off
  float dense_clip_norm = 0.0f;     ///< global norm; 0: off

  /// Called after every update on the compute lane of every rank; keep it short.
  std::function<void(progress const&)> on_step{};
};

}  // namespace nestpipe
