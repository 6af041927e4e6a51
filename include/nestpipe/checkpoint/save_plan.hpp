#pragma once
/// @file
/// When and how a run saves itself.

#include <cstdint>
#include <filesystem>

namespace nestpipe::checkpoint {

struct save_plan {
  std::filesystem::path directory{};  ///< of the run: checkpoints are `<directory>/step-000123`; empty: none
  std::uint64_t every = 0;            ///< global batches between saves; 0: only when asked to. One that is due while the last is being written follows it
  std::size_t keep = 3;               ///< checkpoints that stay, and what their deltas are made from; 0: all
  bool incremental = false;           ///< deltas of touched rows between full checkpoints
  std::size_t longest_chain = 8;      ///< deltas behind a full checkpoint
  /// Keys noted between two saves over all tables of a rank, 12 to 36 bytes each: with more the next save is a full one. So it
  /// is with more than a share of the rows that were there at the last save.
  std::uint64_t most_touched = std::uint64_t{16} << 20;
  double most_changed = 0.5;
  std::uint64_t spread = 0;           ///< global batches over which taking the rows is spread; 0: half of `every`
  std::size_t least_bytes = std::size_t{64} << 10;  ///< of rows are taken behind a batch, however long the spread
  std::size_t chunk_bytes = std::size_t{16} << 20;  ///< rows of a file. About five times that is held while saving, and more where a disk does not keep up
};

}  // namespace nestpipe::checkpoint
