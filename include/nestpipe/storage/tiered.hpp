#pragma once
/// @file
/// Rows in two tiers: a bounded fast one over a slow one that may be as large as it likes.

#include <nestpipe/core/random.hpp>
#include <nestpipe/exec/buffer.hpp>
#include <nestpipe/storage/detail/due_keys.hpp>
#include <nestpipe/storage/detail/reserved_array.hpp>
#include <nestpipe/storage/detail/slot_index.hpp>
#include <nestpipe/storage/detail/unopened_copy.hpp>
#include <nestpipe/storage/eviction/look_ahead.hpp>
#include <nestpipe/storage/fast_memory.hpp>
#include <nestpipe/storage/storage.hpp>
#include <nestpipe/storage/tier_options.hpp>

#include <algorithm>
#include <chrono>
#include <vector>

namespace nestpipe::storage {

/// A row lives in the slow tier, in the fast one, or in both; then the fast copy counts. Which, changes no bit of any result.
///
/// - `pin` gives every key a place in the fast tier until `release`, read from the slow tier by the next `read`, all missing
///   rows of a call in one slow read. A key without a row is remembered as such: it costs one slow look-up, not two.
/// - Reads without a pin (evaluation) and writes without one of rows that are not up (a checkpoint being loaded) pass by: they
///   leave the tiers as they are.
/// - Writes stay up. When `pin` finds the tier full, several per cent of its rows go down at once, the changed ones in one slow
///   write: whichever the eviction policy ranks least, of those not pinned. When all are pinned the tier grows beyond its bound
///   (counted) and shrinks back later.
///
/// Handles are places in the fast tier and checked against the key when used, so an eviction invalidates none: only `erase`
/// changes `epoch()`. Keeps 32 bytes a row beside the row, an index of 12 to 23, and what the policy keeps. A scan follows the
/// slow tier's order; at its start rows that are only up are written down once, which is why the members are mutable.
/// @tparam Fast      memory of the fast tier, see fast_memory.hpp
/// @tparam Slow      any store
/// @tparam Eviction  see eviction/eviction.hpp
template <class Fast, class Slow, class Eviction = eviction::look_ahead<>>
class tiered {
  static_assert(fast_tier_memory<Fast>, "storage::tiered: Fast must provide what storage/fast_memory.hpp lists");
  static_assert(audit<Slow>());
  static_assert(eviction::audit<Eviction>());

 public:
  tiered() = default;
  explicit tiered(tier_options options, Slow slow = {}, Eviction eviction = {}, Fast fast = {})
      : options_{std::move(options)}, slow_{std::move(slow)}, eviction_{std::move(eviction)}, fast_{std::move(fast)} {}

  /// @throws config_error when the bound is not given in exactly one way, or is too small for one row; and what the slow tier throws
  void open(storage_spec const& spec) {
    std::string const where = "table " + spec.table_name;
    opened& o = store_.value;
    require(o.row_floats == 0, "storage::tiered: opened twice", where, "open a copy of the policy");
    require(spec.row_floats > 0, "storage::tiered: a row needs at least one float", where);
    require((options_.rows != 0) + (options_.bytes != 0) + (options_.shared != nullptr) == 1,
            "storage::tiered: say in one way how large the fast tier may be", where, "set rows, bytes or shared of tier_options");
    require(options_.evict_share > 0 && options_.evict_share <= 1 && options_.considered >= 1,
            "storage::tiered: evict_share must be above 0 and at most 1, considered at least 1", where);
    slow_.open(spec);
    o.row_floats = spec.row_floats;
    std::uint64_t const bound = options_.shared ? options_.shared->total() : options_.bytes;
    std::uint64_t rows = options_.rows != 0 ? options_.rows : bound / row_cost();
    require(rows > 0, "storage::tiered: the fast tier cannot hold one row", where, "give it more memory");
    rows = std::min<std::uint64_t>(rows, most_slots / 2);
    if (options_.shared) {
      o.member = options_.shared->join();
    } else {
      o.capacity = rows;
    }
    o.purpose = where;
    std::uint64_t const reserved = rows + rows / 8 + 1024;
    o.slots.reserve(reserved, where);
    fast_.open(spec, reserved);
    eviction_.open(std::min<std::uint64_t>(rows, 1024));
    o.policy_rows = std::min<std::uint64_t>(rows, 1024);
  }

