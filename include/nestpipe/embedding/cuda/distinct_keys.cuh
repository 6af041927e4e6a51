#pragma once
/// @file
/// De-duplication of a table's keys on the device, with the inverse and the canonical order of sums, and bucketing by owner.

#include <nestpipe/core/random.hpp>
#include <nestpipe/exec/cuda/index.cuh>
#include <nestpipe/exec/cuda/launch.cuh>
#include <nestpipe/exec/cuda/primitives.cuh>

namespace nestpipe::embedding {
namespace detail {

template <class = void>
__global__ void number_positions(std::uint32_t* positions, std::size_t n) {
  for (std::size_t i = exec::first_unit(); i < n; i += exec::unit_stride()) positions[i] = static_cast<std::uint32_t>(i);
}

template <class = void>
__global__ void flag_heads(key_type const* sorted, std::uint32_t* head, std::size_t n) {
  for (std::size_t i = exec::first_unit(); i < n; i += exec::unit_stride()) head[i] = i == 0 || sorted[i] != sorted[i - 1] ? 1U : 0U;
}

/// Run numbers become the inverse; heads become the distinct keys, in ascending order, with their owners.
template <class = void>
__global__ void write_runs(key_type const* sorted, std::uint32_t const* positions, std::uint32_t const* run, std::uint32_t table, std::uint32_t shards, std::uint32_t world_size,
                           key_type* distinct, key_type* owner, std::uint32_t* number, std::uint32_t* start, std::uint32_t* inverse, std::uint32_t* count, std::size_t n) {
  for (std::size_t i = exec::first_unit(); i < n; i += exec::unit_stride()) {
    std::uint32_t const r = run[i] - 1;
    inverse[positions[i]] = r;
    if (i == 0 || run[i - 1] != run[i]) {
      distinct[r] = sorted[i];
      owner[r] = owner_of(shard_of(table, sorted[i], shards), world_size);
      number[r] = r;
      start[r] = static_cast<std::uint32_t>(i);
    }
    if (i + 1 == n) {
      start[r + 1] = static_cast<std::uint32_t>(n);
      *count = r + 1;
    }
  }
}

/// first[o]: how many of the sorted owners are below o; a thread an owner, and one more.
template <class = void>
__global__ void find_owners(key_type const* sorted, std::size_t n, std::uint32_t* first, std::uint32_t world_size) {
  for (std::size_t o = exec::first_unit(); o <= world_size; o += exec::unit_stride()) {
    std::size_t low = 0, high = n;
    while (low < high) {
      std::size_t const middle = (low + high) / 2;
      if (sorted[middle] < o) {
        low = middle + 1;
      } else {
        high = middle;
      }
    }
    first[o] = static_cast<std::uint32_t>(low);
  }
}

}  // namespace detail

/// All arrays are device memory, valid on the stream of build(). O(n).
class distinct_keys {
 public:
  /// @param keys  (n) of one table, in value order; n below 2^32
  void build(key_type const* keys, std::size_t n, std::uint32_t table, std::uint32_t shards, std::uint32_t world_size, cudaStream_t stream) {
    n_ = n;
    world_size_ = world_size;
    for (auto* b : {&sorted_, &distinct_, &owner_, &sorted_owner_}) b->resize(n, stream);
    for (auto* b : {&numbers_, &positions_, &head_, &run_, &number_, &inverse_, &by_owner_}) b->resize(n, stream);
    start_.resize(n + 1, stream);
    first_of_owner_.resize(world_size + 1, stream);
    count_.assign_zero(1, stream);
    exec::launch(stream, n, detail::number_positions<void>, numbers_.data(), n);
    exec::sort_by_key(stream, keys, sorted_.data(), numbers_.data(), positions_.data(), n, scratch_);
    exec::launch(stream, n, detail::flag_heads<void>, sorted_.data(), head_.data(), n);
    exec::inclusive_scan(stream, head_.data(), run_.data(), n, scratch_);
    exec::launch(stream, n, detail::write_runs<void>, sorted_.data(), positions_.data(), run_.data(), table, shards, world_size, distinct_.data(), owner_.data(), number_.data(),
                 start_.data(), inverse_.data(), count_.data(), n);
    host_count_.resize(1);
    exec::copy_to_host(host_count_.data(), count_.data(), 1, stream);
  }

  /// Waits for the device, then buckets by owner. The host may wait in `route` only.
  /// @return the number of distinct keys
  std::size_t finish(cudaStream_t stream) {
    NESTPIPE_CUDA_TRY(cudaStreamSynchronize(stream));
    std::size_t const distinct = host_count_[0];
    int bits = 1;
    while ((std::uint64_t{world_size_} >> bits) != 0) ++bits;
    exec::sort_by_key(stream, owner_.data(), sorted_owner_.data(), number_.data(), by_owner_.data(), distinct, scratch_, bits);
    exec::launch(stream, std::size_t{world_size_} + 1, detail::find_owners<void>, sorted_owner_.data(), distinct, first_of_owner_.data(), world_size_);
    return distinct;
  }

  key_type const* keys() const { return distinct_.data(); }              ///< ascending
  std::uint32_t const* inverse() const { return inverse_.data(); }       ///< (n) number of each value's key
  std::uint32_t const* start() const { return start_.data(); }           ///< (distinct + 1) into positions()
  std::uint32_t const* positions() const { return positions_.data(); }   ///< (n) by key, ascending inside: the canonical order of sums
  std::uint32_t const* by_owner() const { return by_owner_.data(); }     ///< numbers of the keys, by owner, ascending inside
  std::uint32_t const* first_of_owner() const { return first_of_owner_.data(); }  ///< (world size + 1) into by_owner()

 private:
  std::size_t n_ = 0;
  std::uint32_t world_size_ = 1;
  exec::buffer<key_type, exec::cuda> sorted_, distinct_, owner_, sorted_owner_;
  exec::buffer<std::uint32_t, exec::cuda> numbers_, positions_, head_, run_, number_, inverse_, by_owner_, start_, first_of_owner_, count_;
  exec::pinned_buffer<std::uint32_t> host_count_;
  exec::device_scratch scratch_;
};

}  // namespace nestpipe::embedding
