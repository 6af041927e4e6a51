#pragma once
// What our device code uses of the CUDA runtime, for g++: kernels run on the host, one block at a time, every access checked.
// Signatures as in the toolkit's documentation of the runtime API (13.0). See ../README.md for what is checked and what is not.

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <memory>
#include <source_location>
#include <tuple>
#include <type_traits>
#include <utility>

#define NESTPIPE_EMULATED_DEVICE 1  // for tests only; nothing under include/ may ask for it
#define __global__
#define __device__
#define __host__
#define __constant__
#define __forceinline__ inline
#define __launch_bounds__(...)
// One block runs at a time, on one host thread: its shared memory is that thread's.
#define __shared__ static thread_local

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned a = 1, unsigned b = 1, unsigned c = 1) : x{a}, y{b}, z{c} {}  // NOLINT: implicit, as in CUDA
};
#define NESTPIPE_EMULATED_VECTOR(type, name)            \
  struct alignas(2 * sizeof(type)) name##2 {            \
    type x, y;                                          \
  };                                                    \
  struct alignas(4 * sizeof(type)) name##4 {            \
    type x, y, z, w;                                    \
  };                                                    \
  constexpr name##2 make_##name##2(type x, type y) { return {x, y}; } \
  constexpr name##4 make_##name##4(type x, type y, type z, type w) { return {x, y, z, w}; }
NESTPIPE_EMULATED_VECTOR(float, float)
NESTPIPE_EMULATED_VECTOR(int, int)
NESTPIPE_EMULATED_VECTOR(unsigned, uint)
#undef NESTPIPE_EMULATED_VECTOR

enum cudaError_t : int {
  cudaSuccess = 0,
  cudaErrorInvalidValue = 1,
  cudaErrorMemoryAllocation = 2,
  cudaErrorInvalidConfiguration = 9,
  cudaErrorInsufficientDriver = 35,
  cudaErrorNoDevice = 100,
  cudaErrorInvalidResourceHandle = 400,
  cudaErrorNotReady = 600,
  cudaErrorIllegalAddress = 700,
};
enum cudaMemcpyKind { cudaMemcpyHostToHost, cudaMemcpyHostToDevice, cudaMemcpyDeviceToHost, cudaMemcpyDeviceToDevice, cudaMemcpyDefault };

namespace emulation {
struct stream;
struct event;
}  // namespace emulation
using cudaStream_t = emulation::stream*;
using cudaEvent_t = emulation::event*;
using cudaMemPool_t = void*;
using cudaHostFn_t = void (*)(void*);
inline constexpr unsigned cudaStreamDefault = 0, cudaStreamNonBlocking = 1, cudaEventDefault = 0, cudaEventDisableTiming = 2, cudaHostAllocDefault = 0;
enum cudaDeviceAttr { cudaDevAttrMultiProcessorCount = 16, cudaDevAttrComputeCapabilityMajor = 75, cudaDevAttrComputeCapabilityMinor = 76 };
enum cudaMemPoolAttr { cudaMemPoolAttrReleaseThreshold = 4 };
struct cudaDeviceProp {
  char name[256];
  std::size_t totalGlobalMem;
  int multiProcessorCount, major, minor;
};
struct cudaLaunchConfig_t {
  dim3 gridDim, blockDim;
  std::size_t dynamicSmemBytes = 0;
  cudaStream_t stream = nullptr;
  void* attrs = nullptr;
  unsigned numAttrs = 0;
};

char const* cudaGetErrorName(cudaError_t e);
char const* cudaGetErrorString(cudaError_t e);
cudaError_t cudaGetLastError();
cudaError_t cudaPeekAtLastError();
cudaError_t cudaGetDeviceCount(int* count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int* device);
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int device);
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int device);
cudaError_t cudaDeviceSynchronize();
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total);
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int device);
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t pool, cudaMemPoolAttr what, void* value);
cudaError_t cudaMallocAsync(void** p, std::size_t bytes, cudaStream_t s);
cudaError_t cudaFreeAsync(void* p, cudaStream_t s);
cudaError_t cudaMalloc(void** p, std::size_t bytes);
cudaError_t cudaFree(void* p);
cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void* p);
cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t s);
cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t s);
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t s);
cudaError_t cudaStreamSynchronize(cudaStream_t s);
cudaError_t cudaStreamQuery(cudaStream_t s);
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned flags = 0);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t e);
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s);
cudaError_t cudaEventSynchronize(cudaEvent_t e);
cudaError_t cudaEventQuery(cudaEvent_t e);
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t begin, cudaEvent_t end);
cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t f, void* data);

