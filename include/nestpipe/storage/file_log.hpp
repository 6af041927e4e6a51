#pragma once
/// @file
/// Rows on disk behind a small index in memory: the slow tier for tables of fixed-size rows.

#include <nestpipe/core/random.hpp>
#include <nestpipe/storage/detail/log_partitions.hpp>
#include <nestpipe/storage/detail/unopened_copy.hpp>
#include <nestpipe/storage/storage.hpp>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace nestpipe::storage {

/// How a storage::file_log works. Sizes are for each table and rank.
struct file_log_options {
  std::string path{};                                   ///< folder for the file, which has no name and goes with the store; empty: the place for temporary files
  std::size_t extent_bytes = std::size_t{2} << 20;      ///< read and written at once when an extent is cleaned; at most 4,095 blocks
  double most_live = 0.65;                              ///< fuller extents are split, not cleaned: more saves disk and costs writing; above 0, below 1
  std::uint32_t queue_depth = 32;                       ///< transfers in flight
  bool direct_io = true;                                ///< past the page cache, whose memory is better spent on a fast tier
  bool ring = true;                                     ///< io_uring where the kernel grants it, else threads; false: threads
};

/// What a storage::file_log has done, for reports.
struct file_log_counters {
  std::uint64_t index_bytes = 0;        ///< memory that grows with the rows
  std::uint64_t disk_bytes = 0;         ///< size of the file
  std::uint64_t blocks_read = 0;        ///< by read and write
  std::uint64_t blocks_written = 0;     ///< full for the first time
  std::uint64_t blocks_rewritten = 0;   ///< when extents were cleaned or split
  std::uint64_t extents_rewritten = 0;
  std::uint64_t partitions = 0;
};

struct mix_log_key {
  std::uint64_t operator()(key_type key) const { return mix64(key ^ 0x94d049bb133111ebULL); }
};

/// A log of rows, after Bitcask (Sheehy and Smith 2010), in partitions by hash of at most one extent each. A row written goes into the
/// open block of its partition, in memory; full blocks go to the end of the partition's extent: no read before a write, and every block is
/// written once. An extent that is full is read in one piece and its rows, without what has become garbage, written to a new one, or to two:
/// growth and cleaning are steps of a few milliseconds inside write, and partitions come to them one after the other.
///
/// The index has 4 bytes a row for a hash and a block, 5 to 6 with all that grows along (open blocks, partly filled lines, directory);
/// keys are compared on disk, and one read in 10,000 is in vain. A batch is read in the order of its places, `queue_depth` transfers at
/// once. Memory stays within index, two to three extents, and `queue_depth` buffers.
///
/// It is for rows that do not fit memory while 6 bytes for each do. storage::rocksdb has no index in memory; it writes about half as
/// many rows a second (bench/slow_tier.cpp). Checkpoints make rows durable, not this store: its file is gone when it is closed.
/// A handle says only that its key has a row; `epoch()` changes on erase.
/// @tparam Mix  well-mixing function of a key; one that gives many keys one value is slow, and holds no more such keys than an extent
template <class Mix = mix_log_key>
class file_log {
 public:
  using options = file_log_options;

  file_log() = default;
  explicit file_log(options o) : options_{std::move(o)} {}

  /// @throws config_error when row_floats is 0, when called twice, for options that make no sense
  /// @throws error naming the path when the file cannot be made
  void open(storage_spec const& spec) {
    std::string const where = "table " + spec.table_name;
    require(!store_->rows, "storage::file_log: opened twice", where, "open a copy of the policy");
    require(spec.row_floats > 0, "storage::file_log: a row needs at least one float", where);
    require(options_.most_live > 0 && options_.most_live < 1, "storage::file_log: most_live must be above 0 and below 1", where);
    require(options_.queue_depth > 0 && options_.queue_depth <= 4096, "storage::file_log: queue_depth must be 1 to 4096", where);
    opened o;
    o.geometry = detail::log_geometry{spec.row_floats, options_.extent_bytes};
    o.row_floats = spec.row_floats;
    o.file = std::make_unique<detail::extent_file>(options_.path, o.geometry.extent_bytes(), options_.direct_io, where);
    o.disk = std::make_unique<detail::disk_queue>(o.file->descriptor(), options_.queue_depth, options_.ring, o.file->where());
    o.rows = std::make_unique<detail::log_partitions>(o.geometry, options_.most_live, *o.file, *o.disk, [](key_type key) -> std::uint64_t { return Mix{}(key); });
    store_.value = std::move(o);
  }

