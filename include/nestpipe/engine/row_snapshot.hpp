#pragma once
/// @file
/// The rows of one rank as they were at one moment, taken out of the stores while training goes on writing to them.
///
/// Taking them out is spread over many ops of the lookup lane, a portion each. A row that is about to change and has not been
/// taken yet is taken first (copy on write); a row that is about to be created is remembered, so that it is left out. Memory:
/// the chunks under way and 12 to 36 bytes for each key that was written before its turn.

#include <nestpipe/core/error.hpp>
#include <nestpipe/engine/key_set.hpp>
#include <nestpipe/storage/storage.hpp>

#include <algorithm>
#include <atomic>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace nestpipe::engine {

/// Some rows of one table.
struct row_chunk {
  std::uint32_t table = 0;
  std::size_t row_floats = 0;
  std::vector<key_type> keys;     ///< (n)
  std::vector<float> rows;        ///< (n, row_floats)
  std::vector<key_type> removed;  ///< keys whose rows are gone; in snapshots of touched keys only

  void clear() {
    keys.clear();
    rows.clear();
    removed.clear();
  }
};

/// Where chunks go. Called from the lane that takes the snapshot; must not block.
struct chunk_sink {
  virtual ~chunk_sink() = default;
  virtual std::unique_ptr<row_chunk> fresh() = 0;
  virtual void take(std::unique_ptr<row_chunk> chunk) = 0;
  /// False while so much is under way that taking should pause.
  virtual bool keeps_up() const = 0;
  /// Everything has been taken. @param rows  (tables) rows that the stores held  @param problem  empty, or why it is of no use
  virtual void complete(std::vector<std::uint64_t> rows, std::string problem) = 0;
};

/// What a snapshot takes.
struct snapshot_request {
  chunk_sink* sink = nullptr;
  bool touched_only = false;
  std::uint64_t ops = 1;                         ///< calls of advance over which taking is spread
  std::size_t least_bytes = std::size_t{64} << 10;  ///< of a call: small models are taken in one go
  std::size_t chunk_bytes = std::size_t{16} << 20;
};

class row_snapshot {
 public:
  bool active() const { return sink_ != nullptr; }
  /// Keys that changed before their turn, over all snapshots.
  std::uint64_t early() const { return early_; }

  /// From now on the rows are as they are now.
  /// @param row_floats, stored_floats  (tables) of a row as it is saved, and as stores hold it
  /// @param touched  (tables) the keys that a snapshot of touched keys is about; unused otherwise
  template <class Storage>
  void begin(snapshot_request const& request, std::vector<Storage> const& stores, std::span<std::size_t const> row_floats, std::span<std::size_t const> stored_floats,
             std::vector<key_set> touched) {
    sink_ = request.sink;
    touched_only_ = request.touched_only;
    chunk_bytes_ = request.chunk_bytes;
    tables_.clear();
    tables_.resize(stores.size());
    rows_.clear();
    table_ = 0;
    credit_ = 0;
    std::uint64_t bytes = 0;
    for (std::size_t t = 0; t < stores.size(); ++t) {
      table_state& s = tables_[t];
      s.row_floats = row_floats[t];
      s.stored_floats = stored_floats[t];
      if (touched_only_) s.keys = std::move(touched[t]);
      rows_.push_back(stores[t].size());
      bytes += (touched_only_ ? s.keys.size() : rows_.back()) * (row_floats[t] * sizeof(float) + sizeof(key_type));
    }
    budget_ = static_cast<std::int64_t>(std::max<std::uint64_t>(request.least_bytes, bytes / std::max<std::uint64_t>(1, request.ops) + 1));
  }

  /// Before rows of these keys are written or erased: takes those whose turn has not come. O(keys), and one read of those taken.
  /// Of different tables at the same time, where stores are written so.
  template <class Storage>
  void before_change(std::size_t t, Storage& store, std::span<key_type const> keys) {
    table_state& s = tables_[t];
    if (s.done) return;
    s.pending.clear();
    for (key_type const key : keys) {
      if (touched_only_) {
        key_set::place const p = s.keys.find(key);
        if (p == key_set::none || p < s.at || s.keys.is_marked(p)) continue;
        s.keys.mark(p);
      } else if (store.passed(s.cursor, key) || !s.keys.insert(key)) {
        continue;
      }
      s.pending.push_back(key);
    }
    early_.fetch_add(s.pending.size(), std::memory_order_relaxed);
    take(t, store, s.pending);
  }

  /// The next portions, as many as this call's share of the work allows; at least one when a share is saved up.
  template <class Storage>
  void advance(std::vector<Storage>& stores) {
    if (!sink_->keeps_up()) return;
    credit_ = std::min(credit_ + budget_, 2 * budget_);
    while (active() && credit_ > 0) credit_ -= static_cast<std::int64_t>(portion(stores));
  }

