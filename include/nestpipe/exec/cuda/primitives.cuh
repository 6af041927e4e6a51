#pragma once
/// @file
/// Sort and scan on the device: CUB, with scratch that is kept. As exec/algorithms.hpp they give the same bits wherever they run: integers only.

#include <nestpipe/core/config.hpp>
#include <nestpipe/exec/cuda/buffer.cuh>

#include <cub/device/device_radix_sort.cuh>
#include <cub/device/device_scan.cuh>

namespace nestpipe::exec {

/// Scratch of the calls of one stream; grows with the longest input.
using device_scratch = buffer<std::byte, cuda>;

/// Ascending order of `keys_in`; values move along, those of equal keys in their old order. Not in place. O(n).
/// @param bits  only the lowest `bits` of a key are compared
inline void sort_by_key(cudaStream_t stream, key_type const* keys_in, key_type* keys_out, std::uint32_t const* values_in, std::uint32_t* values_out, std::size_t n,
                        device_scratch& scratch, int bits = 64) {
  if (n == 0) return;
  std::size_t bytes = 0;
  auto const count = static_cast<std::uint32_t>(n);
  NESTPIPE_CUDA_TRY(cub::DeviceRadixSort::SortPairs(nullptr, bytes, keys_in, keys_out, values_in, values_out, count, 0, bits, stream));
  scratch.resize(bytes, stream);
  NESTPIPE_CUDA_TRY(cub::DeviceRadixSort::SortPairs(scratch.data(), bytes, keys_in, keys_out, values_in, values_out, count, 0, bits, stream));
}

/// out[i] is the sum of in[0 .. i]. O(n).
inline void inclusive_scan(cudaStream_t stream, std::uint32_t const* in, std::uint32_t* out, std::size_t n, device_scratch& scratch) {
  if (n == 0) return;
  std::size_t bytes = 0;
  auto const count = static_cast<std::uint32_t>(n);
  NESTPIPE_CUDA_TRY(cub::DeviceScan::InclusiveSum(nullptr, bytes, in, out, count, stream));
  scratch.resize(bytes, stream);
  NESTPIPE_CUDA_TRY(cub::DeviceScan::InclusiveSum(scratch.data(), bytes, in, out, count, stream));
}

}  // namespace nestpipe::exec