  /// Rows of keys. Duplicates are fine. O(n log n + n * row_floats) and one block from disk for each row that is not in an open block.
  /// @throws error naming path and bytes when the disk fails
  void read(std::span<key_type const> keys, std::span<row_handle> handles, float* rows) {
    begin(keys);
    std::uint64_t found = 0;
    auto const take = [&](std::uint32_t i, std::byte const* row) {
      found += handles[i] == no_row;
      handles[i] = there;
      std::memcpy(rows + i * store_->row_floats, row, store_->geometry.row_bytes);
    };
    for (std::size_t i = 0; i < keys.size(); ++i) handles[i] = no_row;
    in_order(keys.size(), [&](std::size_t i) {
      auto const k = static_cast<std::uint32_t>(i);
      if (std::byte const* const row = locate(keys[i], store_->hashes[i], k, false)) take(k, row);
    });
    fetch(keys, take);
    store_->lookups += keys.size();
    store_->misses += keys.size() - found;
  }

  /// Stores rows; a key without one gets it. Reads no more than the blocks of keys without a handle whose index entry says that they may
  /// be there. O(n log n + n * row_floats), and cleaning.
  /// @throws error naming path and bytes when the disk is full; then nothing changed
  void write(std::span<key_type const> keys, std::span<row_handle const> handles, float const* rows) {
    if (keys.empty()) return;
    begin(keys);
    opened& s = store_.value;
    s.order.resize(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) s.order[i] = static_cast<std::uint32_t>(i);
    std::sort(s.order.begin(), s.order.end(), [&](std::uint32_t a, std::uint32_t b) { return s.hashes[a] < s.hashes[b]; });
    make_room();
    in_order(keys.size(), [&](std::size_t i) { locate(keys[i], s.hashes[i], static_cast<std::uint32_t>(i), handles[i] != no_row); });
    fetch(keys, [](std::uint32_t, std::byte const*) {});
    for (std::uint32_t const i : s.order) store(i, keys[i], rows + i * s.row_floats);
    flush();
  }

  std::uint64_t epoch() const { return store_->epoch; }
  void pin(std::span<key_type const>) {}       // nothing is ever evicted
  void release(std::span<key_type const>) {}

  /// Forgets rows; unknown keys are ignored. Their room is used again once their extents are cleaned.
  void erase(std::span<key_type const> keys) {
    opened& s = store_.value;
    s.erased.assign(keys.begin(), keys.end());
    std::sort(s.erased.begin(), s.erased.end());
    s.erased.erase(std::unique(s.erased.begin(), s.erased.end()), s.erased.end());
    begin(s.erased);
    in_order(s.erased.size(), [&](std::size_t i) { locate(s.erased[i], s.hashes[i], static_cast<std::uint32_t>(i), false); });
    fetch(s.erased, [](std::uint32_t, std::byte const*) {});
    std::uint64_t gone = 0;
    for (std::size_t i = 0; i < s.erased.size(); ++i) {
      if (s.found[i] == 0) continue;
      forget(s.erased[i], s.hashes[i], s.found[i] - 1);
      ++gone;
    }
    s.count -= gone;
    if (gone != 0) ++s.epoch;
  }

  std::uint64_t size() const { return store_->count; }

  /// The rows of the next partition, in the order of their hashes' first bits: an extent at most, read in one piece.
  template <class F>
  void scan(scan_cursor& at, F&& f) const {
    detail::log_partitions const& all = *store_->rows;
    std::uint64_t const from = at.position;
    detail::log_partition const& p = all.of(from);
    all.for_each(from, [&](std::uint32_t block, key_type key, std::byte const* row) {
      // A row lies behind the keys of its block, four-byte aligned.
      if (all.is_row(p, Mix{}(key), key, block)) f(key, std::span<float const>{reinterpret_cast<float const*>(row), store_->row_floats});
    });
    // Splits only refine prefixes: a boundary between partitions stays one.
    at.position = detail::log_partitions::end_of(p, from);
    at.done = at.position == 0;
  }
  bool passed(scan_cursor const& at, key_type key) const { return at.done || Mix{}(key) < at.position; }

