#pragma once
/// @file
/// Rows of any 64-bit keys in memory: a hash table whose slots hold key and row side by side.

#include <nestpipe/core/fixed_size.hpp>
#include <nestpipe/core/random.hpp>
#include <nestpipe/storage/detail/pin_counts.hpp>
#include <nestpipe/storage/detail/row_copy.hpp>
#include <nestpipe/storage/detail/segment_rebuild.hpp>
#include <nestpipe/storage/detail/unopened_copy.hpp>
#include <nestpipe/storage/storage.hpp>

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

namespace nestpipe::storage {

/// Mixes a key before anything else sees it, so that keys with equal low bits, or in sequence, do no harm.
struct mix_key {
  std::uint64_t operator()(key_type key) const { return mix64(key ^ 0x94d049bb133111ebULL); }
};

/// What becomes of a new row when a store has as many as it may.
enum class overflow : std::uint8_t {
  grow,    ///< there is no limit but memory
  error,   ///< the call throws and nothing of it is stored
  evict,   ///< another row goes: one not pinned, and not read since the last time round (second chance, Corbato 1968)
};

/// Limits and sizes of a hashed store.
struct hashed_options {
  enum overflow overflow = overflow::grow;
  std::uint64_t max_rows = 0;                            ///< 0: none
  std::uint64_t max_bytes = 0;                           ///< 0: none; else as many rows as fit whatever their number and hashes
  std::size_t segment_bytes = std::size_t{20} << 20;     ///< a segment that would outgrow this is split in two; at least 4096
};

/// Open addressing over segments. The first bits of the mixed key choose a segment through a directory (extendible hashing,
/// Fagin et al. 1979), the next ones a block of one page, which has one tag byte per slot in its first line: a lookup costs about
/// one line of tags and the record, both in one page. A full block sends rows to the next and counts them, so nothing is left
/// behind where rows are erased. Segments grow by a sixth or so, one at a time, each at a fill of its own, and split when large: no pause is
/// longer than rebuilding one segment, and memory stays within 1.35 of keys and rows in the mean over growth.
///
/// Handles are addresses of rows. Rows move when their segment is rebuilt: `epoch()` changes then, and when a row is erased or
/// evicted. read, and write of rows that are there, never allocate. No key is reserved. Memory goes back only when the store is
/// destroyed, but is used again.
/// @tparam Mix  bijective or well-mixing function of a key; other functions are correct but slow
template <class Mix = mix_key>
class hashed {
 public:
  hashed() = default;
  explicit hashed(hashed_options options) : options_{options} {}

  /// @throws config_error when row_floats is 0, options contradict each other, or called twice
  void open(storage_spec const& spec) {
    std::string const where = "table " + spec.table_name;
    require(store_->segments.empty(), "storage::hashed: opened twice", where, "open a copy of the policy");
    require(spec.row_floats > 0, "storage::hashed: a row needs at least one float", where);
    require(options_.segment_bytes >= 4096, "storage::hashed: segment_bytes must be at least 4096", where);
    bool const limited = options_.max_rows != 0 || options_.max_bytes != 0;
    require(limited || options_.overflow == overflow::grow, "storage::hashed: overflow error and evict need a limit", where, "set max_rows or max_bytes");
    require(!limited || options_.overflow != overflow::grow, "storage::hashed: max_rows and max_bytes need to know what happens there", where,
            "set overflow to error or evict");
    opened& o = store_.value;
    o.row_floats = spec.row_floats;
    o.layout = detail::block_layout{spec.row_floats};
    o.most_rows = limited ? most_rows(where) : ~std::uint64_t{0};
    o.where = where;
    o.segments.push_back(make_segment(1, 0));
    set_limit(o.segments.back(), 0);
    o.directory.assign(1, 0);
  }

  /// Handle of each key, or no_row, and its row. Duplicates are fine. O(n * row_floats) expected.
  void read(std::span<key_type const> keys, std::span<row_handle> handles, float* rows) {
    std::uint64_t misses = 0;
    bool const evicts = options_.overflow == overflow::evict;
    with_fixed_size(store_->row_floats, [&](auto width) {
      pipelined<false>(keys, width, [&](std::size_t i, std::uint64_t hash, std::byte* record) {
        // Most often the first record whose tag agrees is the one.
        if (record == nullptr || detail::row_block::key_at(record) != keys[i]) record = segment_of(hash).find(hash, keys[i], store_->layout);
        if (record == nullptr) {
          handles[i] = no_row;
          ++misses;
          return;
        }
        float const* const row = detail::row_block::row_at(record);
        handles[i] = static_cast<row_handle>(reinterpret_cast<std::uintptr_t>(row));
        std::memcpy(rows + i * width, row, width * sizeof(float));
        if (evicts) touch(hash, record);
      });
    });
    store_->lookups += keys.size();
    store_->misses += misses;
  }

