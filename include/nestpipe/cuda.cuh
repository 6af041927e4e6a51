#pragma once
/// @file
/// The umbrella of the device parts: a trainer whose executor is exec::cuda_lanes keeps its windows and its embedding arithmetic on the GPU.

#include <nestpipe/engine/cuda/parts.cuh>
#include <nestpipe/exec/cuda/lanes.cuh>