  /// Bytes: of memory, buffers included.
  storage_counters counters() const {
    storage_counters c;
    opened const& s = store_.value;
    c.rows = s.count;
    c.bytes = s.rows->memory_bytes() + s.buffers.size() + s.asks.capacity() * sizeof(ask) + s.runs.capacity() * sizeof(run) +
              s.hashes.capacity() * sizeof(std::uint64_t) + (s.found.capacity() + s.order.capacity() + s.full.capacity()) * sizeof(std::uint32_t) +
              s.erased.capacity() * sizeof(key_type);
    c.lookups = s.lookups;
    c.misses = s.misses;
    return c;
  }

  file_log_counters log_counters() const {
    opened const& s = store_.value;
    return {s.rows->index_bytes(), s.file->bytes(), s.blocks_read, s.blocks_written, s.rows->rewritten_blocks(), s.rows->rewrites(), s.rows->partitions()};
  }
  /// Whether transfers go through io_uring.
  bool uses_ring() const { return store_->disk->uses_ring(); }

 private:
  static constexpr row_handle there = 0;
  static constexpr std::size_t run_bytes = std::size_t{32} << 10;   ///< neighbouring blocks are read at once up to here
  static constexpr std::size_t prefetch_ahead = 4;
  static constexpr unsigned lines_ahead = 5;

  /// A block in which key number i may be.
  struct ask {
    std::uint64_t block;
    std::uint32_t i;
    std::uint32_t place;
  };
  /// Asks that one transfer answers.
  struct run {
    std::uint32_t begin, end, blocks;
  };

  struct opened {
    detail::log_geometry geometry;
    std::size_t row_floats = 0;
    std::unique_ptr<detail::extent_file> file;
    std::unique_ptr<detail::disk_queue> disk;
    std::unique_ptr<detail::log_partitions> rows;
    std::uint64_t count = 0;
    std::uint64_t epoch = 0;
    std::uint64_t lookups = 0;
    std::uint64_t misses = 0;
    std::uint64_t blocks_read = 0;
    std::uint64_t blocks_written = 0;
    // Of the call that runs:
    std::vector<std::uint64_t> hashes;
    std::vector<std::uint32_t> found;    ///< 1 + block of the key in its partition; 0: none
    std::vector<std::uint32_t> order;
    std::vector<key_type> erased;
    std::vector<ask> asks;
    std::vector<run> runs;
    std::vector<std::uint64_t> full;     ///< numbers of blocks that wait in `buffers` to be written
    detail::page_memory buffers;
  };

  void begin(std::span<key_type const> keys) {
    opened& s = store_.value;
    s.hashes.resize(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) s.hashes[i] = Mix{}(keys[i]);
    s.found.assign(keys.size(), 0);
    s.asks.clear();
  }

  /// f(0) ... f(n - 1), with the index lines of later ones on their way.
  template <class F>
  void in_order(std::size_t n, F&& f) {
    opened& s = store_.value;
    auto const head = [&](std::size_t i) -> detail::log_index::head& { return s.rows->head(s.rows->of(s.hashes[i]), s.hashes[i]); };
    for (std::size_t i = 0; i < n; ++i) {
      // A bucket's lines hang together, each leads to the next: every key in sight takes one step.
      if (i + (lines_ahead + 1) * prefetch_ahead < n) __builtin_prefetch(&head(i + (lines_ahead + 1) * prefetch_ahead));
      for (unsigned l = 0; l < lines_ahead; ++l) {
        std::size_t const ahead = i + (lines_ahead - l) * prefetch_ahead;
        if (ahead < n) s.rows->index().prefetch(head(ahead), l);
      }
      f(i);
    }
  }