  /// Stores rows; a key without one gets it. O(n * row_floats) expected, amortised over growth.
  /// @throws error naming table and limit when there are to be no more rows: then nothing has changed; or table and bytes when memory
  ///   runs out: then the rows so far are stored
  void write(std::span<key_type const> keys, std::span<row_handle const> handles, float const* rows) {
    auto const unknown = static_cast<std::uint64_t>(std::count(handles.begin(), handles.end(), no_row));
    if (unknown != 0 && options_.overflow == overflow::error && store_->rows + unknown > store_->most_rows) check_room(keys, handles);
    if (unknown != keys.size()) detail::scatter_rows(handles, rows, store_->row_floats, address_of);
    if (unknown == 0) return;
    std::uint64_t const evicted = store_->evicted;
    std::uint64_t const epoch = store_->epoch;
    with_fixed_size(store_->row_floats, [&](auto width) {
      pipelined<true>(keys, width, [&](std::size_t i, std::uint64_t hash, std::byte* record) {
        if (handles[i] != no_row) return;
        // Once rows have moved or gone in this call, what was found ahead may be out of date.
        bool const stands = store_->epoch == epoch && store_->evicted == evicted;
        if (!stands || record == nullptr || detail::row_block::key_at(record) != keys[i]) record = segment_of(hash).find(hash, keys[i], store_->layout);
        if (record == nullptr) record = create(hash, keys[i]);
        if (record != nullptr) std::memcpy(detail::row_block::row_at(record), rows + i * width, width * sizeof(float));
      });
    });
    if (store_->evicted != evicted) ++store_->epoch;
  }

  std::uint64_t epoch() const { return store_->epoch; }

  /// Rows of these keys are not evicted before as many calls of release, whether there yet or not. A store that does not evict has
  /// nothing to do.
  void pin(std::span<key_type const> keys) {
    if (options_.overflow != overflow::evict) return;
    for (key_type const key : keys) store_->pins.add(key);
  }
  void release(std::span<key_type const> keys) {
    if (options_.overflow != overflow::evict) return;
    for (key_type const key : keys) store_->pins.remove(key);
  }

  /// Forgets rows, pinned ones too; unknown keys are ignored. Their slots are used again.
  void erase(std::span<key_type const> keys) {
    std::uint64_t const before = store_->rows;
    for (key_type const key : keys) {
      std::uint64_t const hash = Mix{}(key);
      store_->rows -= segment_of(hash).erase(hash, key, store_->layout) ? 1 : 0;
    }
    if (store_->rows != before) ++store_->epoch;
  }

  std::uint64_t size() const { return store_->rows; }

  /// The rows of the next segment, in the order of their hashes' first bits. O(slots of a segment).
  template <class F>
  void scan(scan_cursor& at, F&& f) const {
    detail::row_segment const& s = segment_of(at.position);
    for (std::uint32_t block = 0; block < s.blocks(); ++block) {
      s.rows_of(block, store_->layout, [&](std::byte* record) {
        f(detail::row_block::key_at(record), std::span<float const>{detail::row_block::row_at(record), store_->row_floats});
      });
    }
    // A segment holds the hashes of one prefix, and splits only refine it: a boundary between segments stays one.
    at.position = s.depth() == 0 ? 0 : at.position + (std::uint64_t{1} << (64 - s.depth()));
    at.done = at.position == 0;
  }
  bool passed(scan_cursor const& at, key_type key) const { return at.done || Mix{}(key) < at.position; }

  storage_counters counters() const {
    storage_counters c;
    c.rows = store_->rows;
    c.bytes = store_->directory.capacity() * sizeof(std::uint32_t) + store_->segments.capacity() * sizeof(detail::row_segment) +
              store_->pool.bytes() + store_->pins.bytes();
    for (detail::row_segment const& s : store_->segments) {
      c.bytes += s.own_bytes();
      c.slots += std::uint64_t{s.blocks()} * store_->layout.slots();
    }
    c.lookups = store_->lookups;
    c.misses = store_->misses;
    c.evicted = store_->evicted;
    c.rejected = store_->rejected;
    return c;
  }

