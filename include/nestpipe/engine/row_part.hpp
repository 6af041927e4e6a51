#pragma once
/// @file
/// The rows this rank owns: a store per table, and the moves between stores and windows.

#include <nestpipe/core/digest.hpp>
#include <nestpipe/embedding/overlap.hpp>
#include <nestpipe/embedding/window.hpp>
#include <nestpipe/engine/row_snapshot.hpp>
#include <nestpipe/exec/stage.hpp>
#include <nestpipe/exec/worker_pool.hpp>
#include <nestpipe/optimizer/clipping.hpp>
#include <nestpipe/optimizer/optimizer.hpp>
#include <nestpipe/storage/admitting.hpp>
#include <nestpipe/storage/audited.hpp>
#include <nestpipe/storage/layers.hpp>
#include <nestpipe/storage/storage.hpp>

#include <algorithm>
#include <atomic>

namespace nestpipe::engine {

/// What becomes of a key without a row when it is read.
enum class absent_row : std::uint8_t {
  initial,  ///< training: its first value, which write_back will store
  missing,  ///< evaluation: the table's default; nothing is created
};

template <class Storage, class Optimizer>
class row_part {
 public:
  row_part(Storage const& prototype, Optimizer const& optimizer) : prototype_{prototype}, optimizer_{optimizer} {}

  /// Opens a store per table. @throws config_error
  void open(embedding_layout const& layout, std::uint64_t seed, std::uint32_t rank, std::uint32_t world_size, std::uint32_t shards) {
    seed_ = seed;
    if constexpr (storage::may_refuse<Storage>) {
      counts_.assign(admits() ? layout.tables().size() : 0, {});
      for (std::uint32_t t = 0; t < counts_.size(); ++t) counts_[t].open(t, shards, storage::admission_of(prototype_).size);
      kept_.resize(layout.tables().size());
    }
    tables_.assign(layout.tables().begin(), layout.tables().end());
    stores_.clear();
    for (std::uint32_t t = 0; t < tables_.size(); ++t) {
      storage::storage_spec spec;
      spec.table_name = tables_[t].name;
      spec.table = t;
      spec.dim = tables_[t].dim;
      spec.row_floats = stored_floats(t);
      spec.extra_floats = stored_floats(t) - row_floats(t);
      spec.cardinality = tables_[t].cardinality;
      spec.rank = rank;
      spec.world_size = world_size;
      stores_.push_back(prototype_);
      stores_.back().open(spec);
    }
  }

  std::size_t tables() const { return tables_.size(); }
  struct table const& table_spec(std::size_t t) const { return tables_[t]; }
  /// Whether rows carry the step of their last update behind their state (storage::audited).
  static constexpr bool stamped = requires { requires Storage::stamps_rows; };
  /// Floats of a row: embedding and state.
  std::size_t row_floats(std::size_t t) const { return tables_[t].dim + optimizer_.state_size(tables_[t].dim); }
  /// Floats that stores and windows keep: the row, and its stamp where there is one.
  std::size_t stored_floats(std::size_t t) const { return row_floats(t) + (stamped ? 1 : 0); }
  Storage& store(std::size_t t) { return stores_[t]; }
  Storage const& store(std::size_t t) const { return stores_[t]; }
  Optimizer const& optimizer() const { return optimizer_; }
  /// Whether keys may be refused a row (storage::admitting, in use).
  bool admits() const { return static_cast<bool>(storage::admission_of(prototype_)); }
  storage::admission_counters const& admission_results() const { return admission_; }
  /// Occurrences counted so far in the shards of table t; only where keys may be refused.
  storage::count_sketches const& counts(std::size_t t) const { return counts_[t]; }

  /// On the route lane, batch after batch: counts occurrences, then says which keys of the batch get no row. Counts first, so
  /// that the order of keys in a batch does not matter. O(keys).
  void admit(embedding::owner_route& route) {
    if (counts_.empty()) return;
    route.refused.assign_zero(route.distinct_keys());
    std::uint64_t keys_refused = 0;
    for (std::uint32_t t = 0; t < tables_.size(); ++t) {
      auto const keys = route.table_keys(t);
      auto const times = route.table_occurrences(t);
      auto const rule = storage::admission_of(stores_[t]);
      for (std::size_t i = 0; i < keys.size(); ++i) counts_[t].add(keys[i], times[i]);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        if (counts_[t].estimate(keys[i]) >= rule.needed(seed_, t, keys[i])) continue;
        route.refused[route.first_slot(t) + i] = 1;
        admission_.refused_occurrences += times[i];
        ++keys_refused;
      }
    }
    admission_.dropped_gradients += keys_refused;
    if (keys_refused == 0) route.refused.resize(0);
  }

