#pragma once
/// @file
/// The database behind the stores of one storage::rocksdb policy: one for all tables and ranks of a process, so that memory and
/// background threads are counted once. Every store has a column family in it.

#if !__has_include(<rocksdb/db.h>)
#error "nestpipe: <nestpipe/storage/rocksdb.hpp> needs RocksDB (Debian: librocksdb-dev; CMake: link nestpipe::rocksdb), or use <nestpipe/storage/file_log.hpp>"
#endif

#include <rocksdb/cache.h>
#include <rocksdb/db.h>
#include <rocksdb/filter_policy.h>
#include <rocksdb/options.h>
#include <rocksdb/table.h>

#include <nestpipe/storage/detail/disk_directory.hpp>
#include <nestpipe/storage/detail/wait_pool.hpp>

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

namespace nestpipe::storage {

/// How a storage::rocksdb keeps its rows. Memory is for all tables and ranks of the process together.
struct rocksdb_options {
  std::string path{};                                     ///< where the database goes; empty: a place for temporary files (may be small, or memory)
  std::size_t block_cache_bytes = std::size_t{128} << 20; ///< blocks of rows, indexes and filters; nothing of a table file is held outside
  std::size_t write_buffer_bytes = std::size_t{64} << 20; ///< rows written and not yet in a file
  std::size_t block_bytes = 4096;                         ///< unit of reading
  double bloom_bits = 10;                                 ///< bits a key: 10 spare 99 of 100 reads for keys that are not there; 0: no filter
  bool compress = false;                                  ///< lz4; trained floats hardly get smaller
  bool direct_io = false;                                 ///< past the page cache: no file system in memory can do this
  int background_jobs = 2;                                ///< flushes and compactions at once
  std::size_t read_threads = 8;                           ///< reads that wait for the disk at once
  bool keep = false;                                      ///< database lies at `path` itself, stays when closed, and is opened again with its rows
};

namespace detail {

/// @throws error naming path and status, unless it is good
inline void check_status(::rocksdb::Status const& status, std::string_view what, std::string const& where) {
  if (status.ok()) return;
  std::string_view const todo = status.IsNoSpace() || status.ToString().find("No space") != std::string::npos
                                    ? "free space there, or name another path"
                                : status.IsIOError() && status.ToString().find("lock") != std::string::npos
                                    ? "another process, or another policy of this one, has this database open: name another path"
                                : status.IsIOError()    ? "see that the path can be written, and can do direct I/O if that was asked for"
                                : status.IsCorruption() ? "remove the directory and load the last checkpoint"
                                                        : "";
  throw error{"storage::rocksdb: " + std::string{what} + ": " + status.ToString(), where, todo};
}

class rocksdb_database {
 public:
  explicit rocksdb_database(rocksdb_options const& o)
      : keep_{o.keep}, directory_{o.keep ? std::filesystem::path{o.path} : own_directory(o.path, "rocksdb")} {
    cache_ = ::rocksdb::NewLRUCache(o.block_cache_bytes);
    ::rocksdb::BlockBasedTableOptions table;
    table.block_cache = cache_;
    table.block_size = o.block_bytes;
    table.format_version = 5;
    if (o.bloom_bits > 0) table.filter_policy.reset(::rocksdb::NewBloomFilterPolicy(o.bloom_bits));
    // Indexes and filters in pieces of a few KiB inside the cache: without this they grow with the rows, outside of any limit.
    table.cache_index_and_filter_blocks = true;
    table.cache_index_and_filter_blocks_with_high_priority = true;
    table.index_type = ::rocksdb::BlockBasedTableOptions::kTwoLevelIndexSearch;
    table.partition_filters = o.bloom_bits > 0;
    table.metadata_block_size = 4096;
    family_.table_factory.reset(::rocksdb::NewBlockBasedTableFactory(table));
    family_.write_buffer_size = o.write_buffer_bytes / 2;  // one being filled, one being flushed
    family_.compression = o.compress ? ::rocksdb::kLZ4Compression : ::rocksdb::kNoCompression;
    family_.level_compaction_dynamic_level_bytes = true;

    ::rocksdb::DBOptions db;
    db.create_if_missing = true;
    db.db_write_buffer_size = o.write_buffer_bytes;
    db.max_background_jobs = o.background_jobs;
    db.use_direct_reads = o.direct_io;
    db.use_direct_io_for_flush_and_compaction = o.direct_io;
    db.avoid_flush_during_shutdown = !o.keep;
    db.keep_log_file_num = 1;
    db.stats_dump_period_sec = 0;
    std::vector<std::string> names;
    if (o.keep) (void)::rocksdb::DB::ListColumnFamilies(db, directory_.string(), &names);
    if (names.empty()) names.push_back(::rocksdb::kDefaultColumnFamilyName);
    std::vector<::rocksdb::ColumnFamilyDescriptor> families;
    for (std::string const& name : names) families.emplace_back(name, family_);
    std::vector<::rocksdb::ColumnFamilyHandle*> handles;
    ::rocksdb::DB* opened = nullptr;
    ::rocksdb::Status const status = ::rocksdb::DB::Open(db, directory_.string(), families, &handles, &opened);
    if (!status.ok()) {
      remove();
      check_status(status, "cannot open the database", directory_.string());
    }
    db_.reset(opened);
    for (std::size_t i = 0; i < handles.size(); ++i) families_.push_back({names[i], handles[i], false});
  }
  rocksdb_database(rocksdb_database const&) = delete;
  rocksdb_database& operator=(rocksdb_database const&) = delete;
  ~rocksdb_database() {
    for (family const& f : families_) (void)db_->DestroyColumnFamilyHandle(f.handle);
    cache_.reset();
    (void)db_->Close();
    db_.reset();
    remove();
  }

