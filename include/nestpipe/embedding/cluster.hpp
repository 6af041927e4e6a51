#pragma once
/// @file
/// Key-centric sample clustering: samples that share keys go to the same micro-batch, so that fewer rows cross the wire.

#include <nestpipe/embedding/cluster_greedy.hpp>
#include <nestpipe/embedding/cluster_incidence.hpp>
#include <nestpipe/embedding/cluster_mode.hpp>
#include <nestpipe/embedding/cluster_permute.hpp>
#include <nestpipe/embedding/cluster_swaps.hpp>

namespace nestpipe::embedding {

/// What clustering did, in units of the greatest common divisor of the tables' dims: sums over micro-batches of the weight
/// (row bytes) of their distinct keys, that is what a rank exchanges each way when rows are not used again.
struct cluster_result {
  std::uint64_t before = 0;
  std::uint64_t after = 0;     ///< never above `before`
  std::uint64_t bound = 0;     ///< provably not above any assignment: a key of n samples needs at least n / (samples of the largest micro-batch) of them
  std::uint64_t distinct = 0;  ///< each distinct key once
  cluster_result& operator+=(cluster_result const& o) {
    before += o.before;
    after += o.after;
    bound += o.bound;
    distinct += o.distinct;
    return *this;
  }
};

/// Exchanges samples among micro-batches of one cluster group; sizes stay. Rows and gradients are those of the same batch, so
/// a step is mathematically the same (sums are taken in another order).
///
/// The result depends on the samples of the group, on how the data had spread them and on nothing else: not on how many groups
/// or ranks there are, nor on earlier batches. Nothing is allocated once the buffers are as large as the largest batch.
class cluster {
 public:
  /// @param blocks  (micro-batches of the rank); rebuilt, unless the order they came in is as good
  /// @param groups  local cluster groups: micro-batch j is in group j mod groups
  cluster_result apply(embedding_layout const& layout, std::span<sample_block> blocks, clustering how, std::uint32_t groups = 1) {
    cluster_result sum;
    if (how == clustering::off) return sum;
    for (std::uint32_t group = 0; group < groups; ++group) {
      incidence_.build(layout, blocks, group, groups);
      sum += rearrange(blocks, how);
    }
    return sum;
  }

 private:
  cluster_result rearrange(std::span<sample_block> blocks, clustering how) {
    std::uint64_t const before = incidence_.objective(incidence_.given.span());
    cluster_result result{before, before, incidence_.bound, incidence_.distinct};
    if (incidence_.keys() == 0 || before == incidence_.bound) return result;
    part_.resize(incidence_.samples());
    if (!greedy_.run(incidence_, part_.span())) return result;
    if (how == clustering::exact) swaps_.run(incidence_, part_.span());
    std::uint64_t after = incidence_.objective(part_.span());
    if (after >= before && how == clustering::exact) {  // exchanges may still improve what was given
      std::copy(incidence_.given.data(), incidence_.given.data() + part_.size(), part_.data());
      if (swaps_.run(incidence_, part_.span()) != 0) after = incidence_.objective(part_.span());
    }
    if (after >= before) return result;
    permute_.run(incidence_, part_.span(), blocks);
    result.after = after;
    return result;
  }

  cluster_incidence incidence_;
  cluster_greedy greedy_;
  cluster_swaps swaps_;
  cluster_permute permute_;
  exec::buffer<std::uint32_t> part_;
};

}  // namespace nestpipe::embedding