  /// Handle of each key, or no_row, and its row. Duplicates are fine. O(n * row_floats), and one read of the slow tier for what is not up.
  void read(std::span<key_type const> keys, std::span<row_handle> handles, float* rows) {
    opened& o = store_.value;
    locate(keys);
    o.asked.clear();
    o.asked_for.clear();
    for (std::size_t i = 0; i < keys.size(); ++i) {
      row_handle const slot = o.at[i];
      if (slot != no_row) {
        slot_info& s = o.slots[slot];
        if ((s.state & (up | absent | asked)) != 0) continue;
        s.state |= asked;
      }
      o.asked.push_back(keys[i]);
      o.asked_for.push_back(slot != no_row ? slot : passing | i);
    }
    std::uint64_t const read_down = o.asked.size();
    std::uint64_t found_up = 0, found_passing = 0;
    if (read_down != 0) {
      read_slow();
      for (std::size_t j = 0; j < o.asked.size(); ++j) {
        bool const there = o.below[j] != no_row;
        row_handle& to = o.asked_for[j];
        if ((to & passing) != 0) {
          std::size_t const i = to & ~passing;
          handles[i] = there ? row_handle{passed_by} : no_row;
          if (there) std::memcpy(rows + i * o.row_floats, o.rows.data() + j * o.row_floats, o.row_floats * sizeof(float));
          found_passing += there ? 1 : 0;
          to = no_row;
        } else {
          slot_info& s = o.slots[to];
          s.state = static_cast<std::uint8_t>((s.state & ~asked) | (there ? up | below : absent));
          s.handle = o.below[j];
          s.epoch = static_cast<std::uint32_t>(slow_.epoch());
          found_up += there ? 1 : 0;
          if (!there) to = no_row;
        }
      }
      fast_.scatter(o.asked_for, o.rows.data());
    }
    std::uint64_t present = found_passing;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      row_handle& slot = o.at[i];
      if (slot == no_row) continue;  // passed by: its handle is set
      if ((o.slots[slot].state & up) == 0) slot = no_row;
      handles[i] = slot;
      present += slot != no_row ? 1 : 0;
    }
    fast_.gather(o.at.span(), rows);
    o.lookups += keys.size();
    o.absent_reads += keys.size() - present;
    o.moved.hits += present - found_up - found_passing;
    o.moved.misses += found_up + found_passing;
    o.moved.rows_up += found_up;
    o.moved.bytes_up += found_up * row_bytes();
  }

