#pragma once
/// @file
/// Every op as an NVTX range, named by its stage, so that a profiler's timeline shows the lanes as ours does.

#if !defined(__CUDACC__)
#error "nestpipe/exec/nvtx_lanes.cuh needs the CUDA toolkit: compile as CUDA, or read executor.recorder() on the host"
#endif

#include <nestpipe/exec/executor.hpp>

#include <nvtx3/nvToolsExt.h>

namespace nestpipe::exec {

/// Decorator: any executor, its ops inside NVTX ranges of the thread that runs them. Costs nothing measurable while no
/// profiler is attached. Payload of a range: the batch number.
template <class Inner>
class nvtx_lanes {
 public:
  void start(work w) {
    work_ = w;
    inner_.start(work::of(*this));
  }
  event issue(op const& o, std::span<event const> after) { return inner_.issue(o, after); }
  void wait(event e) { inner_.wait(e); }
  void drain() { inner_.drain(); }
  void stop() noexcept { inner_.stop(); }
  decltype(auto) recorder()
    requires requires(Inner& i) { i.recorder(); }
  {
    return inner_.recorder();
  }

  void execute(op const& o) {
    nvtxEventAttributes_t range{};
    range.version = NVTX_VERSION;
    range.size = NVTX_EVENT_ATTRIB_STRUCT_SIZE;
    range.messageType = NVTX_MESSAGE_TYPE_ASCII;
    range.message.ascii = name(o.what).data();  // a literal: terminated
    range.payloadType = NVTX_PAYLOAD_TYPE_UNSIGNED_INT64;
    range.payload.ullValue = o.batch;
    nvtxRangePushEx(&range);
    struct pop {
      ~pop() { nvtxRangePop(); }
    } const at_end;
    work_.execute(o);
  }
  void failed(std::exception_ptr e) noexcept { work_.failed(std::move(e)); }

 private:
  work work_;
  Inner inner_;  // last: its lanes end before the rest goes
};

}  // namespace nestpipe::exec
