#pragma once
/// @file
/// What stamp every row must carry when it is sent: the last step before the batch that touched it.

#include <nestpipe/embedding/window.hpp>
#include <nestpipe/engine/batch.hpp>
#include <nestpipe/storage/audited.hpp>

#include <atomic>
#include <unordered_map>

namespace nestpipe::engine {

/// Kept by an engine whose storage stamps rows (storage::audited).
class version_ledger {
 public:
  void open(std::size_t tables, std::size_t slots) {
    last_.assign(tables, {});
    expected_.resize(slots);
  }

  /// On the route lane, batch after batch: writes down what each row of the batch must carry.
  void routed(batch_slot const& slot, std::size_t at) {
    auto& expected = expected_[at];
    expected.resize(last_.size());
    for (std::size_t t = 0; t < last_.size(); ++t) {
      auto const keys = slot.owner.table_keys(t);
      auto const refused = slot.owner.table_refused(t);
      expected[t].resize(keys.size());
      for (std::size_t i = 0; i < keys.size(); ++i) {
        std::uint64_t& last = last_[t][keys[i]];
        expected[t][i] = static_cast<std::uint32_t>(last);
        if (refused.empty() || refused[i] == 0) last = slot.info.step;
      }
    }
  }

  /// Before rows are sent: counts those that do not carry what they must. `slots` of table t, in window `w`.
  void sent(std::size_t at, std::size_t t, std::span<std::uint32_t const> slots, embedding::window const& w) {
    std::uint64_t stale = 0;
    for (std::uint32_t const s : slots) {
      float const stamp = w.rows(t)[(std::size_t{s} + 1) * w.row_floats(t) - 1];
      stale += storage::step_of(stamp) != expected_[at][t][s] ? 1 : 0;
    }
    stale_reads_ += stale;
  }

  std::uint64_t stale_reads() const { return stale_reads_; }

 private:
  std::vector<std::unordered_map<key_type, std::uint64_t>> last_;   // per table: last step that touched the key
  std::vector<std::vector<std::vector<std::uint32_t>>> expected_;   // per batch slot, table, window slot
  std::atomic<std::uint64_t> stale_reads_{0};
};

}  // namespace nestpipe::engine
