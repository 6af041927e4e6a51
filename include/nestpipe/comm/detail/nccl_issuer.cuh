#pragma once
/// @file
/// The one thread of a rank that calls NCCL.

#include <nestpipe/exec/cuda/error.cuh>

#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>

namespace nestpipe::comm::detail {

/// NCCL's calls are not meant to come from several threads at the same time. `run(f)` has f called on a thread of its own, one after the
/// other in the order of arrival, and returns when it has been: what f queues on a stream goes on meanwhile. Nothing is allocated.
class nccl_issuer {
 public:
  explicit nccl_issuer(int device) : thread_{[this, device] { loop(device); }} {}
  nccl_issuer(nccl_issuer const&) = delete;
  nccl_issuer& operator=(nccl_issuer const&) = delete;
  ~nccl_issuer() {
    {
      std::lock_guard const guard{mutex_};
      stopping_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  template <class F>
  void run(F&& f) {
    std::lock_guard const turn{one_caller_};
    std::unique_lock guard{mutex_};
    object_ = &f;
    call_ = [](void* object) { (*static_cast<std::remove_reference_t<F>*>(object))(); };
    failed_ = nullptr;
    changed_.notify_all();
    changed_.wait(guard, [&] { return call_ == nullptr; });
    if (failed_) std::rethrow_exception(std::exchange(failed_, nullptr));
  }

 private:
  void loop(int device) {
    cudaError_t const chosen = cudaSetDevice(device);
    std::unique_lock guard{mutex_};
    for (;;) {
      changed_.wait(guard, [&] { return call_ != nullptr || stopping_; });
      if (call_ == nullptr) return;
      try {
        exec::detail::cuda_check(chosen, "cudaSetDevice(device)", __FILE__, __LINE__);
        call_(object_);
      } catch (...) {
        failed_ = std::current_exception();
      }
      call_ = nullptr;
      changed_.notify_all();
    }
  }

  std::mutex one_caller_, mutex_;
  std::condition_variable changed_;
  void (*call_)(void*) = nullptr;
  void* object_ = nullptr;
  std::exception_ptr failed_;
  bool stopping_ = false;
  std::thread thread_;  // last: it uses the others
};

}  // namespace nestpipe::comm::detail
