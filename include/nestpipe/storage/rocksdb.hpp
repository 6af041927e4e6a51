#pragma once
/// @file
/// Rows in RocksDB, an ordered store on disk. Needs RocksDB (target nestpipe::rocksdb).

#include <nestpipe/storage/detail/rocksdb_database.hpp>
#include <nestpipe/storage/detail/unopened_copy.hpp>
#include <nestpipe/storage/storage.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

namespace nestpipe::storage {

/// One database for all copies of a policy (all tables, and all ranks of the process), one column family for each table and
/// rank in it: cache, write buffers and background threads are then limits of the process and not of a table, while a table's
/// rows still lie in files of their own, ordered by key, and go away with it.
///
/// Memory stays within block cache, write buffers and about 1 MB a table, however many rows there are: no index in memory. That,
/// and an order of keys on disk, is what it is for; storage::file_log writes fixed-size rows faster, 1.1 to 2 times as rows are fewer, at 5 to 6 bytes of
/// memory a row (bench/slow_tier.cpp).
///
/// Nothing is logged before it is written: checkpoints make rows durable, not this store. Without `keep` the database is removed
/// when the last store of the policy is closed; after a crash a directory nestpipe-rocksdb-* is left behind.
/// A handle says only that its key has a row; `epoch()` changes on erase.
class rocksdb {
 public:
  using options = rocksdb_options;

  rocksdb() = default;
  explicit rocksdb(options o) : options_{std::move(o)} {}

  /// @throws config_error when row_floats is 0, when called twice, for options that make no sense
  /// @throws error naming path and status when the database cannot be opened
  void open(storage_spec const& spec) {
    std::string const where = "table " + spec.table_name;
    require(!store_->database, "storage::rocksdb: opened twice", where, "open a copy of the policy");
    require(spec.row_floats > 0, "storage::rocksdb: a row needs at least one float", where);
    require(!options_.keep || !options_.path.empty(), "storage::rocksdb: to keep rows it needs a path", where, "set path");
    require(options_.read_threads > 0 && options_.background_jobs > 0 && options_.block_bytes > 0 && options_.write_buffer_bytes > 0,
            "storage::rocksdb: read_threads, background_jobs, block_bytes and write_buffer_bytes must not be 0", where);
    opened o;
    o.database = place_->get(options_);
    o.row_floats = spec.row_floats;
    o.where = where + ", " + o.database->where();
    detail::rocksdb_database::taken const t =
        o.database->take("rank " + std::to_string(spec.rank) + " table " + std::to_string(spec.table) + " " + spec.table_name, o.where);
    o.family = t.family;
    store_.value = std::move(o);
    store_->rows = t.counted ? t.rows : count();
  }

  /// Rows of keys. Duplicates are fine. Keys are sorted first: neighbours share blocks. O(n log n + n * row_floats) and the disk.
  /// @throws error naming path and status
  void read(std::span<key_type const> keys, std::span<row_handle> handles, float* rows) {
    std::size_t const row_bytes = store_->row_bytes();
    std::uint64_t const missing = look_up(keys, [&](std::size_t i, ::rocksdb::Slice const* value) {
      handles[i] = value == nullptr ? no_row : there;
      if (value != nullptr) std::memcpy(rows + i * store_->row_floats, value->data(), row_bytes);
    });
    store_->lookups += keys.size();
    store_->misses += missing;
  }

  /// Stores rows. A key without a handle is looked up first, so that size() is exact. O(n * row_floats), and O(n log n) and the disk
  /// for keys without a handle.
  /// @throws error naming path and status, e.g. on a full disk; some of the rows may be stored then
  void write(std::span<key_type const> keys, std::span<row_handle const> handles, float const* rows) {
    store_->asked.clear();
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (handles[i] == no_row) store_->asked.push_back(keys[i]);
    }
    std::uint64_t const created = look_up(store_->asked, [](std::size_t, ::rocksdb::Slice const*) {});
    for (std::size_t i = 0; i < keys.size();) {
      store_->batch.Clear();
      for (std::size_t const end = std::min(keys.size(), i + batch_rows); i < end; ++i) {
        key_bytes const key = ordered(keys[i]);
        put(store_->batch.Put(store_->family, slice(key), {reinterpret_cast<char const*>(rows + i * store_->row_floats), store_->row_bytes()}));
      }
      put(store_->database->db().Write(no_log(), &store_->batch));
    }
    store_->rows += created;
  }

  std::uint64_t epoch() const { return store_->epoch; }
  void pin(std::span<key_type const>) {}       // nothing is ever evicted
  void release(std::span<key_type const>) {}