template <class T>
cudaError_t cudaMallocAsync(T** p, std::size_t bytes, cudaStream_t s) {
  return cudaMallocAsync(reinterpret_cast<void**>(p), bytes, s);
}
template <class T>
cudaError_t cudaMalloc(T** p, std::size_t bytes) {
  return cudaMalloc(reinterpret_cast<void**>(p), bytes);
}

namespace emulation {

// ---- what kernels see -----------------------------------------------------------------------------------------------
enum class place : std::uint8_t { thread_index, block_index, block_size, grid_size };
unsigned coordinate_of(place p, unsigned axis);
template <place P, unsigned Axis>
struct coordinate {
  operator unsigned() const { return coordinate_of(P, Axis); }  // NOLINT: implicit, it stands for a number
};
template <place P>
struct coordinates {
  coordinate<P, 0> x{};
  coordinate<P, 1> y{};
  coordinate<P, 2> z{};
};

using where = std::source_location;
enum class meeting : std::uint8_t { shuffle, vote, sync };
/// Waits until all lanes of `mask` are here too; then `all[lane]` is what each brought.
void meet_warp(meeting kind, unsigned mask, std::uint64_t mine, std::uint64_t (&all)[32], where at);
void meet_block(where at);
unsigned lane();
/// Checks an atomic operation on `bytes` bytes at p; afterwards the caller does it in one go.
void atomic_access(void const* p, std::size_t bytes);

template <class T>
T shuffle(unsigned mask, T value, unsigned (*source)(unsigned lane, unsigned argument, unsigned width), unsigned argument, unsigned width, where at) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 8);
  std::uint64_t mine = 0, all[32];
  std::memcpy(&mine, &value, sizeof(T));
  meet_warp(meeting::shuffle, mask, mine, all, at);
  std::memcpy(&value, &all[source(lane(), argument, width)], sizeof(T));
  return value;
}

/// Done outside of what the compiler instruments.
enum class atomic_kind : std::uint8_t { add, exchange, maximum, minimum, bit_or, bit_and };
std::uint64_t atomic_integer(atomic_kind kind, void* p, std::size_t bytes, bool is_signed, std::uint64_t value);
std::uint64_t atomic_compare(void* p, std::size_t bytes, std::uint64_t expected, std::uint64_t value);
float atomic_add_float(float* p, float value);
double atomic_add_double(double* p, double value);

template <class T>
T atomic(atomic_kind kind, T* p, T value) {
  static_assert(std::is_integral_v<T> && (sizeof(T) == 4 || sizeof(T) == 8));
  return static_cast<T>(atomic_integer(kind, p, sizeof(T), std::is_signed_v<T>, static_cast<std::uint64_t>(value)));
}

// ---- launches ---------------------------------------------------------------------------------------------------------
struct closure {
  virtual void run() const = 0;
  virtual ~closure() = default;
  std::size_t bytes = 0;
};
cudaError_t enqueue(cudaStream_t s, dim3 grid, dim3 block, std::size_t shared, std::unique_ptr<closure> kernel, void const* code);

}  // namespace emulation

inline constexpr emulation::coordinates<emulation::place::thread_index> threadIdx{};
inline constexpr emulation::coordinates<emulation::place::block_index> blockIdx{};
inline constexpr emulation::coordinates<emulation::place::block_size> blockDim{};
inline constexpr emulation::coordinates<emulation::place::grid_size> gridDim{};

template <class... Parameters, class... Arguments>
cudaError_t cudaLaunchKernelEx(cudaLaunchConfig_t const* c, void (*kernel)(Parameters...), Arguments&&... arguments) {
  struct call final : emulation::closure {
    void (*kernel)(Parameters...);
    std::tuple<std::remove_cv_t<Parameters>...> arguments;
    call(void (*k)(Parameters...), Arguments&&... a) : kernel{k}, arguments{static_cast<Parameters>(std::forward<Arguments>(a))...} { bytes = sizeof(call); }
    void run() const override { std::apply(kernel, arguments); }
  };
  static_assert((std::is_trivially_copyable_v<Parameters> && ...), "kernel parameters are copied as bytes");
  return emulation::enqueue(c->stream, c->gridDim, c->blockDim, c->dynamicSmemBytes, std::make_unique<call>(kernel, std::forward<Arguments>(arguments)...), reinterpret_cast<void const*>(kernel));
}

