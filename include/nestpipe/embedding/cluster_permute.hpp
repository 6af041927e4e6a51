#pragma once
/// @file
/// Rebuilds the micro-batches of a cluster group from a new assignment of their samples.

#include <nestpipe/embedding/cluster_incidence.hpp>

#include <cstring>

namespace nestpipe::embedding {

class cluster_permute {
 public:
  /// Samples of a block end up in ascending order of row number; counts of malformed lines stay with their block.
  /// O(ids + samples * (features + dense width)).
  /// @param part (samples of g) new part of each; as many for each part as it had
  void run(cluster_incidence const& g, std::span<std::uint32_t const> part, std::span<sample_block> blocks) {
    std::size_t const parts = g.parts();
    first_.assign(parts + 1, 0);
    for (std::size_t p = 0; p < parts; ++p) first_[p + 1] = first_[p] + g.part_size[p];
    order_.resize(g.samples());
    next_.assign(first_.begin(), first_.end());
    for (std::uint32_t s = 0; s < g.samples(); ++s) order_[next_[part[s]]++] = s;
    bool weighted = false;
    for (std::uint32_t const b : g.part_block) weighted = weighted || !blocks[b].ids.weights.empty();
    if (built_.size() < parts) built_.resize(parts);
    for (std::size_t p = 0; p < parts; ++p)
      build(g, order_.span().subspan(first_[p], first_[p + 1] - first_[p]), blocks, blocks[g.part_block[p]], weighted, built_[p]);
    for (std::size_t p = 0; p < parts; ++p) std::swap(blocks[g.part_block[p]], built_[p]);
  }

 private:
  // With room to spare, so that blocks that circulate stop growing soon.
  template <class T>
  static T* sized(std::vector<T>& v, std::size_t n) {
    if (v.capacity() < n) v.reserve(n + n / 2);
    v.resize(n);
    return v.data();
  }

  template <class T>
  static T* copied(T const* from, std::size_t n, T* to) {
    for (std::size_t i = 0; i < n; ++i) to[i] = from[i];
    return to + n;
  }

  static void build(cluster_incidence const& g, std::span<std::uint32_t const> samples, std::span<sample_block const> blocks, sample_block const& old,
                    bool weighted, sample_block& out) {
    std::size_t const n = samples.size();
    std::size_t const features = old.ids.features;
    out.samples = n;
    out.dense_width = old.dense_width;
    out.label_width = old.label_width;
    out.malformed = old.malformed;
    std::uint64_t* row = sized(out.row, n);
    float* label = sized(out.labels, n * old.label_width);
    float* dense = sized(out.dense, n * old.dense_width);
    for (std::uint32_t const s : samples) {
      auto const& at = g.places[s];
      sample_block const& from = blocks[at.block];
      *row++ = at.row;
      label = copied(from.labels.data() + at.index * old.label_width, old.label_width, label);
      dense = copied(from.dense.data() + at.index * old.dense_width, old.dense_width, dense);
    }
    out.ids.features = features;
    out.ids.samples = n;
    std::uint32_t* const offsets = sized(out.ids.offsets, features * n + 1);
    std::size_t bag = 0;
    std::uint32_t values = 0;
    for (std::size_t f = 0; f < features; ++f) {
      for (std::uint32_t const s : samples) {
        auto const& at = g.places[s];
        jagged const& ids = blocks[at.block].ids;
        std::uint32_t const* const o = ids.offsets.data() + f * ids.samples + at.index;
        offsets[bag++] = values;
        values += o[1] - o[0];
      }
    }
    offsets[bag] = values;
    key_type* key = sized(out.ids.values, values);
    float* weight = sized(out.ids.weights, weighted ? values : 0);
    for (std::size_t f = 0; f < features; ++f) {
      for (std::uint32_t const s : samples) {
        auto const& at = g.places[s];
        jagged const& ids = blocks[at.block].ids;
        std::uint32_t const* const o = ids.offsets.data() + f * ids.samples + at.index;
        key = copied(ids.values.data() + o[0], o[1] - o[0], key);
        if (weighted) weight = copied(ids.weights.data() + o[0], o[1] - o[0], weight);
      }
    }
  }

  std::vector<sample_block> built_;
  exec::buffer<std::uint32_t> order_;
  std::vector<std::uint32_t> first_, next_;
};

}  // namespace nestpipe::embedding
