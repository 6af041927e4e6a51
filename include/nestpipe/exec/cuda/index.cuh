#pragma once
/// @file
/// The first unit of a kernel's thread, and the step to its next one.

#include <nestpipe/exec/cuda/error.cuh>

namespace nestpipe::exec {

__device__ inline std::size_t first_unit() { return std::size_t{blockIdx.x} * blockDim.x + threadIdx.x; }
__device__ inline std::size_t unit_stride() { return std::size_t{gridDim.x} * blockDim.x; }

}  // namespace nestpipe::exec
