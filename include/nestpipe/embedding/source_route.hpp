#pragma once
/// @file
/// The sender's half of routing: a rank de-duplicates the keys of its micro-batches and says which owner holds them.

#include <nestpipe/core/schema.hpp>
#include <nestpipe/embedding/key_index.hpp>
#include <nestpipe/embedding/micro_route.hpp>

#include <limits>

namespace nestpipe::embedding {

/// Numbers that every stage needs.
struct route_shape {
  std::uint32_t world_size = 1;
  std::uint32_t micro_batches = 1;  ///< of one rank
  std::uint32_t tables = 0;
  std::uint32_t shards = 1024;

  std::size_t lists() const { return std::size_t{micro_batches} * tables; }
  /// Counts that travel to one owner: keys per table, then list lengths per micro-batch and table.
  std::size_t counts() const { return tables + lists(); }
};

/// Keys travel once per batch; per micro-batch only lists of places in the sent keys.
class source_route {
 public:
  std::vector<std::uint32_t> counts;         ///< (world size, shape.counts())
  exec::buffer<key_type> keys;               ///< by owner, table, first appearance
  exec::buffer<std::uint32_t> lists;         ///< by owner, micro-batch, table: places among the keys sent to that owner for that table
  std::vector<std::size_t> owner_keys;       ///< (world size)
  std::vector<std::size_t> owner_lists;      ///< (world size) list elements
  std::vector<micro_route> micro;            ///< (micro-batches)

  /// O(values + distinct keys + world size * micro-batches * tables).
  /// @param blocks (micro-batches) the samples of this rank
  void build(embedding_layout const& layout, std::span<sample_block const> blocks, route_shape const& shape) {
    std::uint32_t const tables = shape.tables;
    counts.assign(shape.world_size * shape.counts(), 0);
    micro.resize(shape.micro_batches);
    std::size_t values = 0;
    for (std::size_t j = 0; j < blocks.size(); ++j) {
      std::size_t const n = blocks[j].ids.values.size();
      values += n;
      if (values > std::numeric_limits<std::uint32_t>::max())
        throw data_error{"more than 2^32 ids of one batch on one rank", {}, "use a smaller batch"};
      micro[j].table_entry.assign(tables + 1, 0);
      micro[j].occurrence_entry.resize(n);
      micro[j].entry_offset.resize(n);  // first the distinct key of each entry, then its place
    }
    owner_.resize(values);
    place_.resize(values);
    all_keys_.resize(values);
    stamp_.resize(values);
    local_.resize(values);
    table_first_.assign(tables + 1, 0);

    for (std::uint32_t t = 0; t < tables; ++t) collect(layout, blocks, shape, t);
    place_keys(shape);
    for (std::uint32_t j = 0; j < shape.micro_batches; ++j) count_list(shape, j);
    place_lists(layout, shape);
    for (std::size_t j = 0; j < blocks.size(); ++j) micro[j].group(blocks[j].ids);
  }

  /// Lets the rows of micro-batch 0 land in two portions.
  /// @param late  one flag per list element of micro-batch 0, by owner and table: 1 when the owner can send that row only late
  void split_first(embedding_layout const& layout, route_shape const& shape, std::span<std::uint8_t const> late) {
    micro_route& m = micro.front();
    m.split = true;
    m.split_offset.resize(m.entries());
    m.early_floats.assign(shape.world_size, 0);
    std::size_t at = 0;
    std::size_t to = 0;
    for (std::uint8_t const portion : {std::uint8_t{0}, std::uint8_t{1}}) {
      at = 0;
      for (std::size_t o = 0; o < shape.world_size; ++o) {
        for (std::size_t t = 0; t < shape.tables; ++t) {
          std::size_t const dim = layout.tables()[t].dim;
          for (std::size_t i = 0; i < list_count(shape, o, 0, t); ++i, ++at) {
            if (late[at] != portion) continue;
            m.split_offset[first_entries_[at]] = static_cast<std::uint32_t>(to);
            to += dim;
            if (portion == 0) m.early_floats[o] += dim;
          }
        }
      }
    }
  }

  std::uint32_t key_count(route_shape const& s, std::size_t owner, std::size_t t) const { return counts[owner * s.counts() + t]; }
  std::uint32_t list_count(route_shape const& s, std::size_t owner, std::size_t j, std::size_t t) const {
    return counts[owner * s.counts() + s.tables + j * s.tables + t];
  }

 private:
  // Numbers the distinct keys of table t over all micro-batches, and the entries of each micro-batch.
  void collect(embedding_layout const& layout, std::span<sample_block const> blocks, route_shape const& shape, std::uint32_t t) {
    std::size_t values = 0;
    for (auto const& block : blocks) {
      for (std::uint32_t const f : layout.features_of(t)) values += feature_values(block.ids, f);
    }
    index_.reset(values);
    std::size_t const first = table_first_[t];
    for (std::uint32_t j = 0; j < blocks.size(); ++j) {
      jagged const& ids = blocks[j].ids;
      micro_route& m = micro[j];
      std::uint32_t entry = m.table_entry[t];
      for (std::uint32_t const f : layout.features_of(t)) {
        std::size_t const end = ids.offsets[(f + 1) * ids.samples];
        for (std::size_t p = ids.offsets[f * ids.samples]; p < end; ++p) {
          std::uint32_t const before = index_.size();
          std::uint32_t const u = index_.insert(ids.values[p]);
          std::size_t const g = first + u;
          if (index_.size() != before) {
            owner_[g] = owner_of(shard_of(t, ids.values[p], shape.shards), shape.world_size);
            place_[g] = counts[owner_[g] * shape.counts() + t]++;
            stamp_[g] = std::numeric_limits<std::uint32_t>::max();
          }
          if (stamp_[g] != j) {
            stamp_[g] = j;
            local_[g] = entry;
            m.entry_offset[entry++] = static_cast<std::uint32_t>(g);
          }
          m.occurrence_entry[p] = local_[g];
        }
      }
      m.table_entry[t + 1] = entry;
    }
    std::size_t const distinct = index_.size();
    if (distinct != 0) std::memcpy(all_keys_.data() + first, index_.keys().data(), distinct * sizeof(key_type));
    table_first_[t + 1] = first + distinct;
  }

