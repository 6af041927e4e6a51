#pragma once
/// @file
/// Sums of dense gradients in whatever order the transport likes.

#include <nestpipe/reduction/detail/leaves.hpp>
#include <nestpipe/reduction/reduction.hpp>

#include <cstddef>
#include <span>

namespace nestpipe::reduction {

/// Adds up the local micro-batches in ascending order, then calls the channel's all_reduce_sum (NCCL, MPI_Allreduce, ...).
/// The bits depend on the number of ranks and on the transport. Memory: local_micro_batches * parameters floats.
class native {
 public:
  static constexpr bool bits_depend_on_ranks = true;

  void open(reduction_shape const& shape) {
    check(shape);
    leaves_.open(shape.local_micro_batches, shape.parameters);
  }
  std::span<float> leaf(std::size_t j) { return leaves_[j]; }
  void add(std::size_t j, std::size_t first, std::size_t last) {
    if (j != 0) detail::add(leaves_[0].data() + first, leaves_[j].data() + first, last - first);
  }
  template <comm::channel H>
  void reduce(H& channel, std::size_t first, std::size_t last, comm::call_site at) {
    channel.all_reduce_sum(leaves_[0].subspan(first, last - first), at);
  }
  std::span<float const> result() const { return leaves_[0]; }

 private:
  detail::leaves leaves_;
};

}  // namespace nestpipe::reduction