  /// Looks for a key in memory. Its row, if it lies in an open block; else asks for the blocks in which it may be.
  /// @param known  the key has a row: if only one block comes into question, it is there
  std::byte const* locate(key_type key, std::uint64_t hash, std::uint32_t i, bool known) {
    opened& s = store_.value;
    detail::log_partition const& p = s.rows->of(hash);
    std::size_t const before = s.asks.size();
    bool open = false;
    s.rows->index().candidates(s.rows->head(p, hash), hash, [&](std::uint32_t place) {
      if (place == p.closed) {
        open = true;
      } else {
        s.asks.push_back({s.rows->block_number(p, place), i, place});
      }
    });
    if (open) {
      std::byte* const block = s.rows->open_block(p);
      std::uint32_t const r = s.geometry.find(block, p.open_rows, key);
      if (r != detail::log_geometry::none) {
        s.asks.resize(before);  // the open block is the newest
        s.found[i] = p.closed + 1;
        return s.geometry.row(block, r);
      }
    }
    if (known && s.asks.size() == before + 1) {
      s.found[i] = s.asks.back().place + 1;
      s.asks.pop_back();
    }
    return nullptr;
  }

  /// Reads what was asked for; take(i, row) for keys that are there. Of several records of a key the newest counts, which comes last.
  template <class F>
  void fetch(std::span<key_type const> keys, F&& take) {
    opened& s = store_.value;
    if (s.asks.empty()) return;
    std::sort(s.asks.begin(), s.asks.end(), [](ask const& a, ask const& b) { return a.block < b.block; });
    std::size_t const run_blocks = std::max<std::size_t>(1, run_bytes / s.geometry.block_bytes);
    s.runs.clear();
    for (std::uint32_t a = 0; a < s.asks.size(); ++a) {
      if (!s.runs.empty()) {
        run& last = s.runs.back();
        std::uint64_t const from = s.asks[last.begin].block, next = from + last.blocks;
        if (s.asks[a].block < next || (s.asks[a].block == next && last.blocks < run_blocks)) {
          last.end = a + 1;
          last.blocks = static_cast<std::uint32_t>(s.asks[a].block - from + 1);
          continue;
        }
      }
      s.runs.push_back({a, a + 1, 1});
    }
    need_buffers(run_blocks);
    std::size_t const place_bytes = run_blocks * s.geometry.block_bytes;
    s.disk->run(
        s.runs.size(),
        [&](std::size_t r, unsigned place) {
          s.blocks_read += s.runs[r].blocks;
          return detail::disk_request{s.asks[s.runs[r].begin].block * s.geometry.block_bytes, s.buffers.data() + place * place_bytes,
                                      static_cast<std::uint32_t>(s.runs[r].blocks * s.geometry.block_bytes), false};
        },
        [&](std::size_t r, unsigned place) {
          std::byte const* const blocks = s.buffers.data() + place * place_bytes;
          for (std::uint32_t a = s.runs[r].begin; a < s.runs[r].end; ++a) {
            ask const& at = s.asks[a];
            std::byte const* const block = blocks + (at.block - s.asks[s.runs[r].begin].block) * s.geometry.block_bytes;
            std::uint32_t const slot = s.geometry.find(block, s.geometry.rows_per_block, keys[at.i]);
            if (slot == detail::log_geometry::none || at.place < s.found[at.i]) continue;
            s.found[at.i] = at.place + 1;
            take(at.i, s.geometry.row(block, slot));
          }
        });
  }

  void need_buffers(std::size_t blocks_a_place) {
    opened& s = store_.value;
    std::size_t const bytes = s.disk->places() * blocks_a_place * s.geometry.block_bytes;
    if (s.buffers.size() < bytes) s.buffers = detail::page_memory{bytes, s.file->where()};
  }

  /// Cleans and splits until the records of this call fit, partition after partition. Keys are in the order of their hashes.
  void make_room() {
    opened& s = store_.value;
    for (std::size_t first = 0; first < s.order.size();) {
      std::uint64_t const hash = s.hashes[s.order[first]];
      std::uint64_t const end = detail::log_partitions::end_of(s.rows->of(hash), hash);
      std::size_t last = s.order.size();
      if (end != 0) {
        last = static_cast<std::size_t>(
            std::partition_point(s.order.begin() + static_cast<std::ptrdiff_t>(first), s.order.end(), [&](std::uint32_t i) { return s.hashes[i] < end; }) -
            s.order.begin());
      }
      if (s.rows->make_room(hash, last - first)) first = last;
    }
  }

