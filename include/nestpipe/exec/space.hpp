#pragma once
/// @file
/// Where memory lives and code runs.

namespace nestpipe::exec {

/// Ordinary memory, host threads.
struct host {};
/// Device memory, CUDA streams (needs the .cuh headers).
struct cuda {};

}  // namespace nestpipe::exec