  /// Forgets rows; unknown keys are ignored. @throws error naming path and status
  void erase(std::span<key_type const> keys) {
    store_->asked.assign(keys.begin(), keys.end());
    std::sort(store_->asked.begin(), store_->asked.end());
    store_->asked.erase(std::unique(store_->asked.begin(), store_->asked.end()), store_->asked.end());
    std::uint64_t const missing = look_up(store_->asked, [](std::size_t, ::rocksdb::Slice const*) {});
    std::uint64_t const gone = store_->asked.size() - missing;
    if (gone == 0) return;
    store_->batch.Clear();
    for (key_type const k : store_->asked) {
      key_bytes const key = ordered(k);
      put(store_->batch.Delete(store_->family, slice(key)));
    }
    put(store_->database->db().Write(no_log(), &store_->batch));
    store_->rows -= gone;
    ++store_->epoch;
  }

  std::uint64_t size() const { return store_->rows; }

  /// The next 8,192 rows in ascending order of keys. O(rows), and a seek. @throws error naming path and status
  template <class F>
  void scan(scan_cursor& at, F&& f) const {
    std::vector<float> row(store_->row_floats);
    at.done = !walk(at.position, portion_rows, [&](key_type key, ::rocksdb::Slice value) {
      std::memcpy(row.data(), value.data(), value.size());
      f(key, std::span<float const>{row});
      at.position = key + 1;
      return key != ~key_type{0};
    });
  }
  bool passed(scan_cursor const& at, key_type key) const { return at.done || key < at.position; }

  /// Bytes: write buffers and table readers of this table, and an equal part of the cache that all tables share.
  storage_counters counters() const {
    storage_counters c;
    c.rows = store_->rows;
    c.bytes = store_->database->bytes(store_->family);
    c.lookups = store_->lookups;
    c.misses = store_->misses;
    return c;
  }

 private:
  static constexpr row_handle there = 0;
  static constexpr std::size_t batch_rows = 4096;     ///< rows of a write batch
  static constexpr std::size_t chunk_keys = 256;      ///< keys of one MultiGet
  static constexpr std::size_t portion_rows = 8192;

