// Compiles the NVTX decorator over both executors; nothing here runs without a profiler's machine.
#include <nestpipe/exec/inline_lanes.hpp>
#include <nestpipe/exec/nvtx_lanes.cuh>
#include <nestpipe/exec/thread_lanes.hpp>

static_assert(nestpipe::exec::executor<nestpipe::exec::nvtx_lanes<nestpipe::exec::inline_lanes>>);
static_assert(nestpipe::exec::executor<nestpipe::exec::nvtx_lanes<nestpipe::exec::thread_lanes>>);

template class nestpipe::exec::nvtx_lanes<nestpipe::exec::thread_lanes>;