 private:
  static constexpr unsigned most_depth = 24;
  /// Keys between issuing a prefetch and using what it brought.
  static constexpr std::size_t chunk = 32;
  /// The fills at which segments grow are spread over this share, so that they do not all grow at once.
  static constexpr double spread = 0.06;

  struct opened {
    std::vector<detail::row_segment> segments;
    std::vector<std::uint32_t> directory;   ///< 2^depth segments, by the first bits of the hash
    detail::extent_pool pool;
    detail::block_layout layout;
    detail::pin_counts pins;
    unsigned depth = 0;
    std::size_t row_floats = 0;
    std::uint64_t rows = 0;
    std::uint64_t most_rows = 0;
    std::uint64_t epoch = 0;
    std::uint64_t lookups = 0;
    std::uint64_t misses = 0;
    std::uint64_t evicted = 0;
    std::uint64_t rejected = 0;
    std::string where;
  };

  static std::byte* address_of(row_handle h) { return reinterpret_cast<std::byte*>(h); }

  std::size_t directory_index(std::uint64_t hash) const {
    return static_cast<std::size_t>((hash >> 1) >> (63 - store_->depth));   // a shift by 64 is not defined
  }
  detail::row_segment& segment_of(std::uint64_t hash) { return store_->segments[store_->directory[directory_index(hash)]]; }
  detail::row_segment const& segment_of(std::uint64_t hash) const { return store_->segments[store_->directory[directory_index(hash)]]; }

  /// Block in which a search for the hash starts.
  std::byte* home(std::uint64_t hash) const {
    detail::row_segment const& s = segment_of(hash);
    return s.address(s.home(hash));
  }

  detail::row_segment make_segment(std::uint32_t blocks, unsigned depth) const { return {blocks, depth, store_->layout, store_->where}; }

  /// Rows that fit in max_bytes at worst, and at most max_rows.
  std::uint64_t most_rows(std::string const& where) const {
    std::uint64_t most = options_.max_rows != 0 ? options_.max_rows : ~std::uint64_t{0};
    if (options_.max_bytes == 0) return most;
    // A segment that has just grown is two thirds full; before segments split they come in whole extents, with four in reserve.
    double const per_row = static_cast<double>(store_->layout.bytes()) / (store_->layout.slots() * 0.66 * store_->layout.most_load());
    double const reserve = std::min(0.6 * static_cast<double>(options_.max_bytes), 8.0 * detail::extent_pool::extent_bytes);
    auto const fit = static_cast<std::uint64_t>((static_cast<double>(options_.max_bytes) - reserve) / per_row);
    require(fit != 0, "storage::hashed: max_bytes is less than a row needs", where, "raise max_bytes");
    return std::min(most, fit);
  }

  /// Calls f(i, hash, record) for every key; record is where the key most likely is, or null. The line of tags of the keys ahead, and
  /// records that their tags lead to, are on their way meanwhile: to the second cache, which takes more misses at once than the first.
  /// @tparam Moving  f may move rows: then it must tell whether record still stands
  template <bool Moving, class Width, class F>
  void pipelined(std::span<key_type const> keys, Width width, F f) {
    std::uint64_t hash[3][chunk];
    std::byte* place[3][chunk];   // a block, then a record
    std::size_t const n = keys.size();
    detail::block_layout const layout = store_->layout;
    for (std::size_t c = 0, now = 0; c < n + 2 * chunk; c += chunk, now = now == 2 ? 0 : now + 1) {
      std::size_t const second = now == 0 ? 2 : now - 1;
      std::size_t const third = now == 2 ? 0 : now + 1;
      std::size_t const fresh = std::min(chunk, n - std::min(n, c));
      for (std::size_t i = 0; i < fresh; ++i) hash[now][i] = Mix{}(keys[c + i]);
      for (std::size_t i = 0; i < fresh; ++i) place[now][i] = home(hash[now][i]);
      // A fetch from a page whose address is not translated yet holds up what comes behind it; with nothing in between, many are translated
      // at once.
      for (std::size_t i = 0; i < fresh; ++i) __builtin_prefetch(place[now][i], 0, 2);
      // The other stages take turns key by key, so that fetches are spread evenly.
      for (std::size_t i = 0; i < chunk; ++i) {
        if (c >= chunk && c - chunk + i < n) {
          std::uint64_t const h = hash[second][i];
          detail::row_block const block{Moving ? home(h) : place[second][i], layout};
          std::uint64_t const slots = block.candidates(h);
          std::byte* const record = slots != 0 ? block.record(block.first_of(slots, h)) : nullptr;
          place[second][i] = record;
          if (record != nullptr) prefetch_record(record, width);
        }
        if (c >= 2 * chunk && c - 2 * chunk + i < n) f(c - 2 * chunk + i, hash[third][i], place[third][i]);
      }
    }
  }
  template <class Width>
  static void prefetch_record(std::byte const* record, Width width) {
    std::size_t const bytes = std::min<std::size_t>(sizeof(key_type) + width * sizeof(float), 1024);
    for (std::size_t b = 0; b < bytes; b += alignment_bytes) __builtin_prefetch(record + b, 0, 2);
    __builtin_prefetch(record + (bytes - 1), 0, 2);
  }

