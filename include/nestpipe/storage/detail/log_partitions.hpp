#pragma once
/// @file
/// The partitions of a log of rows: which part of the keys lies in which extent, and how extents are cleaned and split.

#include <nestpipe/core/random.hpp>
#include <nestpipe/storage/detail/disk_queue.hpp>
#include <nestpipe/storage/detail/extent_file.hpp>
#include <nestpipe/storage/detail/log_block.hpp>
#include <nestpipe/storage/detail/log_index.hpp>

#include <algorithm>
#include <array>
#include <memory>
#include <string>
#include <vector>

namespace nestpipe::storage::detail {

/// Rows whose hashes agree in their first `depth` bits: a log of blocks in one extent. Block numbers grow with age, so of several
/// records of a key the one in the highest block is the row; the others are garbage until the extent is rewritten.
struct log_partition {
  std::unique_ptr<std::byte[]> memory;              ///< heads of the buckets, then the open block
  std::uint32_t extent = log_geometry::none;
  std::uint32_t closed = 0;      ///< blocks on disk, all full; also the number of the open block
  std::uint32_t open_rows = 0;   ///< rows in the open block; there each is the newest of its key
  std::uint32_t rows = 0;        ///< keys that have a row here
  std::uint32_t depth = 0;
  bool doubled = false;          ///< a block may hold the same record twice (see forget)
};

/// All partitions of a store, with a directory from the first bits of a hash (extendible hashing, Fagin et al. 1979).
class log_partitions {
 public:
  static constexpr unsigned hash_bits = 20;   ///< first bits of a hash for the directory; then 24 for the bucket, 20 for entries
  static constexpr std::uint32_t none = log_geometry::none;

  using hash_function = std::uint64_t (*)(key_type);

  log_partitions(log_geometry const& g, double most_live, extent_file& file, disk_queue& disk, hash_function hash)
      : g_{g},
        most_live_{most_live},
        file_{file},
        disk_{disk},
        hash_{hash},
        index_{file.where()},
        buckets_{std::max<std::uint32_t>(16, g.extent_rows() / 64)} {
    directory_.assign(1, 0);
    partitions_.push_back(make(0));
  }

  log_partition& of(std::uint64_t hash) { return partitions_[directory_[slot(hash)]]; }
  log_partition const& of(std::uint64_t hash) const { return partitions_[directory_[slot(hash)]]; }
  std::byte* open_block(log_partition const& p) const { return p.memory.get() + buckets_ * sizeof(log_index::head); }
  log_index& index() { return index_; }
  log_index const& index() const { return index_; }
  log_index::head& head(log_partition const& p, std::uint64_t hash) const {
    return reinterpret_cast<log_index::head*>(p.memory.get())[((hash >> 20 & 0xffffff) * buckets_) >> 24];
  }
  std::uint64_t block_number(log_partition const& p, std::uint32_t place) const { return std::uint64_t{p.extent} * g_.extent_blocks + place; }

  /// Hash before which all keys of a partition lie; 0 for the last.
  static std::uint64_t end_of(log_partition const& p, std::uint64_t hash) {
    if (p.depth == 0) return 0;
    std::uint64_t const width = std::uint64_t{1} << (64 - p.depth);
    return (hash & ~(width - 1)) + width;
  }

  /// Makes `more` records fit behind those the partition of this hash has, if so many still belong to it: cleans it, or splits it
  /// and leaves it to the caller to ask again. @returns whether they fit now. @throws error when the disk is full; nothing changed
  bool make_room(std::uint64_t hash, std::uint64_t more) {
    log_partition& p = of(hash);
    std::uint64_t const used = std::uint64_t{p.closed} * g_.rows_per_block + p.open_rows;
    std::uint64_t const limit = limit_of(p, hash);
    if (used + more <= limit) {
      if (p.extent == none && used + more >= g_.rows_per_block) p.extent = file_.take();
      return true;
    }
    rewrite(hash, static_cast<double>(p.rows + more) > most_live_ * static_cast<double>(limit));
    return false;
  }

