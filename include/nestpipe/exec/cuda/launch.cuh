#pragma once
/// @file
/// How kernels are started: on a named stream, with their errors looked at.

#include <nestpipe/exec/cuda/stream.cuh>

#include <algorithm>
#include <type_traits>

namespace nestpipe::exec {

/// Threads of a block, everywhere: eight warps.
inline constexpr unsigned block_threads = 256;

/// Queues `kernel(arguments...)` with `threads` threads in all, one for each unit of work, in blocks of block_threads. Kernels get
/// along with any grid: they walk over their units (grid stride). Nothing is queued when threads is 0.
template <class... Parameters, class... Arguments>
void launch(cudaStream_t stream, std::size_t threads, void (*kernel)(Parameters...), Arguments&&... arguments) {
  if (threads == 0) return;
  constexpr std::size_t most_blocks = std::size_t{1} << 20;
  cudaLaunchConfig_t config{};
  config.gridDim = dim3{static_cast<unsigned>(std::min(most_blocks, (threads + block_threads - 1) / block_threads))};
  config.blockDim = dim3{block_threads};
  config.stream = stream;
  NESTPIPE_CUDA_TRY(cudaLaunchKernelEx(&config, kernel, static_cast<Parameters>(arguments)...));
}

}  // namespace nestpipe::exec
