#pragma once
/// @file
/// A store that watches how it is used: with it, every row carries the number of the step that updated it last, and reads of
/// stale rows, use of rows that are gone, and lost updates are counted. For tests of schedules; costs one float a row.

#include <nestpipe/storage/storage.hpp>

#include <bit>
#include <vector>

namespace nestpipe::storage {

/// What an audited run must not do; all zero for an exact schedule.
struct audit_counters {
  std::uint64_t stale_reads = 0;      ///< rows sent to a rank without the last update before its batch (counted by the engine)
  std::uint64_t use_after_evict = 0;  ///< handles used after their row was gone
  std::uint64_t lost_updates = 0;     ///< a row written over by one that is not newer
};

/// Stamp of a row: the step that updated it last, 0 for none, in the row's last float.
inline float stamp_of(std::uint64_t step) { return std::bit_cast<float>(static_cast<std::uint32_t>(step)); }
inline std::uint32_t step_of(float stamp) { return std::bit_cast<std::uint32_t>(stamp); }

/// Decorator: any storage policy, audited.
template <class S>
class audited {
  static_assert(audit<S>());

 public:
  /// The engine gives rows one more float, for the stamp.
  static constexpr bool stamps_rows = true;

  audited() = default;
  explicit audited(S inner) : inner_{std::move(inner)} {}

  void open(storage_spec const& spec) {
    row_floats_ = spec.row_floats;
    inner_.open(spec);
  }
  void read(std::span<key_type const> keys, std::span<row_handle> handles, float* rows) { inner_.read(keys, handles, rows); }
  void write(std::span<key_type const> keys, std::span<row_handle const> handles, float const* rows) {
    now_.resize(keys.size());
    old_.resize(keys.size() * row_floats_);
    inner_.read(keys, now_, old_.data());
    for (std::size_t i = 0; i < keys.size(); ++i) {
      // A handle must lead to the key it was given out for.
      counted_.use_after_evict += handles[i] != no_row && handles[i] != now_[i] ? 1 : 0;
      if (now_[i] == no_row) continue;
      std::size_t const stamp = (i + 1) * row_floats_ - 1;
      std::uint32_t const before = step_of(old_[stamp]);
      if (before != 0 && step_of(rows[stamp]) <= before) ++counted_.lost_updates;
    }
    inner_.write(keys, handles, rows);
  }
  std::uint64_t epoch() const { return inner_.epoch(); }
  void pin(std::span<key_type const> keys) { inner_.pin(keys); }
  void release(std::span<key_type const> keys) { inner_.release(keys); }
  void erase(std::span<key_type const> keys) { inner_.erase(keys); }
  std::uint64_t size() const { return inner_.size(); }
  template <class F>
  void scan(scan_cursor& at, F&& f) const {
    inner_.scan(at, f);
  }
  bool passed(scan_cursor const& at, key_type key) const { return inner_.passed(at, key); }
  storage_counters counters() const { return inner_.counters(); }
  void expect(std::uint64_t batch, std::span<key_type const> keys)
    requires looks_ahead<S>
  {
    inner_.expect(batch, keys);
  }
  void reached(std::uint64_t batch)
    requires looks_ahead<S>
  {
    inner_.reached(batch);
  }

  audit_counters const& audit_results() const { return counted_; }
  S const& inner() const { return inner_; }

 private:
  S inner_{};
  std::size_t row_floats_ = 0;
  audit_counters counted_;
  std::vector<row_handle> now_;
  std::vector<float> old_;
};

}  // namespace nestpipe::storage