  /// Place of a row for a key that has none, or null when every row is pinned and no more are allowed.
  std::byte* create(std::uint64_t hash, key_type key) {
    if (store_->rows >= store_->most_rows && !evict_near(hash)) {
      ++store_->rejected;
      return nullptr;
    }
    if (segment_of(hash).full()) make_room(hash);
    std::byte* const record = segment_of(hash).insert(hash, key, store_->layout);
    ++store_->rows;
    return record;
  }

  /// @throws error when the new ones among `keys` are more than may come
  void check_room(std::span<key_type const> keys, std::span<row_handle const> handles) {
    std::uint64_t fresh = 0;
    pipelined<false>(keys, std::size_t{1}, [&](std::size_t i, std::uint64_t hash, std::byte const*) {
      if (handles[i] == no_row) fresh += segment_of(hash).find(hash, keys[i], store_->layout) == nullptr ? 1 : 0;
    });
    if (store_->rows + fresh <= store_->most_rows) return;
    throw error{"storage::hashed is full: " + std::to_string(store_->rows) + " rows of at most " + std::to_string(store_->most_rows) + ", and " +
                    std::to_string(fresh) + " more are to be stored",
                store_->where, "raise max_rows or max_bytes, let rows be evicted (overflow::evict), or use more ranks"};
  }

  /// Marks a row as read. @param record where it is
  void touch(std::uint64_t hash, std::byte const* record) {
    detail::row_segment const& s = segment_of(hash);
    for (std::uint32_t at = s.home(hash);; at = s.next(at)) {
      std::byte* const start = s.address(at);
      if (record < start || record >= start + store_->layout.bytes()) continue;
      detail::row_block const block{start, store_->layout};
      block.head().referenced |= std::uint64_t{1} << block.slot_of(record);
      return;
    }
  }

  /// Removes one row, from the block of `hash` if it has one to spare. False when all are pinned.
  bool evict_near(std::uint64_t hash) {
    std::size_t const first = store_->directory[directory_index(hash)];
    std::uint32_t block = store_->segments[first].home(hash);
    for (std::size_t n = 0; n < store_->segments.size(); ++n, block = 0) {
      detail::row_segment& s = store_->segments[(first + n) % store_->segments.size()];
      for (std::uint32_t tries = 0; tries < s.blocks(); ++tries, block = s.next(block)) {
        if (evict_in(s, block)) return true;
      }
    }
    return false;
  }

  /// The hand goes round the block twice: a row that was read since it last came by is spared once.
  bool evict_in(detail::row_segment& s, std::uint32_t at) {
    detail::row_block const block{s.address(at), store_->layout};
    std::uint32_t const slots = store_->layout.slots();
    std::uint64_t const used = block.used();
    for (std::uint32_t step = 0; used != 0 && step < 2 * slots; ++step) {
      std::uint32_t const slot = (block.head().hand + step) % slots;
      std::uint64_t const bit = std::uint64_t{1} << slot;
      if ((used & bit) == 0) continue;
      if ((block.head().referenced & bit) != 0) {
        block.head().referenced &= ~bit;
        continue;
      }
      key_type const key = block.key(slot);
      if (store_->pins.contains(key)) continue;
      s.erase(Mix{}(key), at, slot, store_->layout);
      block.head().hand = static_cast<std::uint8_t>((slot + 1) % slots);
      --store_->rows;
      ++store_->evicted;
      return true;
    }
    return false;
  }

