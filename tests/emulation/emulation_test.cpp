// The emulated device itself: it computes what a device would, and sees the faults that it is there to see.
#include <doctest/doctest.h>

#include <cuda_runtime.h>

#include <emulation/emulation.hpp>

#include <algorithm>
#include <numeric>
#include <string>
#include <vector>

namespace {

struct line {
  cudaStream_t s = nullptr;
  line() { REQUIRE(cudaStreamCreateWithFlags(&s, cudaStreamNonBlocking) == cudaSuccess); }
  ~line() { cudaStreamDestroy(s); }
  line(line const&) = delete;
  line& operator=(line const&) = delete;
  operator cudaStream_t() const { return s; }  // NOLINT
};

template <class T>
struct device_array {
  T* p = nullptr;
  cudaStream_t s;
  device_array(std::size_t n, cudaStream_t on) : s{on} { cudaMallocAsync(&p, n * sizeof(T), on); }
  ~device_array() { cudaFreeAsync(p, s); }
  device_array(device_array const&) = delete;
  device_array& operator=(device_array const&) = delete;
};

template <class T>
struct pinned_array {
  T* p = nullptr;
  explicit pinned_array(std::size_t n) {
    void* v = nullptr;
    cudaHostAlloc(&v, n * sizeof(T), cudaHostAllocDefault);
    p = static_cast<T*>(v);
  }
  ~pinned_array() { cudaFreeHost(p); }
  pinned_array(pinned_array const&) = delete;
  pinned_array& operator=(pinned_array const&) = delete;
  T& operator[](std::size_t i) { return p[i]; }
};

template <class... P, class... A>
void launch(cudaStream_t s, unsigned grid, unsigned block, void (*kernel)(P...), A... a) {
  cudaLaunchConfig_t c{};
  c.gridDim = dim3{grid};
  c.blockDim = dim3{block};
  c.stream = s;
  CHECK(cudaLaunchKernelEx(&c, kernel, a...) == cudaSuccess);
}

}  // namespace

namespace emulated_kernels {  // with a name: the linker forgets those of an unnamed namespace

/// Sums in a block through shared memory; `barriers` false leaves them out.
__global__ void block_sums(int const* in, int* out, bool barriers) {
  __shared__ int sums[64];
  unsigned const t = threadIdx.x;
  sums[t] = in[blockIdx.x * blockDim.x + t];
  for (unsigned by = blockDim.x / 2; by > 0; by /= 2) {
    if (barriers) __syncthreads();
    if (t < by) sums[t] += sums[t + by];
  }
  if (t == 0) out[blockIdx.x] = sums[0];
}

__global__ void warp_sums(int const* in, int* out) {
  int v = in[threadIdx.x];
  for (unsigned by = 16; by > 0; by /= 2) v += __shfl_xor_sync(0xffffffffU, v, static_cast<int>(by));
  unsigned const odd = __ballot_sync(0xffffffffU, in[threadIdx.x] % 2);
  if (threadIdx.x % 32 == 0) out[threadIdx.x / 32] = v + 1000 * __popc(odd);
}

__global__ void shift(int const* in, int* out, int by) { out[threadIdx.x] = in[static_cast<int>(threadIdx.x) + by]; }
__global__ void write_at(int* out, int at, int value) {
  if (threadIdx.x == 0) out[at] = value;
}
__global__ void count_up(unsigned* total) { atomicAdd(total, 1U); }
__global__ void count_badly(unsigned* total) { *total = *total + 1; }
__global__ void half_barrier() {
  if (threadIdx.x < 3) __syncthreads();
}
__global__ void two_barriers(int* out) {
  if (threadIdx.x < 3) {
    __syncthreads();
  } else {
    __syncthreads();
  }
  out[threadIdx.x] = 1;
}
__global__ void lonely_shuffle(int* out) {
  if (threadIdx.x < 16) out[threadIdx.x] = __shfl_down_sync(0xffffffffU, static_cast<int>(threadIdx.x), 1);
}
__global__ void warp_exchange(int* out, bool synchronised) {
  __shared__ int box[32];
  box[threadIdx.x] = static_cast<int>(threadIdx.x);
  if (synchronised) __syncwarp();
  out[threadIdx.x] = box[31 - threadIdx.x];
}
__global__ void wide(float4 const* in, float4* out) { out[threadIdx.x] = in[threadIdx.x]; }

}  // namespace emulated_kernels
using namespace emulated_kernels;

