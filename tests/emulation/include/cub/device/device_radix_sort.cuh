#pragma once
// cub::DeviceRadixSort::SortPairs for the emulated device: a kernel of one thread, so its accesses are checked like any other's.

#include <cuda_runtime.h>

namespace cub {
namespace emulated {

template <class K, class V>
__global__ void sort_pairs(K const* in, K* out, V const* values_in, V* values_out, K* other, V* other_values, std::size_t n, int begin_bit, int end_bit) {
  for (std::size_t i = 0; i < n; ++i) {
    out[i] = in[i];
    values_out[i] = values_in[i];
  }
  for (int bit = begin_bit; bit < end_bit; ++bit) {  // one bit a pass, least significant first: stable
    std::size_t at = 0;
    for (unsigned side = 0; side < 2; ++side) {
      for (std::size_t i = 0; i < n; ++i) {
        if ((out[i] >> bit & 1U) != side) continue;
        other[at] = out[i];
        other_values[at++] = values_out[i];
      }
    }
    for (std::size_t i = 0; i < n; ++i) {
      out[i] = other[i];
      values_out[i] = other_values[i];
    }
  }
}

}  // namespace emulated

struct DeviceRadixSort {
  template <class K, class V, class N>
  static cudaError_t SortPairs(void* temporary, std::size_t& bytes, K const* in, K* out, V const* values_in, V* values_out, N n, int begin_bit, int end_bit, cudaStream_t stream) {
    auto const count = static_cast<std::size_t>(n);
    if (temporary == nullptr) {
      bytes = count * (sizeof(K) + sizeof(V)) + 1;
      return cudaSuccess;
    }
    K* const other = static_cast<K*>(temporary);
    cudaLaunchConfig_t c{};
    c.stream = stream;
    return cudaLaunchKernelEx(&c, emulated::sort_pairs<K, V>, in, out, values_in, values_out, other, reinterpret_cast<V*>(other + count), count, begin_bit, end_bit);
  }
};

}  // namespace cub