// ---- built-in functions of kernels --------------------------------------------------------------------------------------
inline void __syncthreads(emulation::where at = emulation::where::current()) { emulation::meet_block(at); }
inline void __syncwarp(unsigned mask = 0xffffffffU, emulation::where at = emulation::where::current()) {
  std::uint64_t all[32];
  emulation::meet_warp(emulation::meeting::sync, mask, 0, all, at);
}
template <class T>
T __shfl_sync(unsigned mask, T v, int from, int width = 32, emulation::where at = emulation::where::current()) {
  return emulation::shuffle(mask, v, [](unsigned l, unsigned a, unsigned w) { return (l / w) * w + a % w; }, static_cast<unsigned>(from), static_cast<unsigned>(width), at);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T v, int bits, int width = 32, emulation::where at = emulation::where::current()) {
  return emulation::shuffle(
      mask, v, [](unsigned l, unsigned a, unsigned w) { return ((l % w) ^ a) < w || (l ^ a) / w < l / w ? l ^ a : l; }, static_cast<unsigned>(bits), static_cast<unsigned>(width), at);
}
template <class T>
T __shfl_down_sync(unsigned mask, T v, unsigned by, int width = 32, emulation::where at = emulation::where::current()) {
  return emulation::shuffle(mask, v, [](unsigned l, unsigned a, unsigned w) { return l % w + a < w ? l + a : l; }, by, static_cast<unsigned>(width), at);
}
template <class T>
T __shfl_up_sync(unsigned mask, T v, unsigned by, int width = 32, emulation::where at = emulation::where::current()) {
  return emulation::shuffle(mask, v, [](unsigned l, unsigned a, unsigned w) { return l % w >= a ? l - a : l; }, by, static_cast<unsigned>(width), at);
}
inline unsigned __ballot_sync(unsigned mask, int predicate, emulation::where at = emulation::where::current()) {
  std::uint64_t all[32];
  emulation::meet_warp(emulation::meeting::vote, mask, predicate != 0 ? 1 : 0, all, at);
  unsigned bits = 0;
  for (unsigned l = 0; l < 32; ++l) bits |= (mask >> l & 1U) != 0 && all[l] != 0 ? 1U << l : 0U;
  return bits;
}
inline int __any_sync(unsigned mask, int p, emulation::where at = emulation::where::current()) { return __ballot_sync(mask, p, at) != 0; }
inline int __all_sync(unsigned mask, int p, emulation::where at = emulation::where::current()) { return __ballot_sync(mask, p, at) == mask; }
inline void __threadfence() {}
template <class T>
T __ldg(T const* p) {
  return *p;
}
inline int __popc(unsigned v) { return __builtin_popcount(v); }
inline int __ffs(int v) { return __builtin_ffs(v); }
inline int __clz(int v) { return v == 0 ? 32 : __builtin_clz(static_cast<unsigned>(v)); }

template <class T>
  requires std::is_integral_v<T>
T atomicAdd(T* p, T v) {
  return emulation::atomic(emulation::atomic_kind::add, p, v);
}
inline float atomicAdd(float* p, float v) { return emulation::atomic_add_float(p, v); }
inline double atomicAdd(double* p, double v) { return emulation::atomic_add_double(p, v); }
template <class T>
T atomicExch(T* p, T v) {
  return emulation::atomic(emulation::atomic_kind::exchange, p, v);
}
template <class T>
T atomicMax(T* p, T v) {
  return emulation::atomic(emulation::atomic_kind::maximum, p, v);
}
template <class T>
T atomicMin(T* p, T v) {
  return emulation::atomic(emulation::atomic_kind::minimum, p, v);
}
template <class T>
T atomicOr(T* p, T v) {
  return emulation::atomic(emulation::atomic_kind::bit_or, p, v);
}
template <class T>
T atomicAnd(T* p, T v) {
  return emulation::atomic(emulation::atomic_kind::bit_and, p, v);
}
template <class T>
T atomicCAS(T* p, T expected, T v) {
  return static_cast<T>(emulation::atomic_compare(p, sizeof(T), static_cast<std::uint64_t>(expected), static_cast<std::uint64_t>(v)));
}
