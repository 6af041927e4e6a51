#pragma once
/// @file
/// The owner's half of routing: keys that several ranks asked for get one window slot, and lists become slot lists.

#include <nestpipe/embedding/source_route.hpp>

namespace nestpipe::embedding {

/// What an owner knows about one batch. Slots are numbered from 0 in each table.
class owner_route {
 public:
  std::vector<std::uint32_t> counts;   ///< (world size, shape.counts()) as received, by source
  exec::buffer<key_type> received;     ///< keys, by source and table
  exec::buffer<std::uint32_t> received_occurrences;   ///< of each of them, when they are counted
  exec::buffer<std::uint32_t> occurrences;            ///< by table and slot, over all ranks, when they are counted
  exec::buffer<std::uint8_t> refused;  ///< by table and slot: 1 for keys that get no row (storage::admitting); empty when all get one
  exec::buffer<std::uint32_t> slots;   ///< received lists (by source, micro-batch, table), turned into slots
  std::vector<std::size_t> source_keys;   ///< (world size)
  std::vector<std::size_t> source_lists;  ///< (world size) list elements

  /// First step, once `counts` has arrived: sizes of what comes next.
  void expect(route_shape const& shape) {
    source_keys.assign(shape.world_size, 0);
    source_lists.assign(shape.world_size, 0);
    key_base_.assign(std::size_t{shape.world_size} * shape.tables, 0);
    list_base_.assign(shape.world_size * shape.lists() + 1, 0);
    std::size_t keys = 0;
    std::size_t elements = 0;
    for (std::size_t s = 0; s < shape.world_size; ++s) {
      for (std::size_t t = 0; t < shape.tables; ++t) {
        key_base_[s * shape.tables + t] = keys;
        keys += key_count(shape, s, t);
        source_keys[s] += key_count(shape, s, t);
      }
      for (std::size_t l = 0; l < shape.lists(); ++l) {
        list_base_[s * shape.lists() + l] = elements;
        elements += counts[s * shape.counts() + shape.tables + l];
      }
      source_lists[s] = elements - list_base_[s * shape.lists()];
    }
    list_base_.back() = elements;
    received.resize(keys);
    if (shape.count_occurrences) received_occurrences.resize(keys);
    refused.resize(0);
    slots.resize(elements);
  }

  /// Second step, once keys and lists have arrived. O(keys + list elements).
  /// @param keep_index  so that find() works afterwards
  void build(route_shape const& shape, bool keep_index) {
    table_first_.assign(shape.tables + 1, 0);
    index_.resize(shape.tables);
    slot_of_.resize(received.size());
    keys_.resize(received.size());
    for (std::size_t t = 0; t < shape.tables; ++t) {
      std::size_t total = 0;
      for (std::size_t s = 0; s < shape.world_size; ++s) total += key_count(shape, s, t);
      std::size_t const first = table_first_[t];
      if (shape.world_size == 1) {  // one source has de-duplicated already
        if (total != 0) std::memcpy(keys_.data() + first, received.data() + key_base_[t], total * sizeof(key_type));
        table_first_[t + 1] = first + total;
        std::uint32_t* const slot_of = slot_of_.data() + key_base_[t];
        if (keep_index) {
          index_[t].reset(total);
          index_[t].insert(table_keys(t), slot_of);
        } else {
          for (std::size_t i = 0; i < total; ++i) slot_of[i] = static_cast<std::uint32_t>(i);
        }
        continue;
      }
      index_[t].reset(total);
      for (std::size_t s = 0; s < shape.world_size; ++s) {
        std::size_t const base = key_base_[s * shape.tables + t];
        index_[t].insert(std::span<key_type const>{received.span()}.subspan(base, key_count(shape, s, t)), slot_of_.data() + base);
      }
      std::size_t const distinct = index_[t].size();
      if (distinct != 0) std::memcpy(keys_.data() + first, index_[t].keys().data(), distinct * sizeof(key_type));
      table_first_[t + 1] = first + distinct;
    }
    if (shape.count_occurrences) {
      occurrences.assign_zero(table_first_.back());
      for (std::size_t s = 0; s < shape.world_size; ++s) {
        for (std::size_t t = 0; t < shape.tables; ++t) {
          std::size_t const base = key_base_[s * shape.tables + t];
          for (std::size_t i = base; i < base + key_count(shape, s, t); ++i) occurrences[table_first_[t] + slot_of_[i]] += received_occurrences[i];
        }
      }
    }
    for (std::size_t s = 0; s < shape.world_size; ++s) {
      for (std::size_t l = 0; l < shape.lists(); ++l) {
        std::size_t const base = key_base_[s * shape.tables + l % shape.tables];
        std::size_t const at = s * shape.lists() + l;
        for (std::size_t i = list_base_[at]; i < list_base_[at + 1]; ++i) slots[i] = slot_of_[base + slots[i]];
      }
    }
  }

  std::uint32_t key_count(route_shape const& s, std::size_t source, std::size_t t) const { return counts[source * s.counts() + t]; }

  /// Distinct keys of table t, by slot.
  std::span<key_type const> table_keys(std::size_t t) const {
    return keys_.span().subspan(table_first_[t], table_first_[t + 1] - table_first_[t]);
  }
  /// Occurrences of table t's keys, by slot.
  std::span<std::uint32_t const> table_occurrences(std::size_t t) const {
    return occurrences.span().subspan(table_first_[t], table_first_[t + 1] - table_first_[t]);
  }
  /// Which keys of table t get no row, by slot; empty when all get one.
  std::span<std::uint8_t const> table_refused(std::size_t t) const {
    return refused.size() == 0 ? refused.span() : refused.span().subspan(table_first_[t], table_first_[t + 1] - table_first_[t]);
  }
  std::size_t first_slot(std::size_t t) const { return table_first_[t]; }
  /// Slots of table t that micro-batch j of rank `source` reads, in the order in which its rows travel.
  std::span<std::uint32_t const> slot_list(route_shape const& s, std::size_t source, std::size_t j, std::size_t t) const {
    std::size_t const at = source * s.lists() + j * s.tables + t;
    return slots.span().subspan(list_base_[at], list_base_[at + 1] - list_base_[at]);
  }
  /// Slot of `key` in table t, or the number of slots when the batch does not touch it.
  std::uint32_t find(std::size_t t, key_type key) const { return index_[t].find(key); }
  /// The same of many keys.
  void find(std::size_t t, std::span<key_type const> keys, std::uint32_t* found) const { index_[t].find(keys, found); }
  /// Of them, those whose rows travel with this micro-batch: all, or the ones that no earlier one of the batch has had.
  std::span<std::uint32_t const> row_list(route_shape const& s, std::size_t source, std::size_t j, std::size_t t) const {
    auto const all = slot_list(s, source, j, t);
    return s.reuse_rows ? all.first(counts[source * s.counts() + s.tables + s.lists() + j * s.tables + t]) : all;
  }
  std::size_t distinct_keys() const { return table_first_.empty() ? 0 : table_first_.back(); }

 private:
  std::vector<key_index> index_;           // per table
  std::vector<std::size_t> key_base_;      // (world size, tables)
  std::vector<std::size_t> list_base_;     // (world size, micro-batches, tables) + 1
  std::vector<std::size_t> table_first_;   // (tables + 1)
  exec::buffer<std::uint32_t> slot_of_;    // per received key
  exec::buffer<key_type> keys_;            // distinct, table by table
};

}  // namespace nestpipe::embedding
