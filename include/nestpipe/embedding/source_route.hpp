#pragma once
/// @file
/// The sender's half of routing: a rank de-duplicates the keys of its micro-batches and says which owner holds them.

#include <nestpipe/core/schema.hpp>
#include <nestpipe/embedding/key_index.hpp>
#include <nestpipe/embedding/micro_route.hpp>

#include <algorithm>
#include <limits>

namespace nestpipe::embedding {

/// Numbers that every stage needs.
struct route_shape {
  std::uint32_t world_size = 1;
  std::uint32_t micro_batches = 1;  ///< of one rank
  std::uint32_t tables = 0;
  std::uint32_t shards = 1024;
  bool reuse_rows = false;          ///< a row goes to a rank once per batch, with the first micro-batch that needs it
  bool count_occurrences = false;   ///< keys travel with the number of their occurrences on the sender

  std::size_t lists() const { return std::size_t{micro_batches} * tables; }
  /// Counts that travel to one owner: keys per table, then list lengths per micro-batch and table, then, when rows are used
  /// again, how many of each list are new.
  std::size_t counts() const { return tables + (reuse_rows ? 2 : 1) * lists(); }
};

/// Keys travel once per batch; per micro-batch only lists of places in the sent keys.
class source_route {
 public:
  std::vector<std::uint32_t> counts;         ///< (world size, shape.counts())
  exec::buffer<key_type> keys;               ///< by owner, table, first appearance
  exec::buffer<std::uint32_t> occurrences;   ///< of each of `keys`, when they are counted
  exec::buffer<std::uint32_t> lists;         ///< by owner, micro-batch, table: places among the keys sent to that owner for that table
  std::vector<std::size_t> owner_keys;       ///< (world size)
  std::vector<std::size_t> owner_lists;      ///< (world size) list elements
  std::vector<micro_route> micro;            ///< (micro-batches)
  std::size_t landing_floats = 0;            ///< size of the landing buffer that the batch needs

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
      micro[j].entry_offset.resize(n);
      micro[j].entry_key.resize(n);
    }
    owner_.resize(values);
    place_.resize(values);
    all_keys_.resize(values);
    stamp_.resize(values);
    local_.resize(values);
    first_micro_.resize(values);
    table_first_.assign(tables + 1, 0);