  /// Stores rows; a key without one gets it. O(n * row_floats); one write of the slow tier for rows that are neither up nor pinned.
  void write(std::span<key_type const> keys, std::span<row_handle const> handles, float const* rows) {
    opened& o = store_.value;
    o.at.resize(keys.size());
    o.asked.clear();
    o.asked_for.clear();
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (i + ahead < keys.size() && handles[i + ahead] < o.slots.size()) __builtin_prefetch(&o.slots[handles[i + ahead]], 1, 3);
      o.at[i] = holds(handles[i], keys[i]) ? handles[i] : find(keys[i]);
      // Pinned but never read: whether the slow tier has a row is not known, and must be for the count of rows.
      if (o.at[i] != no_row && (o.slots[o.at[i]].state & (up | absent)) == 0) {
        o.asked.push_back(keys[i]);
        o.asked_for.push_back(o.at[i]);
      }
    }
    if (!o.asked.empty()) {
      read_slow();
      for (std::size_t j = 0; j < o.asked.size(); ++j) {
        if (o.below[j] != no_row) o.slots[o.asked_for[j]].state |= below;
      }
    }
    write_through(keys, rows);
    fast_.scatter(o.at.span(), rows);
    for (row_handle const slot : o.at.span()) {
      if (slot == no_row) continue;
      std::uint8_t& state = o.slots[slot].state;
      if ((state & (up | below)) == 0) ++o.only_up;
      state = static_cast<std::uint8_t>((state & ~absent) | up | changed);
    }
    remember(keys);
  }

  std::uint64_t epoch() const { return store_->epoch; }

  /// Gives every key a place in the fast tier that it keeps until release. O(n), and one slow write where room must be made.
  void pin(std::span<key_type const> keys) {
    if (keys.empty()) return;
    opened& o = store_.value;
    ++o.now;
    locate(keys);
    std::uint64_t missing = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (o.at[i] == no_row) {
        ++missing;
      } else {
        hold(o.slots[o.at[i]]);
      }
    }
    if (missing != 0) make_room(missing);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (o.at[i] == no_row) {
        o.at[i] = find(keys[i]);  // a key may come twice
        if (o.at[i] == no_row) o.at[i] = take_slot(keys[i]);
        hold(o.slots[o.at[i]]);
      }
      slot_info& s = o.slots[o.at[i]];
      eviction_.used(s.mark, s.key, o.now);
    }
    o.moved.most_beyond = std::max(o.moved.most_beyond, o.index.size() - std::min(o.index.size(), o.capacity));
  }
  /// A key whose row never came leaves at once.
  void release(std::span<key_type const> keys) {
    opened& o = store_.value;
    locate(keys);
    for (row_handle const slot : o.at.span()) {
      if (slot == no_row || o.slots[slot].pins == 0) continue;
      if (--o.slots[slot].pins == 0 && (o.slots[slot].state & up) == 0) free_slot(slot);
    }
  }

  /// Forgets rows of both tiers; unknown keys are ignored.
  void erase(std::span<key_type const> keys) {
    opened& o = store_.value;
    std::uint64_t const before = size();
    for (key_type const key : keys) {
      row_handle const slot = find(key);
      if (slot == no_row) continue;
      slot_info& s = o.slots[slot];
      if ((s.state & (up | below)) == up) --o.only_up;
      s.state = used | absent;
      s.handle = no_row;
      if (s.pins == 0) free_slot(slot);
    }
    slow_.erase(keys);
    if (size() != before) ++o.epoch;
  }

  std::uint64_t size() const { return slow_.size() + store_->only_up; }

  /// The slow tier's next portion, with the fast tier's bits where it has a newer copy.
  template <class F>
  void scan(scan_cursor& at, F&& f) const {
    if (at.position == 0 && !at.done) settle();
    opened& o = store_.value;
    o.one.resize(o.row_floats);
    slow_.scan(at, [&](key_type key, std::span<float const> row) {
      row_handle const slot = find(key);
      if (slot == no_row || (o.slots[slot].state & changed) == 0) {
        f(key, row);
        return;
      }
      fast_.gather(std::span{&slot, 1}, o.one.data());
      f(key, std::span<float const>{o.one.span()});
    });
  }
  /// Rows created since the scan began may be met or not.
  bool passed(scan_cursor const& at, key_type key) const { return slow_.passed(at, key); }

  /// Bytes of both tiers; `evicted` counts what the slow tier has given up, not rows that move.
  storage_counters counters() const {
    opened const& o = store_.value;
    storage_counters c = slow_.counters();
    c.rows = size();
    c.bytes += fast_.bytes(o.slots.size()) + o.slots.size() * sizeof(slot_info) + o.index.bytes() + eviction_.bytes() + o.due.bytes();
    c.lookups = o.lookups;
    c.misses = o.absent_reads;
    return c;
  }
  tier_counters tiers() const {
    tier_counters c = store_->moved;
    c.capacity = store_->capacity;
    c.rows = store_->index.size();
    return c;
  }

  /// Keys that batch `batch` will pin; batches come in ascending order. A hint: it changes what is evicted, nothing else.
  void expect(std::uint64_t batch, std::span<key_type const> keys)
    requires(eviction::needs_due<Eviction>())
  {
    store_->due.expect(batch, keys);
  }
  /// The rows of this batch are read next.
  void reached(std::uint64_t batch)
    requires(eviction::needs_due<Eviction>())
  {
    store_->due.reached(batch);
  }

  Slow const& slow() const { return slow_; }
  tier_options const& options() const { return options_; }

 private:
  // State of a slot in use. Neither up nor absent: pinned, and not asked for yet.
  static constexpr std::uint8_t used = 1;       ///< has a key
  static constexpr std::uint8_t up = 2;         ///< its row is here
  static constexpr std::uint8_t below = 4;      ///< the slow tier has a row of this key, current or not
  static constexpr std::uint8_t changed = 8;    ///< newer than the slow tier's, or only here
  static constexpr std::uint8_t absent = 16;    ///< the key has no row anywhere
  static constexpr std::uint8_t asked = 32;     ///< on its way

  static constexpr row_handle passed_by = no_row - 1;   ///< a row that is not up
  static constexpr row_handle passing = row_handle{1} << 63;
  static constexpr std::uint64_t most_slots = 0xfffffff0ULL;
  static constexpr std::size_t ahead = 16;

  struct slot_info {
    key_type key;
    typename Eviction::mark mark;
    row_handle handle;       ///< of the slow tier, in its epoch `epoch`; spares it a look-up when the row goes down
    std::uint32_t epoch;
    std::uint16_t pins;
    std::uint8_t due;        ///< batches, 0: not known
    std::uint8_t state;
  };

  struct opened {
    std::size_t row_floats = 0;
    std::uint64_t capacity = 0;     ///< rows
    std::uint64_t policy_rows = 0;
    std::size_t member = 0;         ///< of the shared budget
    std::uint32_t now = 0;
    detail::reserved_array<slot_info> slots;   ///< address space for all, as in the fast memory
    std::vector<std::uint32_t> free;
    detail::slot_index index;
    detail::due_keys due;
    std::uint64_t only_up = 0;      ///< rows that the slow tier has never had
    std::uint64_t hand = 0;         ///< where the next search for victims begins
    std::uint64_t epoch = 0;
    std::uint64_t lookups = 0, absent_reads = 0;
    tier_counters moved;
    std::string purpose;
    // Of the call in progress.
    exec::buffer<row_handle> at;            ///< per key: slot or no_row
    key_type const* seen = nullptr;         ///< keys that `at` was found for
    std::vector<key_type> asked;
    std::vector<row_handle> asked_for;      ///< slot, or passing | position
    exec::buffer<row_handle> below;
    exec::buffer<float> rows, one;
    struct candidate {
      std::uint64_t worth;
      std::uint32_t slot;
    };
    std::vector<candidate> candidates;
  };

  std::uint64_t row_bytes() const { return store_->row_floats * sizeof(float); }
  std::uint64_t row_cost() const { return row_bytes() + sizeof(slot_info) + 24 + 16; }  // index and policy at their largest

  static std::uint64_t hash_of(key_type key) { return mix64(key ^ 0x5851f42d4c957f2dULL); }

  bool holds(row_handle slot, key_type key) const {
    return slot < store_->slots.size() && (store_->slots[slot].state != 0) && store_->slots[slot].key == key;
  }
  row_handle find(key_type key) const {
    std::uint32_t const slot = store_->index.find(hash_of(key), [&](std::uint32_t s) { return store_->slots[s].key == key; });
    return slot == detail::slot_index::none ? no_row : row_handle{slot};
  }
  /// at[i] = slot of keys[i]. Where the call before had the same keys its answers are checked first.
  void locate(std::span<key_type const> keys) {
    opened& o = store_.value;
    std::size_t const n = keys.size();
    bool const again = o.seen == keys.data() && o.at.size() == n;
    if (!again) o.at.resize(n);
    if (again) {
      for (std::size_t i = 0; i < n; ++i) {
        if (i + ahead < n && o.at[i + ahead] < o.slots.size()) __builtin_prefetch(&o.slots[o.at[i + ahead]], 1, 3);
        if (!holds(o.at[i], keys[i])) o.at[i] = find(keys[i]);
      }
    } else {
      for (std::size_t i = 0; i < n + ahead; ++i) {
        if (i < n) o.index.prefetch(hash_of(keys[i]));
        if (i >= ahead / 2 && i - ahead / 2 < n) {
          std::uint32_t const likely = o.index.guess(hash_of(keys[i - ahead / 2]));
          if (likely != detail::slot_index::none) __builtin_prefetch(&o.slots[likely], 1, 3);
        }
        if (i >= ahead) o.at[i - ahead] = find(keys[i - ahead]);
      }
    }
    remember(keys);
  }
  void remember(std::span<key_type const> keys) { store_->seen = keys.data(); }

  // asked -> below and rows.
  void read_slow() {
    opened& o = store_.value;
    o.below.resize(o.asked.size());
    o.rows.resize(o.asked.size() * o.row_floats);
    timed(o.moved.read_seconds, [&] { slow_.read(std::span<key_type const>{o.asked}, o.below.span(), o.rows.data()); });
    ++o.moved.slow_reads;
  }
  // asked, below (handles) and rows -> the slow tier.
  void write_slow() const {
    opened& o = store_.value;
    timed(o.moved.write_seconds, [&] { slow_.write(std::span<key_type const>{o.asked}, std::span<row_handle const>{o.below.span()}, o.rows.data()); });
    ++o.moved.slow_writes;
    o.moved.bytes_down += o.asked.size() * row_bytes();
  }
  // Rows written that have no place up.
  void write_through(std::span<key_type const> keys, float const* rows) {
    opened& o = store_.value;
    o.asked.clear();
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (o.at[i] == no_row) o.asked.push_back(keys[i]);
    }
    if (o.asked.empty()) return;
    o.rows.resize(o.asked.size() * o.row_floats);
    std::size_t j = 0;
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (o.at[i] == no_row) std::memcpy(o.rows.data() + j++ * o.row_floats, rows + i * o.row_floats, row_bytes());
    }
    o.below.resize(j);
    std::fill(o.below.span().begin(), o.below.span().end(), no_row);
    write_slow();
    o.moved.rows_through += j;
  }
  template <class F>
  static void timed(double& seconds, F f) {
    auto const begin = std::chrono::steady_clock::now();
    f();
    seconds += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  void hold(slot_info& s) {
    require(s.pins != 0xffff, "storage::tiered: one key was pinned 65,535 times", store_->purpose, "release what is pinned");
    ++s.pins;
  }
  row_handle take_slot(key_type key) {
    opened& o = store_.value;
    std::uint32_t slot = 0;
    if (!o.free.empty()) {
      slot = o.free.back();
      o.free.pop_back();
    } else {
      require(o.slots.size() < most_slots, "storage::tiered: more than 4 billion rows in a fast tier", {}, "use more ranks");
      slot = static_cast<std::uint32_t>(o.slots.size());
      if (slot == o.slots.room()) {
        fast_.grow(o.slots.room() + o.slots.room() / 2);
        o.slots.reserve(o.slots.room() + o.slots.room() / 2, o.purpose);
      }
      o.slots.push_back({});
    }
    o.slots[slot] = {key, {}, no_row, 0, 0, 0, used};
    o.index.insert(hash_of(key), slot);
    return slot;
  }
  void free_slot(row_handle slot) {
    opened& o = store_.value;
    o.index.erase(hash_of(o.slots[slot].key), static_cast<std::uint32_t>(slot));
    o.slots[slot].state = 0;
    o.free.push_back(static_cast<std::uint32_t>(slot));
  }

  void make_room(std::uint64_t rows) {
    opened& o = store_.value;
    while (options_.shared && o.index.size() + rows > o.capacity) {
      std::uint64_t const more = std::max<std::uint64_t>(o.capacity / 8, 64);
      if (!options_.shared->take(o.member, more * row_cost())) break;
      o.capacity += more;
    }
    while (o.policy_rows < std::min(o.capacity, o.index.size() + rows)) {
      o.policy_rows = std::min(2 * o.policy_rows, o.capacity);
      eviction_.open(o.policy_rows);
    }
    if (o.index.size() + rows <= o.capacity) return;
    auto const several = static_cast<std::uint64_t>(options_.evict_share * static_cast<double>(o.capacity));
    evict(std::max(o.index.size() + rows - o.capacity, std::min<std::uint64_t>(several, 65536)));
  }

  // Sends `count` rows down, or as many as are not pinned.
  void evict(std::uint64_t count) {
    opened& o = store_.value;
    bool const marked = mark_due(true);
    o.candidates.clear();
    std::uint64_t const looked_at = std::max<std::uint64_t>(count * options_.considered, 4096);
    for (std::uint64_t i = 0; i < o.slots.size() && o.candidates.size() < looked_at; ++i) {
      if (o.hand >= o.slots.size()) o.hand = 0;
      auto const slot = static_cast<std::uint32_t>(o.hand++);
      slot_info const& s = o.slots[slot];
      if ((s.state & up) != 0 && s.pins == 0) o.candidates.push_back({worth(s), slot});
    }
    if (marked) mark_due(false);
    if (count < o.candidates.size()) {
      std::nth_element(o.candidates.begin(), o.candidates.begin() + static_cast<std::ptrdiff_t>(count), o.candidates.end(),
                       [](auto const& a, auto const& b) { return a.worth != b.worth ? a.worth < b.worth : a.slot < b.slot; });
      o.candidates.resize(count);
    }
    o.asked.clear();
    o.asked_for.clear();
    for (auto const& c : o.candidates) {
      if ((o.slots[c.slot].state & changed) == 0) continue;
      o.asked.push_back(o.slots[c.slot].key);
      o.asked_for.push_back(c.slot);
    }
    if (!o.asked.empty()) write_down();
    o.moved.evicted += o.candidates.size();
    o.moved.rows_dropped += o.candidates.size() - o.asked.size();
    for (auto const& c : o.candidates) free_slot(c.slot);
  }
  std::uint64_t worth(slot_info const& s) const {
    if constexpr (eviction::needs_due<Eviction>()) {
      return eviction_.worth(s.mark, store_->now, s.due);
    } else {
      return eviction_.worth(s.mark, store_->now);
    }
  }
  // Writes down (and clears again) when rows that are up are needed next. Returns whether there was anything to do.
  bool mark_due(bool on) {
    if constexpr (eviction::needs_due<Eviction>()) {
      opened& o = store_.value;
      o.due.far_to_near([&](std::uint32_t batches, std::span<key_type const> keys) {
        std::size_t const n = keys.size();
        for (std::size_t i = 0; i < n + ahead; ++i) {
          if (i < n) o.index.prefetch(hash_of(keys[i]));
          if (i < ahead) continue;
          row_handle const slot = find(keys[i - ahead]);
          if (slot != no_row) o.slots[slot].due = on ? static_cast<std::uint8_t>(std::min(batches, 255U)) : std::uint8_t{0};
        }
      });
      return !o.due.empty();
    }
    return false;
  }

  // The rows in asked_for, whose keys are in asked, are in the slow tier as they are now.
  void write_down() const {
    opened& o = store_.value;
    o.rows.resize(o.asked.size() * o.row_floats);
    fast_.gather(o.asked_for, o.rows.data());
    o.below.resize(o.asked.size());
    auto const epoch = static_cast<std::uint32_t>(slow_.epoch());
    for (std::size_t j = 0; j < o.asked.size(); ++j) {
      slot_info const& s = o.slots[o.asked_for[j]];
      o.below[j] = (s.state & below) != 0 && s.epoch == epoch ? s.handle : no_row;
    }
    write_slow();
    o.moved.rows_down += o.asked.size();
    for (row_handle const slot : o.asked_for) {
      std::uint8_t& state = o.slots[slot].state;
      if ((state & below) == 0) --o.only_up;
      state = static_cast<std::uint8_t>((state & ~changed) | below);
    }
  }
  // Rows that are only up go down too, so that the slow tier's order has them all.
  void settle() const {
    opened& o = store_.value;
    for (std::uint64_t slot = 0; o.only_up != 0 && slot < o.slots.size();) {
      o.asked.clear();
      o.asked_for.clear();
      for (; slot < o.slots.size() && o.asked.size() < 65536; ++slot) {
        if ((o.slots[slot].state & (up | below)) != up) continue;
        o.asked.push_back(o.slots[slot].key);
        o.asked_for.push_back(slot);
      }
      if (!o.asked.empty()) write_down();
    }
  }

  tier_options options_{};
  mutable Slow slow_{};
  Eviction eviction_{};
  Fast fast_{};
  mutable detail::unopened_copy<opened> store_{};
};

}  // namespace nestpipe::storage
