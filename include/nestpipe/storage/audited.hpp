#pragma once
/// @file
/// A store that watches how it is used: with it, every row carries the number of the step that updated it last, and reads of
/// stale rows, use of rows that are gone, and lost updates are counted. For tests of schedules; costs one float a row.

#include <nestpipe/storage/storage.hpp>

#include <bit>
#include <unordered_map>
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
  void find(std::span<key_type const> keys, std::span<row_handle> handles) {
    inner_.find(keys, handles);
    remember(keys, handles);
  }
  void find_or_create(std::span<key_type const> keys, std::span<row_handle> handles) {
    present_.resize(keys.size());
    inner_.find(keys, present_);
    inner_.find_or_create(keys, handles);
    remember(keys, handles);
    fresh_.clear();
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (present_[i] == no_row) fresh_.push_back(handles[i]);
    }
    blank_.assign(fresh_.size() * row_floats_, 0.0f);
    inner_.scatter(fresh_, blank_.data());  // so that a first write finds stamp 0
  }
  void gather(std::span<row_handle const> handles, float* rows) {
    check(handles);
    inner_.gather(handles, rows);
  }
  void scatter(std::span<row_handle const> handles, float const* rows) {
    check(handles);
    old_.resize(handles.size() * row_floats_);
    inner_.gather(handles, old_.data());
    for (std::size_t i = 0; i < handles.size(); ++i) {
      std::size_t const stamp = (i + 1) * row_floats_ - 1;
      std::uint32_t const before = step_of(old_[stamp]);
      if (before != 0 && step_of(rows[stamp]) <= before) ++counted_.lost_updates;
    }
    inner_.scatter(handles, rows);
  }
  std::uint64_t epoch() const { return inner_.epoch(); }
  void pin(std::span<key_type const> keys) { inner_.pin(keys); }
  void release(std::span<key_type const> keys) { inner_.release(keys); }
  void erase(std::span<key_type const> keys) {
    for (key_type const k : keys) {
      auto const known = handle_of_.find(k);
      if (known == handle_of_.end()) continue;
      key_of_.erase(known->second);
      handle_of_.erase(known);
    }
    inner_.erase(keys);
  }
  std::uint64_t size() const { return inner_.size(); }
  template <class F>
  void for_each(F&& f) const {
    inner_.for_each(f);
  }
  storage_counters counters() const { return inner_.counters(); }

  audit_counters const& audit_results() const { return counted_; }
  S const& inner() const { return inner_; }

 private:
  void remember(std::span<key_type const> keys, std::span<row_handle const> handles) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (handles[i] == no_row) continue;
      handle_of_[keys[i]] = handles[i];
      key_of_[handles[i]] = keys[i];
    }
  }

  // A handle must lead to the key it was given out for.
  void check(std::span<row_handle const> handles) {
    keys_.clear();
    given_.clear();
    for (row_handle const h : handles) {
      if (h == no_row) continue;
      auto const known = key_of_.find(h);
      if (known == key_of_.end()) {
        ++counted_.use_after_evict;
        continue;
      }
      keys_.push_back(known->second);
      given_.push_back(h);
    }
    now_.resize(keys_.size());
    inner_.find(keys_, now_);
    for (std::size_t i = 0; i < keys_.size(); ++i) counted_.use_after_evict += now_[i] != given_[i] ? 1 : 0;
  }

  S inner_{};
  std::size_t row_floats_ = 0;
  audit_counters counted_;
  std::unordered_map<key_type, row_handle> handle_of_;
  std::unordered_map<row_handle, key_type> key_of_;
  std::vector<row_handle> present_, fresh_, given_, now_;
  std::vector<key_type> keys_;
  std::vector<float> blank_, old_;
};

}  // namespace nestpipe::storage
