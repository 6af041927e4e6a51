#pragma once
/// @file
/// What an engine tells whoever saves its parameters while it trains. Nobody waits: ranks agree through the counts of `route`.

#include <nestpipe/data/data.hpp>
#include <nestpipe/engine/batch.hpp>
#include <nestpipe/engine/row_snapshot.hpp>

#include <string>

namespace nestpipe::engine {

/// Where training stands behind a batch; the same on every rank.
struct save_point {
  std::uint64_t step = 0;
  std::uint64_t samples = 0;
  data::data_position position{};  ///< the next row to train on
};

/// What all ranks do about a batch.
struct save_decision {
  bool take = false;    ///< the parameters behind this batch are saved
  bool failed = false;  ///< a save has failed on some rank: a boundary comes, and the trainer says why
};

/// One per rank, used by its lanes.
struct save_hooks {
  virtual ~save_hooks() = default;
  /// On the route lane: fills in this rank's part of the header.
  virtual void say(batch_header& mine) = 0;
  /// On the route lane, with the sum over all ranks.
  virtual save_decision agree(batch_header const& total, save_point const& behind, bool trained) = 0;
  /// On the compute lane, behind the update of a batch that is saved.
  virtual void take_dense(std::span<float const> values, std::span<float const> state) = 0;
  /// On the lookup lane, when such a batch has been written back.
  virtual snapshot_request take_rows() = 0;
};

/// The saves of a run, as its trainer sees them. Collective, lanes idle.
struct run_saves {
  virtual ~run_saves() = default;
  /// Waits for a save under way, if there is one. @throws error, config_error on all ranks if one could not write
  virtual void finish() = 0;
  /// Saves what is there unless it is saved, and waits. @return the directory
  virtual std::string save_now(data::data_position position) = 0;
  /// Whether a save failed during the last run of batches: then finish() throws.
  virtual bool failed() const = 0;
  virtual std::uint64_t saves() const = 0;
  /// Of the last step that is saved.
  virtual std::uint64_t last_step() const = 0;
};

}  // namespace nestpipe::engine
