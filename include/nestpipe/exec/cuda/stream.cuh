#pragma once
/// @file
/// Streams and events that belong to somebody. There is no default stream here: what is queued names its stream.

#include <nestpipe/exec/cuda/error.cuh>

#include <utility>

namespace nestpipe::exec {

/// A stream of its own: it does not wait for the legacy default stream. Move-only.
class cuda_stream {
 public:
  cuda_stream() { NESTPIPE_CUDA_TRY(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking)); }
  cuda_stream(cuda_stream&& other) noexcept : stream_{std::exchange(other.stream_, nullptr)} {}
  cuda_stream& operator=(cuda_stream&& other) noexcept {
    std::swap(stream_, other.stream_);
    return *this;
  }
  ~cuda_stream() {
    if (stream_ != nullptr) (void)cudaStreamDestroy(stream_);
  }
  cudaStream_t get() const { return stream_; }
  /// Blocks the caller until all that is queued is done. @throws cuda_error also of earlier kernels
  void synchronize() const { NESTPIPE_CUDA_TRY(cudaStreamSynchronize(stream_)); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// A place in a stream that others can wait for. Move-only.
class cuda_event {
 public:
  /// @param timed  for elapsed times; costs a little
  explicit cuda_event(bool timed = false) { NESTPIPE_CUDA_TRY(cudaEventCreateWithFlags(&event_, timed ? cudaEventDefault : cudaEventDisableTiming)); }
  cuda_event(cuda_event&& other) noexcept : event_{std::exchange(other.event_, nullptr)} {}
  cuda_event& operator=(cuda_event&& other) noexcept {
    std::swap(event_, other.event_);
    return *this;
  }
  ~cuda_event() {
    if (event_ != nullptr) (void)cudaEventDestroy(event_);
  }
  cudaEvent_t get() const { return event_; }
  void record(cudaStream_t on) { NESTPIPE_CUDA_TRY(cudaEventRecord(event_, on)); }
  /// What is queued on `stream` from now on runs after the place last recorded.
  void hold(cudaStream_t stream) const { NESTPIPE_CUDA_TRY(cudaStreamWaitEvent(stream, event_, 0)); }
  void synchronize() const { NESTPIPE_CUDA_TRY(cudaEventSynchronize(event_)); }

 private:
  cudaEvent_t event_ = nullptr;
};

namespace detail {
inline cudaStream_t& lane_stream_slot() {
  static thread_local cudaStream_t stream = nullptr;
  return stream;
}
}  // namespace detail

/// The stream on which the calling thread queues device work: its lane's, inside an op of cuda_lanes; else one of its own.
inline cudaStream_t this_stream() {
  cudaStream_t const lane = detail::lane_stream_slot();
  if (lane != nullptr) return lane;
  static thread_local cuda_stream own;
  return own.get();
}

/// While it lives, this_stream() of the calling thread is `stream`.
class on_stream {
 public:
  explicit on_stream(cudaStream_t stream) : before_{std::exchange(detail::lane_stream_slot(), stream)} {}
  ~on_stream() { detail::lane_stream_slot() = before_; }
  on_stream(on_stream const&) = delete;
  on_stream& operator=(on_stream const&) = delete;

 private:
  cudaStream_t before_;
};

/// Blocks the caller until the device has done all that this thread's stream holds.
inline void wait_for_device() { NESTPIPE_CUDA_TRY(cudaStreamSynchronize(this_stream())); }

}  // namespace nestpipe::exec