  /// All that is left.
  template <class Storage>
  void finish(std::vector<Storage>& stores) {
    while (active()) portion(stores);
  }

  /// Gives up; nothing more reaches the sink.
  void cancel() {
    sink_ = nullptr;
    tables_.clear();
  }

 private:
  static constexpr std::size_t batch = 4096;

  struct table_state {
    std::size_t row_floats = 0, stored_floats = 0;
    storage::scan_cursor cursor{};
    key_set keys;            // all: those written before their turn; touched only: those this is about
    key_set::place at = 0;   // touched only: keys before it have been taken
    std::unique_ptr<row_chunk> chunk;
    std::uint64_t taken = 0;
    bool done = false;
    std::vector<key_type> pending;
    std::vector<storage::row_handle> handles;
    std::vector<float> values;
  };

  // One portion of the current table. Returns about how many bytes it was.
  template <class Storage>
  std::size_t portion(std::vector<Storage>& stores) {
    if (table_ == tables_.size()) {
      end();
      return 0;
    }
    table_state& s = tables_[table_];
    std::size_t const row_bytes = s.row_floats * sizeof(float);
    std::size_t met = 0;
    if (touched_only_) {
      std::uint64_t const share = static_cast<std::uint64_t>(std::max<std::int64_t>(credit_, 0)) / row_bytes;
      s.pending.clear();
      s.at = s.keys.visit(s.at, std::clamp<std::size_t>(share, 64, batch), [&](key_type key) { s.pending.push_back(key); });
      met = s.pending.size();
      take(table_, stores[table_], s.pending);
      s.done = s.at == key_set::none;
    } else {
      bool const check = s.keys.size() != 0;
      stores[table_].scan(s.cursor, [&](key_type key, std::span<float const> row) {
        ++met;
        if (check && s.keys.contains(key)) return;
        add(table_, key, row.data());
      });
      s.done = s.cursor.done;
    }
    if (s.done) {
      if (s.chunk) sink_->take(std::move(s.chunk));
      s.keys.clear();
      s.pending = {};
      s.handles = {};
      s.values = {};
      ++table_;
    }
    return met * row_bytes + 64;
  }

  template <class Storage>
  void take(std::size_t t, Storage& store, std::vector<key_type> const& keys) {
    table_state& s = tables_[t];
    for (std::size_t first = 0; first < keys.size(); first += batch) {
      std::span<key_type const> const some = std::span{keys}.subspan(first, std::min(batch, keys.size() - first));
      s.handles.resize(some.size());
      s.values.resize(some.size() * s.stored_floats);
      store.read(some, s.handles, s.values.data());
      for (std::size_t i = 0; i < some.size(); ++i) {
        if (s.handles[i] != storage::no_row) {
          add(t, some[i], s.values.data() + i * s.stored_floats);
        } else if (touched_only_) {
          chunk(t).removed.push_back(some[i]);
        }
      }
    }
  }

  row_chunk& chunk(std::size_t t) {
    table_state& s = tables_[t];
    if (!s.chunk) {
      s.chunk = sink_->fresh();
      s.chunk->table = static_cast<std::uint32_t>(t);
      s.chunk->row_floats = s.row_floats;
    }
    return *s.chunk;
  }

  void add(std::size_t t, key_type key, float const* row) {
    table_state& s = tables_[t];
    row_chunk& c = chunk(t);
    c.keys.push_back(key);
    c.rows.insert(c.rows.end(), row, row + s.row_floats);
    ++s.taken;
    if (c.keys.size() * (s.row_floats * sizeof(float) + sizeof(key_type)) >= chunk_bytes_) sink_->take(std::move(s.chunk));
  }

  void end() {
    std::string problem;
    for (std::size_t t = 0; t < tables_.size() && !touched_only_; ++t) {
      if (tables_[t].taken != rows_[t])
        problem = "table " + std::to_string(t) + " had " + std::to_string(rows_[t]) + " rows when the save began, " + std::to_string(tables_[t].taken) +
                  " of them could be saved: the store has dropped rows by itself meanwhile";
    }
    chunk_sink* const sink = sink_;
    cancel();
    sink->complete(std::move(rows_), std::move(problem));
  }

  chunk_sink* sink_ = nullptr;
  bool touched_only_ = false;
  std::size_t chunk_bytes_ = 0;
  std::vector<table_state> tables_;
  std::vector<std::uint64_t> rows_;
  std::size_t table_ = 0;
  std::atomic<std::uint64_t> early_{0};
  std::int64_t budget_ = 0;
  std::int64_t credit_ = 0;
};

}  // namespace nestpipe::engine
