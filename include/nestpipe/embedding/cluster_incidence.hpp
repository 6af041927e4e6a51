#pragma once
/// @file
/// Which samples of a cluster group share which keys, both ways round.

#include <nestpipe/core/jagged.hpp>
#include <nestpipe/core/schema.hpp>
#include <nestpipe/embedding/key_index.hpp>

#include <algorithm>
#include <limits>
#include <numeric>

namespace nestpipe::embedding {

/// The samples of several micro-batches ("parts") in ascending order of row number, and the (table, key) pairs that more than
/// one of them uses. What is in here does not depend on how the samples were spread over the parts, except for `given`.
class cluster_incidence {
 public:
  /// Where a sample stands in the blocks.
  struct place {
    std::uint64_t row;
    std::uint32_t block, index;
  };

  std::vector<std::uint32_t> part_block;    ///< (parts) block of each part
  std::vector<std::uint32_t> part_size;     ///< (parts) samples that each holds, before and after
  exec::buffer<place> places;               ///< (samples)
  exec::buffer<std::uint32_t> given;        ///< (samples) part that holds it now
  exec::buffer<std::uint32_t> sample_start; ///< (samples + 1) into sample_key
  exec::buffer<std::uint32_t> sample_key;   ///< shared keys of each sample, ascending, each once
  exec::buffer<std::uint32_t> key_start;    ///< (keys + 1) into key_sample
  exec::buffer<std::uint32_t> key_sample;   ///< samples of each shared key, ascending
  exec::buffer<std::uint32_t> weight;       ///< (keys) bytes of a row, over the greatest common divisor of all
  std::uint64_t fixed = 0;                  ///< weight of all other keys, once for every part that must hold them
  std::uint64_t bound = 0;                  ///< no assignment has a lower objective; see lower_bound()
  std::uint64_t distinct = 0;               ///< weight of all distinct keys, each once

  std::size_t parts() const { return part_size.size(); }
  std::size_t samples() const { return places.size(); }
  std::size_t keys() const { return weight.size(); }
  std::span<std::uint32_t const> keys_of(std::size_t s) const { return sample_key.span().subspan(sample_start[s], sample_start[s + 1] - sample_start[s]); }
  std::span<std::uint32_t const> samples_of(std::size_t k) const { return key_sample.span().subspan(key_start[k], key_start[k + 1] - key_start[k]); }

  /// O(ids + features * samples), plus a sort of the samples when rows are shuffled.
  /// @param blocks  all blocks of the rank; those with number j = group modulo groups take part
  void build(embedding_layout const& layout, std::span<sample_block const> blocks, std::uint32_t group, std::uint32_t groups) {
    collect_samples(blocks, group, groups);
    collect_keys(layout, blocks);
    keep_shared(layout);
  }

  /// Sum over parts of the weight of their distinct keys. O(shared ids).
  /// @param part (samples)
  std::uint64_t objective(std::span<std::uint32_t const> part) {
    seen_.assign(parts(), std::numeric_limits<std::uint32_t>::max());
    std::uint64_t sum = fixed;
    for (std::uint32_t k = 0; k < keys(); ++k) {
      std::uint32_t n = 0;
      for (std::uint32_t const s : samples_of(k)) {
        n += seen_[part[s]] != k;
        seen_[part[s]] = k;
      }
      sum += std::uint64_t{n} * weight[k];
    }
    return sum;
  }

 private:
  void collect_samples(std::span<sample_block const> blocks, std::uint32_t group, std::uint32_t groups) {
    part_block.clear();
    part_size.clear();
    std::size_t n = 0;
    values_ = 0;
    for (std::size_t j = group; j < blocks.size(); j += groups) {
      part_block.push_back(static_cast<std::uint32_t>(j));
      part_size.push_back(static_cast<std::uint32_t>(blocks[j].samples));
      n += blocks[j].samples;
      values_ += blocks[j].ids.values.size();
    }
    if (values_ > std::numeric_limits<std::uint32_t>::max())
      throw data_error{"more than 2^32 ids of one batch on one rank", {}, "use a smaller batch"};
    places.resize(n);
    std::size_t i = 0;
    for (std::uint32_t const b : part_block) {
      for (std::uint32_t x = 0; x < blocks[b].samples; ++x) places[i++] = {blocks[b].row[x], b, x};
    }
    auto const before = [](place const& a, place const& b) { return a.row != b.row ? a.row < b.row : a.block != b.block ? a.block < b.block : a.index < b.index; };
    auto const all = places.span();
    if (!std::is_sorted(all.begin(), all.end(), before)) std::sort(all.begin(), all.end(), before);
    given.resize(n);
    for (i = 0; i < n; ++i) given[i] = (places[i].block - group) / groups;
  }

