#pragma once
/// @file
/// Rows that two consecutive batches share: the second window's copies must be refreshed after the first's update.

#include <nestpipe/embedding/owner_route.hpp>

namespace nestpipe::embedding {

/// K(t) ∩ K(t+1) of one owner, by table, as window slots.
class overlap {
 public:
  /// @param before  the earlier batch, built with its index kept
  /// @complexity O(keys of `after`)
  void build(owner_route const& before, owner_route const& after, std::size_t tables) {
    table_first_.assign(tables + 1, 0);
    from_.resize(after.distinct_keys());
    to_.resize(after.distinct_keys());
    slot_first_.assign(tables + 1, 0);
    late_.assign_zero(after.distinct_keys());
    std::size_t n = 0;
    for (std::size_t t = 0; t < tables; ++t) {
      auto const keys = after.table_keys(t);
      std::size_t const absent = before.table_keys(t).size();
      found_.resize(keys.size());
      before.find(t, keys, found_.data());
      auto const refused = before.table_refused(t);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        std::uint32_t const slot = found_[i];
        // A refused key has no row there that could be copied: if it is admitted now, its first value must stay.
        if (slot == absent || (!refused.empty() && refused[slot] != 0)) continue;
        from_[n] = slot;
        to_[n++] = static_cast<std::uint32_t>(i);
        late_[slot_first_[t] + i] = 1;
      }
      table_first_[t + 1] = n;
      slot_first_[t + 1] = slot_first_[t] + keys.size();
    }
  }

  /// No batch before: nothing is shared.
  void clear(owner_route const& after, std::size_t tables) {
    table_first_.assign(tables + 1, 0);
    slot_first_.assign(tables + 1, 0);
    for (std::size_t t = 0; t < tables; ++t) slot_first_[t + 1] = slot_first_[t] + after.table_keys(t).size();
    late_.assign_zero(after.distinct_keys());
  }

  /// Slots of table t in the earlier window, and the slots of the same keys in the later one.
  std::span<std::uint32_t const> from(std::size_t t) const { return part(from_, t); }
  std::span<std::uint32_t const> to(std::size_t t) const { return part(to_, t); }
  /// Per slot of table t in the later window: 1 when the earlier batch touches the row too.
  std::span<std::uint8_t const> late(std::size_t t) const {
    return late_.span().subspan(slot_first_[t], slot_first_[t + 1] - slot_first_[t]);
  }
  std::size_t size() const { return table_first_.empty() ? 0 : table_first_.back(); }

 private:
  std::span<std::uint32_t const> part(exec::buffer<std::uint32_t> const& slots, std::size_t t) const {
    return slots.span().subspan(table_first_[t], table_first_[t + 1] - table_first_[t]);
  }

  std::vector<std::size_t> table_first_;  // (tables + 1) into from_ and to_
  std::vector<std::size_t> slot_first_;   // (tables + 1) into late_
  exec::buffer<std::uint32_t> from_, to_;
  exec::buffer<std::uint32_t> found_;
  exec::buffer<std::uint8_t> late_;
};

}  // namespace nestpipe::embedding
