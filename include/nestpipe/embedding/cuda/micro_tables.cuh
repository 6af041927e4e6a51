#pragma once
/// @file
/// The device's copy of what one micro-batch knows about its keys, and the plan of its sums.

#include <nestpipe/core/schema.hpp>
#include <nestpipe/embedding/micro_route.hpp>
#include <nestpipe/exec/cuda/buffer.cuh>

#include <vector>

namespace nestpipe::embedding {

/// One feature in the pooling kernels. A unit of work is one packet of one bag (of one value, with pooling none).
struct pool_part {
  std::uint64_t first_unit;
  enum pooling kind;
  std::uint32_t dim;
  std::uint32_t groups;       ///< packets of a bag
  std::uint32_t column;       ///< in the pooled matrix
  std::uint32_t first_value;
  std::uint32_t first_bag;
  std::uint64_t rows;         ///< pooling none: first float in the array of sequence rows
};

/// One table in the gradient kernels. A unit is one packet of one entry.
struct entry_part {
  std::uint64_t first_unit;
  std::uint32_t groups;
  std::uint32_t first_entry;
};

/// One block of a sum of more than sum_block terms, but the first.
struct block_part {
  std::uint64_t first_unit;   ///< packets are units here too
  std::uint64_t partial;      ///< place of its sum in the scratch array, in floats
  std::uint32_t sum;          ///< bag, or entry
  std::uint32_t part;         ///< feature, or table
  std::uint32_t from, to;     ///< terms: values, or places in `uses`
};

/// Such a sum: what adds up its blocks.
struct long_part {
  std::uint64_t first_unit;
  std::uint64_t partial;
  std::uint32_t sum;
  std::uint32_t part;
  std::uint32_t groups;
  std::uint32_t blocks;
};

/// What kernels read; passed by value.
struct micro_view {
  std::uint32_t const* offsets;            ///< (bags + 1)
  float const* weights;                    ///< (values) or null
  std::uint32_t const* place;              ///< (entries) landing places in floats
  std::uint32_t const* occurrence_entry;   ///< (values)
  std::uint32_t const* entry_start;        ///< (entries + 1) into uses
  std::uint32_t const* entry_offset;       ///< (entries) gradient places in floats
  occurrence const* uses;
  pool_part const* features;
  entry_part const* tables;
  std::uint32_t feature_count;
  std::uint32_t table_count;
  std::uint32_t samples;
  std::uint32_t pooled_width;
};

/// Blocks and sums of one direction.
class long_sums {
 public:
  void clear() {
    blocks_.clear();
    sums_.clear();
    block_units_ = sum_units_ = scratch_ = 0;
  }
  /// Sum number `sum` of `part` has terms [from, to), more than sum_block; `width` floats a packet.
  void add(std::uint32_t sum, std::uint32_t part, std::uint32_t groups, std::uint32_t width, std::size_t from, std::size_t to) {
    std::uint32_t const count = static_cast<std::uint32_t>((to - from - 1) / sum_block);
    sums_.push_back({sum_units_, scratch_, sum, part, groups, count});
    sum_units_ += groups;
    for (std::size_t at = from + sum_block; at < to; at += sum_block) {
      std::size_t const end = to - at < sum_block ? to : at + sum_block;
      blocks_.push_back({block_units_, scratch_, sum, part, static_cast<std::uint32_t>(at), static_cast<std::uint32_t>(end)});
      block_units_ += groups;
      scratch_ += std::size_t{groups} * width;
    }
  }
  void send(cudaStream_t stream) {
    device_blocks_.put(blocks_, stream);
    device_sums_.put(sums_, stream);
  }
  block_part const* blocks() const { return device_blocks_.device(); }
  long_part const* sums() const { return device_sums_.device(); }
  std::uint32_t block_count() const { return static_cast<std::uint32_t>(blocks_.size()); }
  std::uint32_t sum_count() const { return static_cast<std::uint32_t>(sums_.size()); }
  std::size_t block_units() const { return block_units_; }
  std::size_t sum_units() const { return sum_units_; }
  std::size_t scratch_floats() const { return scratch_; }

