#pragma once
/// @file
/// Errors of the CUDA runtime: the call, the place, the code, in one line.

#if !__has_include(<cuda_runtime.h>)
#error "nestpipe/exec/cuda needs the CUDA toolkit: link nestpipe::cuda, or use the host space"
#endif

#include <nestpipe/core/error.hpp>

#include <cuda_runtime.h>

#include <string>

namespace nestpipe::exec {

/// A call of the CUDA runtime failed. Errors of kernels come with a later call.
class cuda_error : public error {
 public:
  cuda_error(cudaError_t code, std::string_view expression, std::string_view place)
      : error{std::string{"CUDA: "} + cudaGetErrorName(code) + " (" + std::to_string(static_cast<int>(code)) + "), " + cudaGetErrorString(code),
              std::string{expression} + " at " + std::string{place}},
        code_{code} {}
  cudaError_t code() const noexcept { return code_; }

 private:
  cudaError_t code_;
};

namespace detail {
inline void cuda_check(cudaError_t code, char const* expression, char const* file, int line) {
  if (code == cudaSuccess) return;
  (void)cudaGetLastError();  // one that does not stick must not be reported twice
  std::string place{file};
  place = place.substr(place.rfind('/') + 1) + ":" + std::to_string(line);
  throw cuda_error{code, expression, place};
}
}  // namespace detail

/// Throws cuda_error, naming the expression, unless it gives cudaSuccess.
#define NESTPIPE_CUDA_TRY(...) ::nestpipe::exec::detail::cuda_check((__VA_ARGS__), #__VA_ARGS__, __FILE__, __LINE__)

/// Devices of this machine; 0 without a driver, too.
inline int cuda_devices() {
  int count = 0;
  cudaError_t const code = cudaGetDeviceCount(&count);
  if (code == cudaSuccess) return count;
  (void)cudaGetLastError();
  if (code == cudaErrorNoDevice || code == cudaErrorInsufficientDriver) return 0;
  throw cuda_error{code, "cudaGetDeviceCount(&count)", "exec/cuda/error.cuh"};
}

/// The device that is current on this thread.
inline int this_device() {
  int device = 0;
  NESTPIPE_CUDA_TRY(cudaGetDevice(&device));
  return device;
}

/// For the first line of programs. @throws error in one line when there is no device
inline void require_cuda_device() {
  if (cuda_devices() == 0) throw error{"no CUDA device", {}, "run on a machine with an NVIDIA GPU and its driver, or choose the host space"};
}

}  // namespace nestpipe::exec