  /// Puts a row into the open block of its partition; there is room.
  void store(std::uint32_t i, key_type key, float const* row) {
    opened& s = store_.value;
    std::uint64_t const hash = s.hashes[i];
    detail::log_partition& p = s.rows->of(hash);
    std::byte* const block = s.rows->open_block(p);
    detail::log_index::head& head = s.rows->head(p, hash);
    if (s.found[i] == p.closed + 1) {  // overwritten where it is
      s.geometry.set(block, s.geometry.find(block, p.open_rows, key), key, row);
      return;
    }
    if (s.found[i] == 0) {
      s.rows->index().insert(head, detail::log_index::make(hash, p.closed));
      ++p.rows;
      ++s.count;
    } else {
      s.rows->index().replace(head, detail::log_index::make(hash, s.found[i] - 1), detail::log_index::make(hash, p.closed));
    }
    s.geometry.set(block, p.open_rows, key, row);
    if (++p.open_rows < s.geometry.rows_per_block) return;
    need_buffers(1);
    std::memcpy(s.buffers.data() + s.full.size() * s.geometry.block_bytes, block, s.geometry.block_bytes);
    s.full.push_back(s.rows->block_number(p, p.closed));
    ++p.closed;
    p.open_rows = 0;
    if (s.full.size() == s.disk->places()) flush();
  }

  /// Writes the blocks that are full, neighbours at once.
  void flush() {
    opened& s = store_.value;
    s.runs.clear();
    for (std::uint32_t b = 0; b < s.full.size(); ++b) {
      if (b > 0 && s.full[b] == s.full[b - 1] + 1) {
        s.runs.back().end = b + 1;
      } else {
        s.runs.push_back({b, b + 1, 0});
      }
    }
    s.disk->run(
        s.runs.size(),
        [&](std::size_t r, unsigned) {
          run const& at = s.runs[r];
          return detail::disk_request{s.full[at.begin] * s.geometry.block_bytes, s.buffers.data() + at.begin * s.geometry.block_bytes,
                                      static_cast<std::uint32_t>((at.end - at.begin) * s.geometry.block_bytes), true};
        },
        [](std::size_t, unsigned) {});
    s.blocks_written += s.full.size();
    s.full.clear();
  }

  /// Takes a row out of the index. A record that stays on disk must never look like a row again: it would, if another key's entry agreed
  /// with its own in hash and block. Such a block, hardly ever met, is written anew with another record in place of this one.
  void forget(key_type key, std::uint64_t hash, std::uint32_t place) {
    opened& s = store_.value;
    detail::log_partition& p = s.rows->of(hash);
    if (place == p.closed) {
      std::byte* const block = s.rows->open_block(p);
      std::uint32_t const r = s.geometry.find(block, p.open_rows, key), last = p.open_rows - 1;
      if (r != last) s.geometry.set(block, r, s.geometry.key(block, last), s.geometry.row(block, last));
      --p.open_rows;
    }
    detail::log_index::head& head = s.rows->head(p, hash);
    s.rows->index().remove(head, detail::log_index::make(hash, place));
    --p.rows;
    s.rows->index().candidates(head, hash, [&](std::uint32_t other) {
      if (other == p.closed) return;
      need_buffers(1);
      std::byte* const block = s.buffers.data();
      detail::disk_request at{s.rows->block_number(p, other) * s.geometry.block_bytes, block, static_cast<std::uint32_t>(s.geometry.block_bytes), false};
      s.disk->run_one(at);
      bool changed = false;
      for (std::uint32_t r = 0; r < s.geometry.rows_per_block; ++r) {
        if (s.geometry.key(block, r) != key) continue;
        std::uint32_t stand_in = 0;
        while (s.geometry.key(block, stand_in) == key) ++stand_in;  // the other key's record, if none before
        s.geometry.set(block, r, s.geometry.key(block, stand_in), s.geometry.row(block, stand_in));
        changed = true;
      }
      if (!changed) return;
      at.write = true;
      s.disk->run_one(at);
      p.doubled = true;
    });
  }

  options options_{};
  detail::unopened_copy<opened> store_{};
};

}  // namespace nestpipe::storage