  /// A key as its bytes are compared: high byte first.
  using key_bytes = std::array<char, sizeof(key_type)>;
  static key_bytes ordered(key_type key) {
    key_bytes bytes;
    for (std::size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<char>(static_cast<unsigned char>(key >> (56 - 8 * i)));
    return bytes;
  }
  static key_type key_of(::rocksdb::Slice bytes) {
    key_type key = 0;
    for (std::size_t i = 0; i < sizeof key; ++i) key = key << 8 | static_cast<unsigned char>(bytes[i]);
    return key;
  }
  static ::rocksdb::Slice slice(key_bytes const& key) { return {key.data(), key.size()}; }
  static ::rocksdb::WriteOptions no_log() {
    ::rocksdb::WriteOptions o;
    o.disableWAL = true;
    return o;
  }

  /// One MultiGet's arguments, kept so that reading allocates nothing of its own.
  struct chunk {
    std::array<key_bytes, chunk_keys> bytes;
    std::array<::rocksdb::Slice, chunk_keys> slices;
    std::array<::rocksdb::PinnableSlice, chunk_keys> values;
    std::array<::rocksdb::Status, chunk_keys> status;
  };

  struct opened {
    opened() = default;
    opened(opened&& other) noexcept { swap(other); }
    opened& operator=(opened&& other) noexcept {
      swap(other);
      return *this;
    }
    ~opened() {
      chunks.clear();  // they hold blocks of the database
      if (family != nullptr) database->give_back(family, rows);
    }
    void swap(opened& o) {
      std::swap(database, o.database);
      std::swap(family, o.family);
      std::swap(row_floats, o.row_floats);
      std::swap(rows, o.rows);
      std::swap(epoch, o.epoch);
      std::swap(lookups, o.lookups);
      std::swap(misses, o.misses);
      std::swap(where, o.where);
      std::swap(batch, o.batch);
      std::swap(order, o.order);
      std::swap(asked, o.asked);
      std::swap(chunks, o.chunks);
      std::swap(pool, o.pool);
    }
    std::size_t row_bytes() const { return row_floats * sizeof(float); }

    std::shared_ptr<detail::rocksdb_database> database;
    ::rocksdb::ColumnFamilyHandle* family = nullptr;
    std::size_t row_floats = 0;
    std::uint64_t rows = 0;
    std::uint64_t epoch = 0;
    std::uint64_t lookups = 0;
    std::uint64_t misses = 0;
    std::string where;
    ::rocksdb::WriteBatch batch;
    std::vector<std::uint32_t> order;                ///< places of keys, sorted by key
    std::vector<key_type> asked;
    std::vector<std::unique_ptr<chunk>> chunks;      ///< one for each read that runs at once
    std::unique_ptr<detail::wait_pool> pool = std::make_unique<detail::wait_pool>();
  };

  void put(::rocksdb::Status const& status) const { detail::check_status(status, "cannot write", store_->where); }

  /// found(i, value or null) for every key, from several threads. Returns how many keys, doubled ones included, have no row.
  template <class F>
  std::uint64_t look_up(std::span<key_type const> keys, F&& found) {
    if (keys.empty()) return 0;
    auto& order = store_->order;
    order.resize(keys.size());
    for (std::size_t i = 0; i < keys.size(); ++i) order[i] = static_cast<std::uint32_t>(i);
    std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return keys[a] < keys[b]; });
    std::size_t const n_chunks = (keys.size() + chunk_keys - 1) / chunk_keys;
    std::size_t const threads = std::min(options_.read_threads, n_chunks);
    while (store_->chunks.size() < threads) store_->chunks.push_back(std::make_unique<chunk>());
    std::atomic<std::uint64_t> missing{0};
    std::size_t const each = (n_chunks + threads - 1) / threads;
    store_->pool->run(threads, threads, [&](std::size_t t) {
      std::uint64_t mine = 0;
      std::size_t const end = std::min(keys.size(), (t + 1) * each * chunk_keys);
      for (std::size_t begin = t * each * chunk_keys; begin < end; begin += chunk_keys)
        mine += look_up_chunk(keys, std::span{order}.subspan(begin, std::min(chunk_keys, end - begin)), *store_->chunks[t], found);
      missing += mine;
    });
    return missing;
  }

  template <class F>
  std::uint64_t look_up_chunk(std::span<key_type const> keys, std::span<std::uint32_t const> order, chunk& c, F&& found) const {
    std::size_t n = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0 && keys[order[i]] == keys[order[i - 1]]) continue;
      c.bytes[n] = ordered(keys[order[i]]);
      c.slices[n] = slice(c.bytes[n]);
      ++n;
    }
    store_->database->db().MultiGet({}, store_->family, n, c.slices.data(), c.values.data(), c.status.data(), true);
    std::uint64_t missing = 0;
    std::size_t u = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      if (i > 0 && keys[order[i]] != keys[order[i - 1]]) ++u;
      if (c.status[u].ok()) {
        check_size(c.values[u]);
        found(order[i], &c.values[u]);
      } else {
        if (!c.status[u].IsNotFound()) detail::check_status(c.status[u], "cannot read key " + std::to_string(keys[order[i]]), store_->where);
        ++missing;
        found(order[i], nullptr);
      }
    }
    for (std::size_t i = 0; i < n; ++i) c.values[i].Reset();
    return missing;
  }

  void check_size(::rocksdb::Slice const& value) const {
    if (value.size() != store_->row_bytes())
      throw error{"storage::rocksdb: a stored row has " + std::to_string(value.size()) + " bytes, the table's have " + std::to_string(store_->row_bytes()),
                  store_->where, "the database is of another model: name another path"};
  }

  /// f(key, value) for at most `most` rows from `from` on, as long as it returns true. Returns whether it came to `most`.
  template <class F>
  bool walk(key_type from, std::uint64_t most, F&& f) const {
    ::rocksdb::ReadOptions o;
    o.fill_cache = false;  // a pass over all rows must not push out those that training uses
    std::unique_ptr<::rocksdb::Iterator> const at{store_->database->db().NewIterator(o, store_->family)};
    key_bytes const first = ordered(from);
    std::uint64_t n = 0;
    for (at->Seek(slice(first)); n < most && at->Valid(); at->Next(), ++n) {
      check_size(at->value());
      if (!f(key_of(at->key()), at->value())) return false;
    }
    detail::check_status(at->status(), "cannot read", store_->where);
    return n == most;
  }

  std::uint64_t count() const {
    std::uint64_t n = 0;
    walk(0, ~std::uint64_t{0}, [&](key_type, ::rocksdb::Slice) {
      ++n;
      return true;
    });
    return n;
  }

  options options_{};
  std::shared_ptr<detail::rocksdb_place> place_ = std::make_shared<detail::rocksdb_place>();
  detail::unopened_copy<opened> store_{};
};

}  // namespace nestpipe::storage