  ::rocksdb::DB& db() const { return *db_; }
  std::string where() const { return directory_.string(); }

  struct taken {
    ::rocksdb::ColumnFamilyHandle* family = nullptr;
    bool new_one = true;       ///< there was none of this name
    bool counted = false;      ///< rows is known: the store was closed in good order
    std::uint64_t rows = 0;
  };

  /// The column family of a store. With `keep` the one it had, with its rows.
  /// @throws config_error when another store has it
  taken take(std::string name, std::string const& at) {
    std::lock_guard const lock{mutex_};
    if (!keep_) name += " " + std::to_string(families_made_++);
    ++stores_;
    for (family& f : families_) {
      if (f.name != name) continue;
      require(!f.open, "storage::rocksdb: " + name + " is open already in a database that keeps its rows", at, "open each table and rank once");
      f.open = true;
      taken t{f.handle, false, false, 0};
      std::string count;
      if (db_->Get({}, name, &count).ok()) {
        t.counted = true;
        t.rows = std::stoull(count);
        // Logged at once: should the process die from now on, the count no longer holds.
        ::rocksdb::WriteOptions durable;
        durable.sync = true;
        check_status(db_->Delete(durable, name), "cannot write", at);
      }
      return t;
    }
    ::rocksdb::ColumnFamilyHandle* made = nullptr;
    check_status(db_->CreateColumnFamily(family_, name, &made), "cannot make a column family", at);
    families_.push_back({name, made, true});
    return {made, true, true, 0};
  }

  /// Ends a store. Without `keep` its rows are gone; with it they are on disk afterwards. Reports nothing: called by destructors.
  void give_back(::rocksdb::ColumnFamilyHandle* handle, std::uint64_t rows) {
    std::lock_guard const lock{mutex_};
    --stores_;
    auto const at = std::find_if(families_.begin(), families_.end(), [&](family const& f) { return f.handle == handle; });
    if (keep_) {
      ::rocksdb::WriteOptions durable;
      durable.sync = true;
      if (db_->Flush({}, handle).ok()) (void)db_->Put(durable, at->name, std::to_string(rows));
      at->open = false;
    } else {
      (void)db_->DropColumnFamily(handle);
      (void)db_->DestroyColumnFamilyHandle(handle);
      families_.erase(at);
    }
  }

  /// Bytes held for one store: its own, and its part of the cache.
  std::uint64_t bytes(::rocksdb::ColumnFamilyHandle* of) const {
    std::uint64_t own = 0;
    for (std::string const& what : {::rocksdb::DB::Properties::kCurSizeAllMemTables, ::rocksdb::DB::Properties::kEstimateTableReadersMem}) {
      std::uint64_t part = 0;
      if (db_->GetIntProperty(of, what, &part)) own += part;
    }
    return own + cache_->GetUsage() / std::max<std::uint64_t>(1, stores_);
  }

 private:
  struct family {
    std::string name;
    ::rocksdb::ColumnFamilyHandle* handle;
    bool open;   ///< a store uses it
  };

  void remove() const {
    std::error_code ignored;
    if (!keep_) std::filesystem::remove_all(directory_, ignored);
  }

  bool keep_;
  std::filesystem::path directory_;
  std::shared_ptr<::rocksdb::Cache> cache_;
  ::rocksdb::ColumnFamilyOptions family_;
  std::unique_ptr<::rocksdb::DB> db_;
  std::mutex mutex_;
  std::vector<family> families_;
  std::uint64_t families_made_ = 0;
  std::atomic<std::uint64_t> stores_{0};
};

/// Shared by the copies of a policy: the database, as long as one of their stores is open.
class rocksdb_place {
 public:
  std::shared_ptr<rocksdb_database> get(rocksdb_options const& options) {
    std::lock_guard const lock{mutex_};
    std::shared_ptr<rocksdb_database> there = open_.lock();
    if (!there) {
      there = std::make_shared<rocksdb_database>(options);
      open_ = there;
    }
    return there;
  }

 private:
  std::mutex mutex_;
  std::weak_ptr<rocksdb_database> open_;
};

}  // namespace detail
}  // namespace nestpipe::storage
