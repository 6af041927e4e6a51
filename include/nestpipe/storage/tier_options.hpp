#pragma once
/// @file
/// How large a fast tier may be, and what it counts.

#include <nestpipe/core/error.hpp>

#include <algorithm>
#include <cstdint>
#include <memory>
#include <mutex>
#include <vector>

namespace nestpipe::storage {

/// Bytes that the fast tiers of all tables of one rank share. Each table has a claim to an equal part of one eighth; beyond that
/// tables take as they grow. Tables may ask from several threads.
class memory_budget {
 public:
  explicit memory_budget(std::uint64_t bytes) : total_{bytes} {}

  /// A table joins. Returns its number.
  std::size_t join() {
    std::lock_guard const lock{mutex_};
    taken_.push_back(0);
    return taken_.size() - 1;
  }
  /// Takes bytes for a table, or nothing where they are not to be had.
  bool take(std::size_t table, std::uint64_t bytes) {
    std::lock_guard const lock{mutex_};
    std::uint64_t const claim = total_ / 8 / taken_.size();
    std::uint64_t spoken_for = 0;
    for (std::size_t t = 0; t < taken_.size(); ++t) spoken_for += std::max(taken_[t] + (t == table ? bytes : 0), claim);
    if (spoken_for > total_) return false;
    taken_[table] += bytes;
    return true;
  }
  std::uint64_t total() const { return total_; }

 private:
  std::uint64_t total_;
  std::mutex mutex_;
  std::vector<std::uint64_t> taken_;
};

/// The bound of a fast tier is given in one of three ways.
struct tier_options {
  std::uint64_t rows = 0;                    ///< of one table
  std::uint64_t bytes = 0;                   ///< of one table: rows with what is kept beside them
  std::shared_ptr<memory_budget> shared{};   ///< of all tables that are opened from copies of one policy
  double evict_share = 1.0 / 32;             ///< share of the rows that goes down at once, at most 65,536 rows; more where a batch needs more
  std::uint32_t considered = 16;             ///< rows looked at for each that goes down, where there are so many
};

/// What moved between the tiers, and how long it took. Rows per call are rows over calls.
struct tier_counters {
  std::uint64_t capacity = 0;        ///< rows that the fast tier may hold
  std::uint64_t rows = 0;            ///< rows it holds now
  std::uint64_t hits = 0;            ///< rows read that were in the fast tier
  std::uint64_t misses = 0;          ///< rows read that came from the slow tier
  std::uint64_t rows_up = 0;         ///< rows that moved to the fast tier
  std::uint64_t evicted = 0;         ///< rows that left the fast tier
  std::uint64_t rows_down = 0;       ///< changed rows written to the slow tier: most as they left, some for a scan
  std::uint64_t rows_dropped = 0;    ///< unchanged rows that left the fast tier: the slow one has them
  std::uint64_t rows_through = 0;    ///< rows written past the fast tier
  std::uint64_t bytes_up = 0;
  std::uint64_t bytes_down = 0;
  std::uint64_t slow_reads = 0;      ///< calls
  std::uint64_t slow_writes = 0;     ///< calls
  double read_seconds = 0;           ///< spent waiting for reads of the slow tier
  double write_seconds = 0;          ///< ... and for its writes
  std::uint64_t most_beyond = 0;     ///< most rows that were pinned beyond the capacity at one time

  double hit_rate() const { return hits + misses == 0 ? 0.0 : static_cast<double>(hits) / static_cast<double>(hits + misses); }

  tier_counters& operator+=(tier_counters const& o) {
    capacity += o.capacity;
    rows += o.rows;
    hits += o.hits;
    misses += o.misses;
    rows_up += o.rows_up;
    evicted += o.evicted;
    rows_down += o.rows_down;
    rows_dropped += o.rows_dropped;
    rows_through += o.rows_through;
    bytes_up += o.bytes_up;
    bytes_down += o.bytes_down;
    slow_reads += o.slow_reads;
    slow_writes += o.slow_writes;
    read_seconds += o.read_seconds;
    write_seconds += o.write_seconds;
    most_beyond += o.most_beyond;
    return *this;
  }
};

}  // namespace nestpipe::storage