  /// f(block number in the partition, key, row) for every row of the partition of this hash. Reads its extent in one piece.
  template <class F>
  void for_each(std::uint64_t hash, F&& f) const {
    log_partition const& p = of(hash);
    std::byte const* const loaded = load(p);
    for (std::uint32_t b = 0; b <= p.closed; ++b) {
      std::byte const* const block = block_of(p, loaded, b);
      std::uint32_t const rows = b < p.closed ? g_.rows_per_block : p.open_rows;
      for (std::uint32_t r = 0; r < rows; ++r) {
        key_type const key = g_.key(block, r);
        if (p.doubled && g_.find(block, rows, key) != r) continue;
        f(b, key, g_.row(block, r));
      }
    }
  }

  /// Whether the record of a key in block b, as met by for_each, is its row. For use inside for_each only.
  bool is_row(log_partition const& p, std::uint64_t hash, key_type key, std::uint32_t b) const {
    bool entered = false, newer = false;
    index_.candidates(head(p, hash), hash, [&](std::uint32_t place) {
      entered = entered || place == b;
      // Two keys whose entries agree: look where the other entry leads.
      if (place > b && !newer)
        newer = g_.find(block_of(p, scratch_.data(), place), place < p.closed ? g_.rows_per_block : p.open_rows, key) != none;
    });
    return entered && !newer;
  }

  std::uint64_t memory_bytes() const {
    return index_.bytes() + partitions_.size() * partition_bytes() + partitions_.capacity() * sizeof(log_partition) +
           directory_.capacity() * sizeof(std::uint32_t) + scratch_.size() + built_.size();
  }
  /// Of which grows with the rows: index, directory, open blocks.
  std::uint64_t index_bytes() const {
    return index_.bytes() + partitions_.size() * (partition_bytes() + sizeof(log_partition)) + directory_.capacity() * sizeof(std::uint32_t);
  }
  std::uint64_t partitions() const { return partitions_.size(); }
  std::uint64_t rewritten_blocks() const { return rewritten_blocks_; }
  std::uint64_t rewrites() const { return rewrites_; }

 private:
  std::size_t slot(std::uint64_t hash) const { return directory_depth_ == 0 ? 0 : hash >> (64 - directory_depth_); }
  std::size_t partition_bytes() const { return buckets_ * sizeof(log_index::head) + g_.block_bytes; }

  log_partition make(std::uint32_t depth) const {
    log_partition p;
    p.memory = std::make_unique<std::byte[]>(partition_bytes());
    p.depth = depth;
    return p;
  }

  /// Records after which a partition is rewritten. Partitions fill at one pace, so this is 3/4 to 1 of an extent, by the hash of
  /// their prefix: they come to their limits one after the other, not all in one call.
  std::uint64_t limit_of(log_partition const& p, std::uint64_t hash) const {
    std::uint64_t const prefix = p.depth == 0 ? 0 : hash >> (64 - p.depth);
    std::uint64_t const rows = g_.extent_rows();
    return rows - ((mix64(prefix, p.depth) >> 32) * (rows / 4) >> 32);
  }

  std::byte const* block_of(log_partition const& p, std::byte const* loaded, std::uint32_t b) const {
    return b < p.closed ? loaded + b * g_.block_bytes : open_block(p);
  }

  std::byte const* load(log_partition const& p) const {
    if (p.closed == 0) return nullptr;
    if (scratch_.data() == nullptr) scratch_ = page_memory{g_.extent_bytes(), file_.where()};
    disk_.run_one({file_.offset(p.extent), scratch_.data(), static_cast<std::uint32_t>(p.closed * g_.block_bytes), false});
    return scratch_.data();
  }