namespace {

bool has(std::string const& text, char const* part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("kernels compute what a device would, in any order of threads") {
  for (auto const o : {emulation::order::ascending, emulation::order::descending, emulation::order::shuffled}) {
    emulation::use({o, emulation::pace::lazy, 5, true, 1});
    line s;
    pinned_array<int> in{128}, out{4};
    device_array<int> a{128, s}, b{4, s};
    std::iota(in.p, in.p + 128, 0);
    cudaMemcpyAsync(a.p, in.p, 128 * sizeof(int), cudaMemcpyHostToDevice, s);
    launch(s, 2, 64, block_sums, static_cast<int const*>(a.p), b.p, true);
    cudaMemcpyAsync(out.p, b.p, 2 * sizeof(int), cudaMemcpyDeviceToHost, s);
    cudaStreamSynchronize(s);
    CHECK(out[0] == 63 * 64 / 2);
    CHECK(out[1] == 63 * 64 / 2 + 64 * 64);
    launch(s, 1, 128, warp_sums, static_cast<int const*>(a.p), b.p);
    cudaMemcpyAsync(out.p, b.p, 4 * sizeof(int), cudaMemcpyDeviceToHost, s);
    cudaStreamSynchronize(s);
    CHECK(out[3] == 16000 + 31 * 32 / 2 + 96 * 32);
    device_array<unsigned> n{1, s};
    cudaMemsetAsync(n.p, 0, sizeof(unsigned), s);
    launch(s, 7, 33, count_up, n.p);
    cudaMemcpyAsync(out.p, n.p, sizeof(unsigned), cudaMemcpyDeviceToHost, s);
    cudaStreamSynchronize(s);
    CHECK(out[0] == 7 * 33);
  }
  emulation::use({});
}

TEST_CASE("a missing barrier is seen in every order of threads") {
  for (auto const o : {emulation::order::ascending, emulation::order::descending, emulation::order::shuffled}) {
    emulation::use({o, emulation::pace::lazy, 5, true, 1});
    line s;
    device_array<int> a{64, s}, b{1, s};
    cudaMemsetAsync(a.p, 0, 64 * sizeof(int), s);
    auto const run = [&](bool barriers) {
      return emulation::fault_of([&] { launch(s, 1, 64, block_sums, static_cast<int const*>(a.p), b.p, barriers); });
    };
    CHECK(run(true) == "");
    std::string const text = run(false);
    CHECK_MESSAGE(has(text, "race on shared memory"), text);
    CHECK(has(text, "block_sums"));
    auto const exchange = [&](bool synchronised) { return emulation::fault_of([&] { launch(s, 1, 32, warp_exchange, a.p, synchronised); }); };
    CHECK(exchange(true) == "");
    CHECK(has(exchange(false), "race on shared memory"));
  }
  emulation::use({});
}

TEST_CASE("barriers and warp functions in divergent code are seen") {
  line s;
  device_array<int> a{32, s};
  CHECK(has(emulation::fault_of([&] { launch(s, 1, 8, half_barrier); }), "barrier in divergent code: 5 of 8"));
  CHECK(has(emulation::fault_of([&] { launch(s, 1, 8, two_barriers, a.p); }), "different barriers"));
  CHECK(has(emulation::fault_of([&] { launch(s, 1, 32, lonely_shuffle, a.p); }), "never come"));
}

TEST_CASE("races on device memory are seen between threads and between blocks") {
  line s;
  device_array<unsigned> n{1, s};
  cudaMemsetAsync(n.p, 0, sizeof(unsigned), s);
  CHECK(has(emulation::fault_of([&] { launch(s, 1, 2, count_badly, n.p); }), "race on device memory with thread"));
  CHECK(has(emulation::fault_of([&] { launch(s, 2, 1, count_badly, n.p); }), "race on device memory with another block"));
  CHECK(emulation::fault_of([&] { launch(s, 1, 1, count_badly, n.p); }) == "");
}

TEST_CASE("accesses out of bounds, after free, misaligned and of unwritten memory are seen") {
  line s;
  device_array<int> a{32, s}, b{32, s};
  cudaMemsetAsync(a.p, 0, 32 * sizeof(int), s);
  cudaMemsetAsync(b.p, 0, 32 * sizeof(int), s);
  auto const shifted = [&](int by) { return emulation::fault_of([&] { launch(s, 1, 32, shift, static_cast<int const*>(a.p), b.p, by); }); };
  CHECK(shifted(0) == "");
  CHECK_MESSAGE(has(shifted(1), "read out of bounds of device memory, 128 bytes into an allocation of 128"), shifted(1));
  CHECK(has(shifted(-1), "read out of bounds"));
  CHECK(has(emulation::fault_of([&] { launch(s, 1, 1, write_at, a.p, 32, 1); }), "write out of bounds"));

  int* gone = nullptr;
  cudaMallocAsync(&gone, 64, s);
  cudaMemsetAsync(gone, 0, 64, s);
  cudaFreeAsync(gone, s);
  CHECK(has(emulation::fault_of([&] { launch(s, 1, 1, write_at, gone, 0, 1); }), "after it was freed"));

  device_array<int> fresh{32, s};
  CHECK(has(emulation::fault_of([&] { launch(s, 1, 32, shift, static_cast<int const*>(fresh.p), b.p, 0); }), "nobody has written"));
  CHECK(has(emulation::fault_of([&] { launch(s, 1, 1, wide, reinterpret_cast<float4 const*>(a.p + 1), reinterpret_cast<float4*>(b.p)); }), "misaligned"));
  pinned_array<int> p{4};
  CHECK(has(emulation::fault_of([&] { cudaMemcpyAsync(a.p, p.p, 5 * sizeof(int), cudaMemcpyHostToDevice, s); }), "out of bounds of pinned host memory"));
}

TEST_CASE("neither side reaches the other's memory without a copy") {
  line s;
  device_array<int> a{32, s};
  cudaMemsetAsync(a.p, 0, 32 * sizeof(int), s);
  cudaStreamSynchronize(s);
  int volatile got = 0;
  CHECK(has(emulation::fault_of([&] { got = a.p[3]; }), "the host reads device memory"));
  CHECK(has(emulation::fault_of([&] { a.p[3] = got; }), "the host writes device memory"));
  std::vector<int> host(32, 1);
  // Through a library function that the compiler does not instrument: the page itself is closed.
  CHECK(has(emulation::fault_of([&] { std::copy_n(a.p, host.size(), host.data()); }), "the host"));
  CHECK(has(emulation::fault_of([&] { launch(s, 1, 32, shift, static_cast<int const*>(host.data()), a.p, 0); }), "read of host memory"));
  CHECK(has(emulation::fault_of([&] { cudaMemcpyAsync(a.p, host.data(), 64, cudaMemcpyHostToDevice, s); }), "not pinned"));
}

TEST_CASE("queued work runs late: a missing wait of the host or of a stream shows") {
  emulation::use({});
  line s, other;
  device_array<int> a{1, s};
  pinned_array<int> p{1}, q{1};
  p[0] = 7;
  q[0] = -1;
  cudaMemcpyAsync(a.p, p.p, sizeof(int), cudaMemcpyHostToDevice, s);
  cudaMemcpyAsync(q.p, a.p, sizeof(int), cudaMemcpyDeviceToHost, s);
  CHECK(q[0] == -1);  // nobody has waited
  cudaStreamSynchronize(s);
  CHECK(q[0] == 7);

  // The other stream reads before this one has written, unless an event orders them.
  cudaEvent_t e = nullptr;
  cudaEventCreateWithFlags(&e, cudaEventDisableTiming);
  for (bool const ordered : {false, true}) {
    p[0] = ordered ? 9 : 8;
    cudaMemcpyAsync(a.p, p.p, sizeof(int), cudaMemcpyHostToDevice, s);
    cudaEventRecord(e, s);
    if (ordered) cudaStreamWaitEvent(other, e);
    cudaMemcpyAsync(q.p, a.p, sizeof(int), cudaMemcpyDeviceToHost, other);
    cudaStreamSynchronize(other);
    CHECK(q[0] == (ordered ? 9 : 7));
    cudaStreamSynchronize(s);
    CHECK(cudaEventQuery(e) == cudaSuccess);
  }
  // A staging buffer used again too soon.
  p[0] = 1;
  cudaMemcpyAsync(a.p, p.p, sizeof(int), cudaMemcpyHostToDevice, s);
  p[0] = 2;
  cudaMemcpyAsync(q.p, a.p, sizeof(int), cudaMemcpyDeviceToHost, s);
  cudaStreamSynchronize(s);
  CHECK(q[0] == 2);
  cudaEventDestroy(e);

  CHECK(has(emulation::fault_of([&] { cudaMemsetAsync(a.p, 0, 4, nullptr); }), "default stream"));
}

TEST_CASE("host functions run in their stream's order, and without a device every call says so") {
  emulation::use({emulation::order::ascending, emulation::pace::random, 3, true, 1});
  {
    line s;
    std::vector<int> seen;
    pinned_array<int> p{1}, q{1};
    device_array<int> a{1, s};
    p[0] = 3;
    struct note {
      std::vector<int>* seen;
      int* q;
    } n{&seen, q.p};
    cudaMemcpyAsync(a.p, p.p, sizeof(int), cudaMemcpyHostToDevice, s);
    cudaMemcpyAsync(q.p, a.p, sizeof(int), cudaMemcpyDeviceToHost, s);
    cudaLaunchHostFunc(s, [](void* v) { static_cast<note*>(v)->seen->push_back(*static_cast<note*>(v)->q); }, &n);
    cudaStreamSynchronize(s);
    CHECK(seen == std::vector<int>{3});
    CHECK(emulation::count().pending == 0);
  }
  emulation::use({emulation::order::ascending, emulation::pace::lazy, 1, true, 0});
  int count = -1;
  CHECK(cudaGetDeviceCount(&count) == cudaErrorNoDevice);
  CHECK(count == 0);
  emulation::use({});
}