  // Numbers the distinct keys of each table, and lists who uses them: table by table, sample by sample, each pair once.
  void collect_keys(embedding_layout const& layout, std::span<sample_block const> blocks) {
    std::size_t const tables = layout.tables().size();
    used_key_.resize(values_);
    used_by_.resize(values_);
    last_.resize(values_);
    count_.resize(values_);
    table_first_.assign(tables + 1, 0);
    uses_ = 0;
    for (std::size_t t = 0; t < tables; ++t) {
      std::size_t values = 0;
      for (std::uint32_t const b : part_block) {
        jagged const& ids = blocks[b].ids;
        for (std::uint32_t const f : layout.features_of(t)) values += ids.offsets[(f + 1) * ids.samples] - ids.offsets[f * ids.samples];
      }
      index_.reset(values);
      std::uint32_t const first = table_first_[t];
      for (std::uint32_t s = 0; s < samples(); ++s) {
        jagged const& ids = blocks[places[s].block].ids;
        for (std::uint32_t const f : layout.features_of(t)) {
          std::size_t const bag = f * ids.samples + places[s].index;
          for (std::uint32_t p = ids.offsets[bag]; p < ids.offsets[bag + 1]; ++p) {
            std::uint32_t const known = index_.size();
            std::uint32_t const g = first + index_.insert(ids.values[p]);
            if (index_.size() != known) {
              count_[g] = 0;
            } else if (last_[g] == s) {
              continue;
            }
            last_[g] = s;
            ++count_[g];
            used_key_[uses_] = g;
            used_by_[uses_++] = s;
          }
        }
      }
      table_first_[t + 1] = first + index_.size();
    }
  }

  // Leaves out keys of one sample, and those with so many samples that no part can do without them: they cost the same
  // whatever is done.
  void keep_shared(embedding_layout const& layout) {
    constexpr std::uint32_t none = std::numeric_limits<std::uint32_t>::max();
    std::uint32_t filled = 0, smallest = none, largest = 0;
    for (std::uint32_t const n : part_size) {
      if (n == 0) continue;
      ++filled;
      smallest = std::min(smallest, n);
      largest = std::max(largest, n);
    }
    std::uint32_t unit = 0;
    for (auto const& t : layout.tables()) unit = std::gcd(unit, static_cast<std::uint32_t>(t.dim));
    std::size_t const all = table_first_.back();
    weight.resize(all);
    key_start.resize(all + 1);
    std::uint32_t kept = 0, at = 0;
    fixed = bound = distinct = 0;
    for (std::size_t t = 0; t + 1 < table_first_.size(); ++t) {
      std::uint32_t const w = static_cast<std::uint32_t>(layout.tables()[t].dim) / unit;
      for (std::uint32_t g = table_first_[t]; g < table_first_[t + 1]; ++g) {
        std::uint32_t const n = count_[g];
        distinct += w;
        if (n == 1 || samples() - n < smallest) {
          fixed += std::uint64_t{w} * (n == 1 ? 1 : filled);
          last_[g] = none;
          continue;
        }
        bound += std::uint64_t{w} * ((n + largest - 1) / largest);
        weight[kept] = w;
        key_start[kept] = at;
        at += n;
        last_[g] = kept++;
      }
    }
    bound += fixed;
    weight.resize(kept);
    key_start.resize(kept + 1);
    sample_start.assign_zero(samples() + 2);
    for (std::size_t u = 0; u < uses_; ++u) {
      if (last_[used_key_[u]] != none) ++sample_start[used_by_[u] + 2];
    }
    for (std::size_t s = 2; s < samples() + 2; ++s) sample_start[s] += sample_start[s - 1];
    sample_key.resize(at);
    key_sample.resize(at);
    for (std::size_t u = 0; u < uses_; ++u) {
      std::uint32_t const k = last_[used_key_[u]];
      if (k != none) key_sample[key_start[k]++] = used_by_[u];
    }
    for (std::uint32_t k = kept; k > 0; --k) key_start[k] = key_start[k - 1];  // they stand at the ends now
    key_start[0] = 0;
    for (std::uint32_t k = 0; k < kept; ++k) {  // by key, so that the keys of a sample ascend
      for (std::uint32_t const s : samples_of(k)) sample_key[sample_start[s + 1]++] = k;
    }
  }

  key_index index_;
  std::size_t values_ = 0;
  std::size_t uses_ = 0;
  exec::buffer<std::uint32_t> used_key_, used_by_;  // (uses)
  exec::buffer<std::uint32_t> last_;                // per distinct key: the last sample that used it, then its number among the shared
  exec::buffer<std::uint32_t> count_;               // per distinct key: samples
  std::vector<std::uint32_t> table_first_;          // (tables + 1) first distinct key of each table
  std::vector<std::uint32_t> seen_;
};

}  // namespace nestpipe::embedding