  /// Copies the rows of a partition to new extents, and with them goes its garbage.
  void rewrite(std::uint64_t hash, bool split) {
    log_partition& old = of(hash);
    if (split && old.depth == hash_bits)
      throw error{"storage::file_log: more rows than this store can hold", file_.where(), "use more ranks, or larger extents (extent_bytes)"};
    if (built_.data() == nullptr) built_ = page_memory{2 * (g_.extent_bytes() + g_.block_bytes), file_.where()};
    struct side {
      log_partition p;
      std::byte* blocks = nullptr;
    };
    std::array<side, 2> sides;
    for (std::size_t s = 0; s < (split ? 2U : 1U); ++s) {
      sides[s].p = make(old.depth + (split ? 1 : 0));
      sides[s].blocks = built_.data() + s * (g_.extent_bytes() + g_.block_bytes);
    }
    // Rows in the order of their age, full blocks first: at most as many as before.
    for_each(hash, [&](std::uint32_t b, key_type key, std::byte const* row) {
      std::uint64_t const h = hash_(key);
      if (!is_row(old, h, key, b)) return;
      side& to = sides[split ? h >> (63 - old.depth) & 1U : 0];
      g_.set(to.blocks + to.p.closed * g_.block_bytes, to.p.open_rows, key, row);
      ++to.p.rows;
      if (++to.p.open_rows == g_.rows_per_block) {
        to.p.open_rows = 0;
        ++to.p.closed;
      }
    });
    try {
      for (side& s : sides) {
        if (s.p.closed == 0) continue;
        s.p.extent = file_.take();
        disk_.run_one({file_.offset(s.p.extent), s.blocks, static_cast<std::uint32_t>(s.p.closed * g_.block_bytes), true});
        rewritten_blocks_ += s.p.closed;
      }
    } catch (...) {
      for (side const& s : sides) {
        if (s.p.extent != none) file_.give_back(s.p.extent);
      }
      throw;
    }
    ++rewrites_;
    // From here on nothing can fail but memory, and the lines of the old index are enough for the new one, or nearly.
    auto* const heads = reinterpret_cast<log_index::head*>(old.memory.get());
    for (std::uint32_t i = 0; i < buckets_; ++i) index_.clear(heads[i]);
    if (old.extent != none) file_.give_back(old.extent);
    for (side& s : sides) {
      if (s.blocks == nullptr) continue;
      std::memcpy(open_block(s.p), s.blocks + s.p.closed * g_.block_bytes, g_.block_bytes);
      for (std::uint32_t b = 0; b <= s.p.closed; ++b) {
        std::uint32_t const rows = b < s.p.closed ? g_.rows_per_block : s.p.open_rows;
        for (std::uint32_t r = 0; r < rows; ++r) {
          std::uint64_t const h = hash_(g_.key(s.blocks + b * g_.block_bytes, r));
          index_.insert(head(s.p, h), log_index::make(h, b));
        }
      }
    }
    enter(hash, std::move(sides[0].p), split ? &sides[1].p : nullptr);
  }

  /// Puts a rewritten partition, and the second half of a split one, into the directory.
  void enter(std::uint64_t hash, log_partition first, log_partition* second) {
    std::uint32_t const id = directory_[slot(hash)];
    unsigned const depth = first.depth;
    partitions_[id] = std::move(first);
    if (second == nullptr) return;
    if (depth > directory_depth_) {
      directory_.resize(2 * directory_.size());
      for (std::size_t i = directory_.size(); i-- > 0;) directory_[i] = directory_[i / 2];
      ++directory_depth_;
    }
    std::uint64_t const prefix = hash >> (64 - depth) | 1U;
    std::size_t const width = std::size_t{1} << (directory_depth_ - depth);
    auto const new_id = static_cast<std::uint32_t>(partitions_.size());
    partitions_.push_back(std::move(*second));
    std::fill_n(directory_.begin() + static_cast<std::ptrdiff_t>(prefix * width), width, new_id);
  }

  log_geometry g_;
  double most_live_;
  extent_file& file_;
  disk_queue& disk_;
  hash_function hash_;
  log_index index_;
  std::uint32_t buckets_;
  std::vector<log_partition> partitions_;
  std::vector<std::uint32_t> directory_;
  unsigned directory_depth_ = 0;
  mutable page_memory scratch_;   ///< an extent as it was read
  page_memory built_;             ///< two extents as they will be written
  std::uint64_t rewritten_blocks_ = 0;
  std::uint64_t rewrites_ = 0;
};

}  // namespace nestpipe::storage::detail