 private:
  std::vector<block_part> blocks_;
  std::vector<long_part> sums_;
  std::size_t block_units_ = 0, sum_units_ = 0, scratch_ = 0;
  exec::upload<block_part> device_blocks_;
  exec::upload<long_part> device_sums_;
};

/// Owner of it all; one per micro-batch in flight.
class micro_tables {
 public:
  /// Plans the sums and queues the copies. O(values + entries) on the host.
  void build(embedding_layout const& layout, jagged const& ids, micro_route const& route, cudaStream_t stream) {
    sixteen_bytes_ = true;
    for (auto const& t : layout.tables()) sixteen_bytes_ = sixteen_bytes_ && t.dim % 4 == 0;
    std::uint32_t const width = sixteen_bytes_ ? 4 : 1;
    plan_forward(layout, ids, width);
    plan_backward(layout, route, width);
    offsets_.put(ids.offsets, stream);
    weights_.put(ids.weights, stream);
    place_.put({route.landing(), route.entries()}, stream);
    occurrence_entry_.put(route.occurrence_entry.span().first(ids.values.size()), stream);
    entry_start_.put(route.entry_start.span().first(route.entries() + 1), stream);
    entry_offset_.put(route.entry_offset.span().first(route.entries()), stream);
    uses_.put(route.uses.span().first(ids.values.size()), stream);
    device_features_.put(features_, stream);
    device_tables_.put(tables_, stream);
    bags_.send(stream);
    keys_.send(stream);
    view_ = {offsets_.device(), ids.weights.empty() ? nullptr : weights_.device(), place_.device(), occurrence_entry_.device(), entry_start_.device(),
             entry_offset_.device(), uses_.device(), device_features_.device(), device_tables_.device(), static_cast<std::uint32_t>(features_.size()),
             static_cast<std::uint32_t>(tables_.size()), static_cast<std::uint32_t>(ids.samples), static_cast<std::uint32_t>(layout.pooled_width())};
  }

  micro_view const& view() const { return view_; }
  /// Whether all rows lie so that packets of four floats can be used.
  bool sixteen_bytes() const { return sixteen_bytes_; }
  std::size_t forward_units() const { return forward_units_; }
  std::size_t backward_units() const { return backward_units_; }
  /// Floats of the rows of all features with pooling none.
  std::size_t sequence_floats() const { return sequence_floats_; }
  /// Where those of feature f start.
  std::size_t first_row(std::size_t f) const { return features_[f].rows; }
  long_sums const& bags() const { return bags_; }
  long_sums const& keys() const { return keys_; }
  std::size_t scratch_floats() const { return bags_.scratch_floats() > keys_.scratch_floats() ? bags_.scratch_floats() : keys_.scratch_floats(); }

 private:
  void plan_forward(embedding_layout const& layout, jagged const& ids, std::uint32_t width) {
    features_.clear();
    bags_.clear();
    forward_units_ = sequence_floats_ = 0;
    for (std::uint32_t f = 0; f < layout.features().size(); ++f) {
      auto const dim = static_cast<std::uint32_t>(layout.dim_of_feature(f));
      enum pooling const kind = layout.features()[f].pooling;
      std::size_t const first_bag = f * ids.samples;
      if (kind == pooling::none) sequence_floats_ = (sequence_floats_ + 15) / 16 * 16;  // every feature's rows start on a cache line
      std::uint32_t const groups = dim / width * (kind == pooling::sum_and_squares ? 2 : 1);
      features_.push_back({forward_units_, kind, dim, groups, static_cast<std::uint32_t>(layout.column(f)), ids.offsets[first_bag],
                           static_cast<std::uint32_t>(first_bag), sequence_floats_});
      std::size_t const values = ids.offsets[first_bag + ids.samples] - ids.offsets[first_bag];
      if (kind == pooling::none) {
        forward_units_ += values * groups;
        sequence_floats_ += values * dim;
        continue;
      }
      forward_units_ += ids.samples * groups;
      for (std::size_t b = first_bag; b < first_bag + ids.samples; ++b) {
        if (ids.offsets[b + 1] - ids.offsets[b] > sum_block) bags_.add(static_cast<std::uint32_t>(b), f, groups, width, ids.offsets[b], ids.offsets[b + 1]);
      }
    }
  }

  void plan_backward(embedding_layout const& layout, micro_route const& route, std::uint32_t width) {
    tables_.clear();
    keys_.clear();
    backward_units_ = 0;
    for (std::uint32_t t = 0; t + 1 < route.table_entry.size(); ++t) {
      std::uint32_t const groups = static_cast<std::uint32_t>(layout.tables()[t].dim) / width;
      tables_.push_back({backward_units_, groups, route.table_entry[t]});
      backward_units_ += std::size_t{route.table_entry[t + 1] - route.table_entry[t]} * groups;
      for (std::uint32_t e = route.table_entry[t]; e < route.table_entry[t + 1]; ++e) {
        if (route.entry_start[e + 1] - route.entry_start[e] > sum_block) keys_.add(e, t, groups, width, route.entry_start[e], route.entry_start[e + 1]);
      }
    }
  }

  bool sixteen_bytes_ = false;
  std::size_t forward_units_ = 0, backward_units_ = 0, sequence_floats_ = 0;
  std::vector<pool_part> features_;
  std::vector<entry_part> tables_;
  long_sums bags_, keys_;
  exec::upload<std::uint32_t> offsets_, place_, occurrence_entry_, entry_start_, entry_offset_;
  exec::upload<float> weights_;
  exec::upload<occurrence> uses_;
  exec::upload<pool_part> device_features_;
  exec::upload<entry_part> device_tables_;
  micro_view view_{};
};

}  // namespace nestpipe::embedding