  void place_keys(route_shape const& shape) {
    keys.resize(table_first_.back());
    owner_keys.assign(shape.world_size, 0);
    base_.assign(std::size_t{shape.world_size} * shape.tables, 0);
    std::size_t at = 0;
    for (std::size_t o = 0; o < shape.world_size; ++o) {
      for (std::size_t t = 0; t < shape.tables; ++t) {
        base_[o * shape.tables + t] = at;
        at += key_count(shape, o, t);
        owner_keys[o] += key_count(shape, o, t);
      }
    }
    for (std::size_t t = 0; t < shape.tables; ++t) {
      for (std::size_t g = table_first_[t]; g < table_first_[t + 1]; ++g)
        keys[base_[owner_[g] * shape.tables + t] + place_[g]] = all_keys_[g];
    }
  }

  void count_list(route_shape const& shape, std::uint32_t j) {
    micro_route const& m = micro[j];
    for (std::size_t t = 0; t < shape.tables; ++t) {
      for (std::size_t e = m.table_entry[t]; e < m.table_entry[t + 1]; ++e)
        ++counts[owner_[m.entry_offset[e]] * shape.counts() + shape.tables + j * shape.tables + t];
    }
  }

  // Writes the lists, and turns each entry's distinct key into its place in the landing buffer.
  void place_lists(embedding_layout const& layout, route_shape const& shape) {
    owner_lists.assign(shape.world_size, 0);
    base_.assign(shape.world_size * shape.lists(), 0);
    std::size_t at = 0;
    for (std::size_t o = 0; o < shape.world_size; ++o) {
      for (std::size_t j = 0; j < shape.micro_batches; ++j) {
        for (std::size_t t = 0; t < shape.tables; ++t) {
          std::size_t const n = list_count(shape, o, j, t);
          base_[o * shape.lists() + j * shape.tables + t] = at;
          at += n;
          owner_lists[o] += n;
        }
      }
    }
    lists.resize(at);
    landing_.resize(std::size_t{shape.world_size} * shape.tables);
    first_list_.assign(std::size_t{shape.world_size} * shape.tables, 0);
    std::size_t first = 0;
    for (std::size_t i = 0; i < first_list_.size(); ++i) {
      first_list_[i] = first;
      first += list_count(shape, i / shape.tables, 0, i % shape.tables);
    }
    first_entries_.resize(first);
    for (std::size_t j = 0; j < shape.micro_batches; ++j) {
      micro_route& m = micro[j];
      m.split = false;
      m.owner_floats.assign(shape.world_size, 0);
      m.floats = 0;
      for (std::size_t o = 0; o < shape.world_size; ++o) {
        for (std::size_t t = 0; t < shape.tables; ++t) {
          std::size_t const n = list_count(shape, o, j, t) * layout.tables()[t].dim;
          landing_[o * shape.tables + t] = m.floats;
          m.owner_floats[o] += n;
          m.floats += n;
        }
      }
      if (m.floats > std::numeric_limits<std::uint32_t>::max())
        throw data_error{"rows of one micro-batch exceed 2^32 floats", {}, "use more micro-batches"};
      for (std::size_t t = 0; t < shape.tables; ++t) {
        std::size_t const dim = layout.tables()[t].dim;
        for (std::size_t e = m.table_entry[t]; e < m.table_entry[t + 1]; ++e) {
          std::size_t const g = m.entry_offset[e];
          std::size_t const o = owner_[g];
          lists[base_[o * shape.lists() + j * shape.tables + t]++] = place_[g];
          if (j == 0) first_entries_[first_list_[o * shape.tables + t]++] = static_cast<std::uint32_t>(e);
          m.entry_offset[e] = static_cast<std::uint32_t>(landing_[o * shape.tables + t]);
          landing_[o * shape.tables + t] += dim;
        }
      }
    }
  }

  static std::size_t feature_values(jagged const& ids, std::size_t f) {
    return ids.offsets[(f + 1) * ids.samples] - ids.offsets[f * ids.samples];
  }

  key_index index_;
  std::vector<std::size_t> table_first_;   // (tables + 1) first distinct key of each table
  exec::buffer<key_type> all_keys_;        // distinct keys, table by table
  exec::buffer<std::uint32_t> owner_;      // per distinct key
  exec::buffer<std::uint32_t> place_;      // per distinct key: place among those of its owner and table
  exec::buffer<std::uint32_t> stamp_;      // last micro-batch that used the key
  exec::buffer<std::uint32_t> local_;      // its entry there
  std::vector<std::size_t> base_;
  std::vector<std::size_t> landing_;
  std::vector<std::size_t> first_list_;         // (world size, tables) into first_entries_
  exec::buffer<std::uint32_t> first_entries_;   // entry of each list element of micro-batch 0, by owner and table
};

}  // namespace nestpipe::embedding
