#pragma once
/// @file
/// One batch on its way through the stages.

#include <nestpipe/core/jagged.hpp>
#include <nestpipe/embedding/overlap.hpp>

namespace nestpipe::engine {

/// What all ranks agreed on in `route`.
struct batch_info {
  std::uint64_t batch = 0;
  std::uint64_t step = 0;       ///< global batches trained so far, this one included if it has samples
  std::uint64_t samples = 0;    ///< good samples over all ranks: the loss is their mean
  std::uint64_t rows = 0;       ///< data rows, malformed ones included
  std::uint64_t malformed = 0;
  bool end = false;             ///< the epoch has no further rows
  bool stop = false;            ///< somebody asked to stop
  bool boundary = false;        ///< nothing of the next batch may be routed before this one is written back
  bool save = false;            ///< the parameters behind this batch are saved (save_hooks.hpp)
  bool forget_touched = false;  ///< too many keys were touched since the last save: the next one saves all rows
};

/// What one rank says about its part of a batch, sent with the counts.
struct batch_header {
  std::uint64_t samples = 0;
  std::uint64_t rows = 0;
  std::uint64_t malformed = 0;
  std::uint64_t end = 0;
  std::uint64_t stop = 0;
  // Of a save under way (save_hooks.hpp).
  std::uint64_t save_written = 0;    ///< this rank's files are complete
  std::uint64_t save_published = 0;  ///< of rank 0: the checkpoint is in its place
  std::uint64_t save_failed = 0;
  std::uint64_t save_all = 0;        ///< this rank does not know the touched keys any more
};

/// What `read` found.
struct read_result {
  std::uint64_t rows = 0;  ///< framed rows of this rank's stream
  bool shared = true;      ///< all ranks framed the same rows (else each its own)
  bool end = false;
};

/// Everything about one batch that must survive while later batches are prepared. Reused round robin.
struct batch_slot {
  std::vector<sample_block> blocks;  ///< (micro-batches of this rank)
  read_result read;
  embedding::source_route source;
  embedding::owner_route owner;
  embedding::overlap shared;               ///< with the trained batch before, when windows hold both
  batch_slot* before = nullptr;            ///< that batch; null after a boundary
  batch_slot* after = nullptr;             ///< the next trained batch, once it is routed
  batch_info info;
};

}  // namespace nestpipe::engine
