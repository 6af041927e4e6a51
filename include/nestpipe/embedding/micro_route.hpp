#pragma once
/// @file
/// What one micro-batch knows about its keys: where each occurrence's row lands, and which occurrences share a key.

#include <nestpipe/core/jagged.hpp>
#include <nestpipe/exec/buffer.hpp>

namespace nestpipe::embedding {

/// One use of a key by a sample.
struct occurrence {
  std::uint32_t position;  ///< in the feature-major value array
  std::uint32_t sample;
  std::uint32_t feature;
};

/// An *entry* is a distinct (table, key) of the micro-batch; entries are numbered table by table. Gradients leave in a buffer
/// ordered by owner, then table, then list: `entry_offset` is the place in floats. Rows land in the same order, unless they
/// come in two portions (early, late), or rows of earlier micro-batches are used again: then `row_offset` says where.
struct micro_route {
  std::vector<std::uint32_t> table_entry;       ///< (tables + 1) first entry of each table
  exec::buffer<std::uint32_t> entry_offset;     ///< (entries)
  exec::buffer<std::uint32_t> entry_key;        ///< (entries) number of the distinct key within the rank's batch
  exec::buffer<std::uint32_t> row_offset;       ///< (entries) where rows land, when not at entry_offset
  exec::buffer<std::uint32_t> occurrence_entry; ///< (values) entry of each value
  exec::buffer<std::uint32_t> entry_start;      ///< (entries + 1) into `uses`
  exec::buffer<occurrence> uses;                ///< grouped by entry, ascending position inside: the canonical order of sums
  std::vector<std::size_t> owner_floats;        ///< (world size) floats of gradients for each owner
  std::vector<std::size_t> row_floats;          ///< (world size) floats of rows that each owner sends
  std::vector<std::size_t> early_floats;        ///< (world size) of them, those sent early, when split
  std::size_t floats = 0;                       ///< sum of owner_floats
  std::size_t landing_base = 0;                 ///< first float of this micro-batch's rows in the landing buffer
  bool own_landing = false;                     ///< row_offset is in use
  bool split = false;                           ///< rows come in two portions

  /// Place of each entry's row in the landing buffer.
  std::uint32_t const* landing() const { return own_landing ? row_offset.data() : entry_offset.data(); }
  std::size_t entries() const { return table_entry.empty() ? 0 : table_entry.back(); }

  /// Groups the occurrences by entry. O(values + entries).
  void group(jagged const& ids) {
    entry_start.assign_zero(entries() + 1);
    uses.resize(ids.values.size());
    for (std::size_t p = 0; p < ids.values.size(); ++p) ++entry_start[occurrence_entry[p] + 1];
    for (std::size_t e = 0; e < entries(); ++e) entry_start[e + 1] += entry_start[e];
    cursor_.resize(entries());
    for (std::size_t e = 0; e < entries(); ++e) cursor_[e] = entry_start[e];
    for (std::size_t f = 0; f < ids.features; ++f) {
      for (std::size_t i = 0; i < ids.samples; ++i) {
        std::size_t const bag = f * ids.samples + i;
        for (std::uint32_t p = ids.offsets[bag]; p < ids.offsets[bag + 1]; ++p)
          uses[cursor_[occurrence_entry[p]]++] = {p, static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(f)};
      }
    }
  }

 private:
  exec::buffer<std::uint32_t> cursor_;
};

}  // namespace nestpipe::embedding