    for (std::uint32_t t = 0; t < tables; ++t) collect(layout, blocks, shape, t);
    place_keys(shape);
    for (std::uint32_t j = 0; j < shape.micro_batches; ++j) count_list(shape, j);
    place_lists(layout, shape);
    for (std::size_t j = 0; j < blocks.size(); ++j) micro[j].group(blocks[j].ids);
  }

  /// Last step: decides where rows land. O(entries).
  /// @param split  whether the rows of micro-batch 0 come in two portions; the same on every rank
  /// @param late   then one flag per new list element of micro-batch 0, by owner and table: 1 when its owner sends it late
  void land(embedding_layout const& layout, route_shape const& shape, bool split, std::span<std::uint8_t const> late) {
    landing_floats = 0;
    place_of_key_.resize(shape.reuse_rows ? table_first_.back() : 0);
    for (std::uint32_t j = 0; j < shape.micro_batches; ++j) {
      micro_route& m = micro[j];
      m.split = split && j == 0;
      m.own_landing = shape.reuse_rows || m.split;
      m.landing_base = shape.reuse_rows ? landing_floats : 0;
      m.row_floats = m.owner_floats;
      if (m.own_landing) land_rows(layout, shape, j, m.split ? late : std::span<std::uint8_t const>{});
      landing_floats = shape.reuse_rows ? landing_floats : std::max(landing_floats, m.floats);
    }
    if (landing_floats > std::numeric_limits<std::uint32_t>::max())
      throw data_error{"rows of one batch on one rank exceed 2^32 floats", {}, "use a smaller batch, or do not reuse rows"};
  }

  std::uint32_t key_count(route_shape const& s, std::size_t owner, std::size_t t) const { return counts[owner * s.counts() + t]; }
  std::uint32_t list_count(route_shape const& s, std::size_t owner, std::size_t j, std::size_t t) const {
    return counts[owner * s.counts() + s.tables + j * s.tables + t];
  }
  /// The first of a list are those that no earlier micro-batch of the batch has had.
  std::uint32_t fresh_count(route_shape const& s, std::size_t owner, std::size_t j, std::size_t t) const {
    return counts[owner * s.counts() + s.tables + (s.reuse_rows ? s.lists() : 0) + j * s.tables + t];
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
        std::size_t const begin = ids.offsets[f * ids.samples];
        std::size_t const n = ids.offsets[(f + 1) * ids.samples] - begin;
        std::uint32_t const before = index_.size();
        std::uint32_t* const of = m.occurrence_entry.data() + begin;   // first the distinct key, then the entry
        index_.insert(std::span<key_type const>{ids.values}.subspan(begin, n), of);
        for (std::uint32_t u = before; u < index_.size(); ++u) {
          std::size_t const g = first + u;
          owner_[g] = owner_of(shard_of(t, index_.keys()[u], shape.shards), shape.world_size);
          place_[g] = counts[owner_[g] * shape.counts() + t]++;
          stamp_[g] = std::numeric_limits<std::uint32_t>::max();
          first_micro_[g] = j;
        }
        for (std::size_t i = 0; i < n; ++i) {
          std::size_t const g = first + of[i];
          if (stamp_[g] != j) {
            stamp_[g] = j;
            local_[g] = entry;
            m.entry_key[entry++] = static_cast<std::uint32_t>(g);
          }
          of[i] = local_[g];
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
    if (shape.count_occurrences) count_occurrences(shape);
  }

  // While base_ leads to the places of keys.
  void count_occurrences(route_shape const& shape) {
    occurrences.assign_zero(keys.size());
    place_in_keys_.resize(keys.size());
    for (std::size_t t = 0; t < shape.tables; ++t) {
      for (std::size_t g = table_first_[t]; g < table_first_[t + 1]; ++g)
        place_in_keys_[g] = static_cast<std::uint32_t>(base_[owner_[g] * shape.tables + t] + place_[g]);
    }
    for (micro_route const& m : micro) {
      for (std::size_t p = 0; p < m.occurrence_entry.size(); ++p) ++occurrences[place_in_keys_[m.entry_key[m.occurrence_entry[p]]]];
    }
  }

  void count_list(route_shape const& shape, std::uint32_t j) {
    micro_route const& m = micro[j];
    for (std::size_t t = 0; t < shape.tables; ++t) {
      for (std::size_t e = m.table_entry[t]; e < m.table_entry[t + 1]; ++e) {
        std::size_t const g = m.entry_key[e];
        std::size_t const at = owner_[g] * shape.counts() + shape.tables + j * shape.tables + t;
        ++counts[at];
        if (shape.reuse_rows && first_micro_[g] == j) ++counts[at + shape.lists()];
      }
    }
  }

  // Writes the lists, new rows first, and each entry's place in the gradient buffer.
  void place_lists(embedding_layout const& layout, route_shape const& shape) {
    std::size_t const pairs = std::size_t{shape.world_size} * shape.tables;
    owner_lists.assign(shape.world_size, 0);
    base_.assign(shape.world_size * shape.lists(), 0);
    std::size_t at = 0;
    for (std::size_t o = 0; o < shape.world_size; ++o) {
      for (std::size_t l = 0; l < shape.lists(); ++l) {
        std::size_t const n = counts[o * shape.counts() + shape.tables + l];
        base_[o * shape.lists() + l] = at;
        at += n;
        owner_lists[o] += n;
      }
    }
    lists.resize(at);
    start_.resize(pairs);
    for (std::uint32_t j = 0; j < shape.micro_batches; ++j) {
      micro_route& m = micro[j];
      m.owner_floats.assign(shape.world_size, 0);
      m.floats = 0;
      for (std::size_t o = 0; o < shape.world_size; ++o) {
        for (std::size_t t = 0; t < shape.tables; ++t) {
          std::size_t const n = list_count(shape, o, j, t) * layout.tables()[t].dim;
          start_[o * shape.tables + t] = m.floats;
          m.owner_floats[o] += n;
          m.floats += n;
        }
      }
      if (m.floats > std::numeric_limits<std::uint32_t>::max())
        throw data_error{"rows of one micro-batch exceed 2^32 floats", {}, "use more micro-batches"};
      fresh_.assign(pairs, 0);
      repeated_.assign(pairs, 0);
      for (std::size_t t = 0; t < shape.tables; ++t) {
        std::size_t const dim = layout.tables()[t].dim;
        for (std::size_t e = m.table_entry[t]; e < m.table_entry[t + 1]; ++e) {
          std::size_t const g = m.entry_key[e];
          std::size_t const o = owner_[g];
          std::size_t const pair = o * shape.tables + t;
          bool const fresh = !shape.reuse_rows || first_micro_[g] == j;
          std::size_t const i = fresh ? fresh_[pair]++ : fresh_count(shape, o, j, t) + repeated_[pair]++;
          lists[base_[o * shape.lists() + j * shape.tables + t] + i] = place_[g];
          m.entry_offset[e] = static_cast<std::uint32_t>(start_[pair] + i * dim);
        }
      }
    }
  }

  // Gives each new row of micro-batch j its place, by owner and table, rows that come late behind all others; an entry whose
  // row came with an earlier micro-batch points there.
  void land_rows(embedding_layout const& layout, route_shape const& shape, std::uint32_t j, std::span<std::uint8_t const> late) {
    micro_route& m = micro[j];
    std::size_t const pairs = std::size_t{shape.world_size} * shape.tables;
    m.row_offset.resize(m.entries());
    m.row_floats.assign(shape.world_size, 0);
    m.early_floats.assign(shape.world_size, 0);
    start_.resize(2 * pairs);                  // next place of an early row, and of a late one
    flag_.resize(pairs);                       // next flag
    std::size_t flag = 0;
    std::size_t to = m.landing_base;
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      std::size_t const n = fresh_count(shape, pair / shape.tables, j, pair % shape.tables);
      std::size_t early = n;
      for (std::size_t i = 0; !late.empty() && i < n; ++i) early -= late[flag + i];
      flag_[pair] = flag;
      flag += n;
      start_[pair] = to;
      to += early * layout.tables()[pair % shape.tables].dim;
      m.early_floats[pair / shape.tables] += early * layout.tables()[pair % shape.tables].dim;
      m.row_floats[pair / shape.tables] += n * layout.tables()[pair % shape.tables].dim;
      start_[pairs + pair] = (n - early) * layout.tables()[pair % shape.tables].dim;
    }
    for (std::size_t pair = 0; pair < pairs; ++pair) {
      std::size_t const floats = start_[pairs + pair];
      start_[pairs + pair] = to;
      to += floats;
    }
    for (std::size_t t = 0; t < shape.tables; ++t) {
      std::size_t const dim = layout.tables()[t].dim;
      for (std::size_t e = m.table_entry[t]; e < m.table_entry[t + 1]; ++e) {
        std::size_t const g = m.entry_key[e];
        if (shape.reuse_rows && first_micro_[g] != j) {
          m.row_offset[e] = place_of_key_[g];
          continue;
        }
        std::size_t const pair = owner_[g] * shape.tables + t;
        std::size_t const portion = !late.empty() && late[flag_[pair]++] != 0 ? pairs : 0;
        m.row_offset[e] = static_cast<std::uint32_t>(start_[portion + pair]);
        if (shape.reuse_rows) place_of_key_[g] = m.row_offset[e];
        start_[portion + pair] += dim;
      }
    }
    if (shape.reuse_rows) landing_floats = to;
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
  exec::buffer<std::uint32_t> first_micro_;     // first micro-batch that uses the key
  exec::buffer<std::uint32_t> place_of_key_;    // where its row lands, when rows are used again
  exec::buffer<std::uint32_t> place_in_keys_;   // per distinct key: its place in `keys`, when occurrences are counted
  std::vector<std::size_t> base_;
  std::vector<std::size_t> start_, fresh_, repeated_, flag_;  // per owner and table
};

}  // namespace nestpipe::embedding