  /// Gives a window this part's widths.
  void shape(embedding::window& w) const { shape_window(w); }

  /// Whether the stores want to know which rows are due.
  static constexpr bool looks_ahead = storage::looks_ahead<Storage>;
  /// The rows that a batch routed, and not yet retrieved, will need.
  void expect(std::uint64_t step, embedding::owner_route const& route)
    requires looks_ahead
  {
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      if (auto const keys = route.table_keys(t); !keys.empty()) stores_[t].expect(step, keys);
    }
  }
  /// That batch is retrieved now.
  void reached(std::uint64_t step)
    requires looks_ahead
  {
    for (auto& s : stores_) s.reached(step);
  }

  /// Reads the rows of a batch into its window. O(keys * row floats).
  void retrieve(embedding::owner_route const& route, embedding::window& w, absent_row absent, exec::worker_pool& helpers) {
    w.reset(route);
    read_stores(route, w, absent, helpers, [&](std::uint32_t t) { return w.rows(t); });
  }

  /// One optimizer update per row that has a gradient. O(keys * row floats).
  /// @param route  of the window's batch
  /// @param next  what the next batch shares with this one; read for the late portion only
  /// @param portion  late: only rows that `next` shares, so that they can go on their way; early: those not updated yet
  void update(embedding::owner_route const& route, embedding::window& w, embedding::overlap const* next, exec::portion portion,
              optimizer::clip_by_norm clip, std::uint64_t step, float rate_factor, exec::worker_pool& helpers) const {
    optimizer::with_concrete(optimizer_, [&](auto const& o) {
      auto const constants = o.prepare(step, rate_factor);
      for (std::uint32_t t = 0; t < tables_.size(); ++t) {
        std::size_t const stride = w.row_floats(t);
        auto const keys = route.table_keys(t);
        [[maybe_unused]] auto const refused = route.table_refused(t);
        [[maybe_unused]] auto const rounding = storage::rounding_of(stores_[t]);
        auto const has = w.has_gradient(t);
        float* const rows = w.rows(t);
        float* const gradients = w.gradients(t);
        with_fixed_dim(w.dim(t), [&](auto dim) {
          auto const one = [&](std::size_t i) {
            if (has[i] != 1) return;
            if constexpr (storage::may_refuse<Storage>) {
              if (!refused.empty() && refused[i] != 0) return;  // its gradient is lost
            }
            float* const row = rows + i * stride;
            float* const g = gradients + i * dim;
            clip.apply(g, dim);
            o.update(row, row + dim, g, dim, constants);
            if constexpr (storage::may_round<Storage>) {
              if (rounding) rounding(row, counter_random{mix64(seed_ ^ rounding_stream, step), t, keys[i]});
            }
            if constexpr (stamped) row[stride - 1] = storage::stamp_of(step);
            has[i] = 2;  // done
          };
          // One loop for both portions: it is compiled for every dim.
          std::uint32_t const* const shared = portion == exec::portion::late ? next->from(t).data() : nullptr;
          std::size_t const n = portion == exec::portion::late ? next->from(t).size() : has.size();
          helpers.ranges(n, small_part, [&](std::size_t first, std::size_t last) {
            for (std::size_t k = first; k < last; ++k) one(shared != nullptr ? shared[k] : k);
          });
        });
      }
    });
  }

  /// Copies the rows that `shared` names from the window just updated to the next one, state included.
  void refresh(embedding::overlap const& shared, embedding::window const& from, embedding::window& to, exec::worker_pool& helpers) const {
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      helpers.ranges(shared.from(t).size(), small_part, [&](std::size_t first, std::size_t last) {
        to.copy_rows(t, from, shared.from(t).subspan(first, last - first), shared.to(t).subspan(first, last - first));
      });
    }
  }

  /// Stores the rows of a window; a row that was new is created now. O(keys * row floats).
  void write_back(embedding::owner_route const& route, embedding::window& w, exec::worker_pool& helpers) {
    write_stores(route, w, helpers, [&](std::uint32_t t) { return w.rows(t); });
  }

  /// Forgets rows. Every erase must come through here, or saves under way would miss it.
  void erase(std::size_t t, std::span<key_type const> keys) {
    changing(t, keys);
    stores_[t].erase(keys);
  }

  // Saving while training goes on; called where rows are read and written, on the lookup lane or with lanes idle.

  /// Whether the keys of changed rows are noted from the next snapshot on, for snapshots of those alone.
  void note_touched(bool on) { noting_ = on; }
  /// Keys noted since the last snapshot, over all tables. May be called from any lane.
  std::uint64_t touched() const { return touched_count_.load(std::memory_order_relaxed); }
  /// Notes from now on, as if a snapshot had been taken.
  void start_touched() {
    forget_touched();
    touched_.resize(tables_.size());
  }
  /// Notes no more until the next snapshot.
  void forget_touched() {
    touched_.clear();
    touched_count_ = 0;
  }
  void begin_snapshot(snapshot_request const& request) {
    std::vector<std::size_t> floats, stored;
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      floats.push_back(row_floats(t));
      stored.push_back(stored_floats(t));
    }
    require(!request.touched_only || touched_.size() == tables_.size(), "the keys touched since the last save are not known", "save", "save all rows");
    snapshot_.begin(request, stores_, floats, stored, std::move(touched_));
    forget_touched();
    if (noting_) touched_.resize(tables_.size());
  }
  void advance_snapshot() {
    if (snapshot_.active()) snapshot_.advance(stores_);
  }
  row_snapshot const& snapshot() const { return snapshot_; }
  void finish_snapshot() { snapshot_.finish(stores_); }
  void cancel_snapshot() { snapshot_.cancel(); }

  /// Adds every row with its state.
  void add_to(digest& d) const {
    for (std::size_t t = 0; t < tables_.size(); ++t)
      storage::for_each(stores_[t], [&](key_type key, std::span<float const> row) { d.add(t, key, row.first(row_floats(t))); });
  }

  /// Bytes of all rows stored on this rank, indexes not counted.
  std::uint64_t stored_bytes() const {
    std::uint64_t n = 0;
    for (std::size_t t = 0; t < tables_.size(); ++t) n += stores_[t].size() * stored_floats(t) * sizeof(float);
    return n;
  }

  std::uint64_t rows() const {
    std::uint64_t n = 0;
    for (auto const& s : stores_) n += s.size();
    return n;
  }

 protected:
  // What rows in device memory need too.

  template <class Window>
  void shape_window(Window& w) const {
    std::vector<std::size_t> dims, floats;
    for (std::size_t t = 0; t < tables_.size(); ++t) {
      dims.push_back(tables_[t].dim);
      floats.push_back(stored_floats(t));
    }
    w.shape(dims, floats);
  }

  /// `rows_of(t)`: where the rows of table t go, by slot.
  template <class Window, class RowsOf>
  void read_stores(embedding::owner_route const& route, Window& w, absent_row absent, exec::worker_pool& helpers, RowsOf const& rows_of) {
    table_by_table(route, helpers, [&](std::uint32_t t) {
      auto const keys = route.table_keys(t);
      auto const handles = w.handles(t);
      float* const rows = rows_of(t);
      if constexpr (storage::may_refuse<Storage>) {
        if (!route.table_refused(t).empty()) return retrieve_admitted(t, route, w, rows);
      }
      if (absent == absent_row::initial) stores_[t].pin(keys);
      stores_[t].read(keys, handles, rows);
      w.epoch(t) = stores_[t].epoch();
      for (std::size_t i = 0; i < keys.size(); ++i) {
        if (handles[i] == storage::no_row) first_value(t, keys[i], rows + i * w.row_floats(t), absent);
      }
    });
  }

  template <class Window, class RowsOf>
  void write_stores(embedding::owner_route const& route, Window& w, exec::worker_pool& helpers, RowsOf const& rows_of) {
    table_by_table(route, helpers, [&](std::uint32_t t) {
      auto const keys = route.table_keys(t);
      auto const handles = w.handles(t);
      if constexpr (storage::may_refuse<Storage>) {
        if (!route.table_refused(t).empty()) return write_back_admitted(t, route, w, rows_of(t));
      }
      changing(t, keys);  // first: reading may move rows
      // Rows may have moved since retrieve: then the store looks them up again.
      if (stores_[t].epoch() != w.epoch(t)) std::fill(handles.begin(), handles.end(), storage::no_row);
      stores_[t].write(keys, handles, rows_of(t));
      stores_[t].release(keys);
    });
  }

 private:
  static constexpr std::uint64_t rounding_stream = 0x6a09e667f3bcc909ULL;  // apart from the stream of first values
  static constexpr std::size_t small_part = 2048;  // rows: fewer are not worth waking a thread for

  /// f(t) for every table that has keys; a store is used by one thread at a time.
  template <class F>
  void table_by_table(embedding::owner_route const& route, exec::worker_pool& helpers, F f) {
    auto const one = [&](std::size_t t) {
      if (!route.table_keys(t).empty()) f(static_cast<std::uint32_t>(t));
    };
    if (route.distinct_keys() >= 2 * small_part) {
      helpers.run(tables_.size(), one);
    } else {
      for (std::size_t t = 0; t < tables_.size(); ++t) one(t);
    }
  }

  /// What is kept of a table's part of a batch when some of its keys are refused. A table is used by one thread at a time.
  struct admitted_part {
    std::vector<key_type> keys;
    std::vector<std::uint32_t> slots;
    std::vector<storage::row_handle> handles;
    std::vector<float> rows;
  };
  admitted_part& select(std::uint32_t t, embedding::owner_route const& route) {
    admitted_part& kept = kept_[t];
    auto const keys = route.table_keys(t);
    auto const refused = route.table_refused(t);
    kept.keys.clear();
    kept.slots.clear();
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (refused[i] != 0) continue;
      kept.keys.push_back(keys[i]);
      kept.slots.push_back(static_cast<std::uint32_t>(i));
    }
    kept.handles.resize(kept.keys.size());
    return kept;
  }

  template <class Window>
  void retrieve_admitted(std::uint32_t t, embedding::owner_route const& route, Window& w, float* rows) {
    admitted_part& kept = select(t, route);
    auto const keys = route.table_keys(t);
    auto const refused = route.table_refused(t);
    auto const handles = w.handles(t);
    std::size_t const stride = w.row_floats(t);
    stores_[t].pin(kept.keys);
    stores_[t].read(kept.keys, kept.handles, rows);
    w.epoch(t) = stores_[t].epoch();
    // From the end, so that no row is overwritten before it has moved: it never moves to a lower slot.
    for (std::size_t k = kept.keys.size(); k-- > 0;) {
      std::size_t const i = kept.slots[k];
      handles[i] = kept.handles[k];
      if (handles[i] != storage::no_row && i != k) std::copy_n(rows + k * stride, stride, rows + i * stride);
    }
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (refused[i] != 0) {
        handles[i] = storage::no_row;
        first_value(t, keys[i], rows + i * stride, absent_row::missing);
      } else if (handles[i] == storage::no_row) {
        first_value(t, keys[i], rows + i * stride, absent_row::initial);
      }
    }
  }

  // The window may be read by refresh meanwhile, so its rows stay where they are.
  template <class Window>
  void write_back_admitted(std::uint32_t t, embedding::owner_route const& route, Window& w, float const* rows) {
    admitted_part& kept = select(t, route);
    auto const handles = w.handles(t);
    std::size_t const stride = w.row_floats(t);
    changing(t, kept.keys);  // first: reading may move rows
    bool const moved = stores_[t].epoch() != w.epoch(t);
    kept.rows.resize(kept.keys.size() * stride);
    for (std::size_t k = 0; k < kept.keys.size(); ++k) {
      kept.handles[k] = moved ? storage::no_row : handles[kept.slots[k]];
      std::copy_n(rows + kept.slots[k] * stride, stride, kept.rows.data() + k * stride);
    }
    stores_[t].write(kept.keys, kept.handles, kept.rows.data());
    stores_[t].release(kept.keys);
  }

  // Before rows of these keys change. Of different tables at the same time.
  void changing(std::size_t t, std::span<key_type const> keys) {
    if (snapshot_.active()) snapshot_.before_change(t, stores_[t], keys);
    if (touched_.empty()) return;
    std::uint64_t fresh = 0;
    for (key_type const key : keys) fresh += touched_[t].insert(key) ? 1 : 0;
    touched_count_.fetch_add(fresh, std::memory_order_relaxed);
  }

  void first_value(std::uint32_t t, key_type key, float* row, absent_row absent) const {
    std::size_t const dim = tables_[t].dim;
    if constexpr (stamped) row[row_floats(t)] = storage::stamp_of(0);
    if (absent == absent_row::missing) {
      for (std::size_t k = 0; k < dim; ++k) row[k] = tables_[t].missing;
      return;
    }
    tables_[t].init(seed_, t, key, row, dim);
    optimizer_.initialize(row + dim, dim);
  }

  Storage prototype_;
  Optimizer optimizer_;
  std::uint64_t seed_ = 0;
  std::vector<struct table> tables_;
  std::vector<Storage> stores_;
  std::vector<storage::count_sketches> counts_;  // per table, when keys may be refused; route lane
  std::vector<admitted_part> kept_;              // likewise; lookup lane
  storage::admission_counters admission_;        // route lane
  row_snapshot snapshot_;
  bool noting_ = false;
  std::vector<key_set> touched_;  // (tables), or none while nothing is noted
  std::atomic<std::uint64_t> touched_count_{0};
};

}  // namespace nestpipe::engine