  /// Rows at which a segment grows. Segments differ, by their hashes' first bits.
  void set_limit(detail::row_segment& s, std::uint64_t prefix) const {
    double const share = static_cast<double>(mix64(prefix, s.depth()) >> 40) * 0x1p-24;
    s.set_limit(rows_in(s.blocks(), store_->layout.most_load() * (1 - spread * share)));
  }
  std::uint32_t rows_in(std::uint64_t blocks, double load) const {
    double const slots = static_cast<double>(blocks) * store_->layout.slots();
    return static_cast<std::uint32_t>(std::max(1.0, std::min(load * slots, slots - 1)));
  }

  /// Blocks of a segment with room for a few more rows than it has. Extents are used whole.
  std::uint32_t blocks_for(std::uint64_t rows, std::uint64_t now) const {
    std::uint64_t const unit = detail::row_segment::extent_blocks(store_->layout);
    std::uint64_t blocks = now;
    do {
      bool const large = detail::row_segment::in_extents(blocks, store_->layout);
      blocks += large ? (blocks / unit < 8 ? 1 : 2) * unit : std::max<std::uint64_t>(1, blocks / 5);
      if (detail::row_segment::in_extents(blocks, store_->layout)) blocks = (blocks + unit - 1) / unit * unit;
    } while (rows_in(blocks, store_->layout.most_load() * (1 - spread)) <= rows);
    return static_cast<std::uint32_t>(std::min<std::uint64_t>(blocks, 0xffffffffU));
  }

  /// Rebuilds the full segment of `hash`: larger, or as two. Rows move: a new epoch.
  void make_room(std::uint64_t hash) {
    std::uint32_t const index = store_->directory[directory_index(hash)];
    detail::row_segment& old = store_->segments[index];
    std::uint32_t const blocks = blocks_for(old.rows(), old.blocks());
    ++store_->epoch;
    bool const split = (std::uint64_t{blocks} << store_->layout.shift()) > options_.segment_bytes && old.blocks() > 1 && old.depth() < most_depth;
    if (split && split_segment(index, hash)) return;
    detail::row_segment larger = make_segment(blocks, old.depth());
    detail::segment_rebuild{store_->layout, store_->pool, store_->where}.pour(old, {&larger, 1}, Mix{});
    old = std::move(larger);
    set_limit(old, prefix_of(hash, old.depth()));
  }

  static std::uint64_t prefix_of(std::uint64_t hash, unsigned depth) { return depth == 0 ? 0 : hash >> (64 - depth); }

  /// False when nearly all rows would stay on one side (a hash that does not mix): then growing is the better way.
  bool split_segment(std::uint32_t index, std::uint64_t hash) {
    std::uint32_t const old_blocks = store_->segments[index].blocks();
    unsigned const depth = store_->segments[index].depth();
    std::uint64_t high = 0;
    for (std::uint32_t block = 0; block < old_blocks; ++block) {
      store_->segments[index].rows_of(block, store_->layout, [&](std::byte* record) { high += (Mix{}(detail::row_block::key_at(record)) >> (63 - depth)) & 1; });
    }
    std::uint64_t const low = store_->segments[index].rows() - high;
    if (std::min(low, high) * 16 < low + high) return false;
    store_->segments.reserve(store_->segments.size() + 1);
    if (depth == store_->depth) {
      std::vector<std::uint32_t> doubled(2 * store_->directory.size());
      for (std::size_t i = 0; i < doubled.size(); ++i) doubled[i] = store_->directory[i / 2];
      store_->directory = std::move(doubled);
      ++store_->depth;
    }
    detail::row_segment halves[2] = {make_segment(blocks_for(low, old_blocks / 2), depth + 1), make_segment(blocks_for(high, old_blocks / 2), depth + 1)};
    detail::segment_rebuild{store_->layout, store_->pool, store_->where}.pour(store_->segments[index], halves, Mix{});
    std::uint64_t const prefix = prefix_of(hash, depth) << 1;
    set_limit(halves[0], prefix);
    set_limit(halves[1], prefix + 1);
    // The entries of the old segment are contiguous; the upper half now leads to the new one.
    auto const added = static_cast<std::uint32_t>(store_->segments.size());
    std::size_t const span = std::size_t{1} << (store_->depth - depth);
    std::size_t const first = directory_index(hash) / span * span;
    for (std::size_t i = first + span / 2; i < first + span; ++i) store_->directory[i] = added;
    store_->segments[index] = std::move(halves[0]);
    store_->segments.push_back(std::move(halves[1]));
    return true;
  }

  hashed_options options_{};
  detail::unopened_copy<opened> store_{};
};

}  // namespace nestpipe::storage
