#pragma once
/// @file
/// Device memory from the stream-ordered pool, and host memory that copies can use while the host goes on. As exec::buffer they
/// are sized anew every step and allocated only while they still grow.

#include <nestpipe/exec/buffer.hpp>
#include <nestpipe/exec/cuda/stream.cuh>

#include <span>

namespace nestpipe::exec {

/// Keeps freed device memory in the pool instead of returning it to the system at every wait. cuda_lanes do so where they start.
inline void keep_device_memory() {
  int const device = this_device();
  cudaMemPool_t pool = nullptr;
  NESTPIPE_CUDA_TRY(cudaDeviceGetDefaultMemPool(&pool, device));
  std::uint64_t all = ~std::uint64_t{0};
  NESTPIPE_CUDA_TRY(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &all));
}

/// Device buffer of trivially copyable elements, aligned to 256 bytes. It can be read by kernels and copies only. All that uses it
/// must be ordered, by events, before the stream on which it is resized next.
template <class T>
class buffer<T, cuda> {
  static_assert(std::is_trivially_copyable_v<T>, "buffer elements are moved as bytes");

 public:
  buffer() = default;
  buffer(std::size_t n, cudaStream_t stream) { resize(n, stream); }
  buffer(buffer&& other) noexcept
      : data_{std::exchange(other.data_, nullptr)}, size_{std::exchange(other.size_, 0)}, capacity_{std::exchange(other.capacity_, 0)} {}
  buffer& operator=(buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  /// Waits for the device: buffers live as long as the engine.
  ~buffer() {
    if (data_ != nullptr) (void)cudaFree(data_);
  }

  /// Sets the number of elements; usable on `stream` from here on. Old contents are lost when the buffer has to grow (by half at least).
  void resize(std::size_t n, cudaStream_t stream) {
    if (n > capacity_) {
      std::size_t const grown = n > capacity_ + capacity_ / 2 ? n : capacity_ + capacity_ / 2;
      if (data_ != nullptr) NESTPIPE_CUDA_TRY(cudaFreeAsync(data_, stream));
      data_ = nullptr;
      capacity_ = size_ = 0;
      NESTPIPE_CUDA_TRY(cudaMallocAsync(&data_, grown * sizeof(T), stream));
      capacity_ = grown;
    }
    size_ = n;
  }
  void resize(std::size_t n) { resize(n, this_stream()); }
  /// As resize, and sets every byte to zero.
  void assign_zero(std::size_t n, cudaStream_t stream) {
    resize(n, stream);
    if (n != 0) NESTPIPE_CUDA_TRY(cudaMemsetAsync(data_, 0, n * sizeof(T), stream));
  }

  T* data() { return data_; }
  T const* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

/// Page-locked host memory: asynchronous copies from and to it. Written by the host only when no queued copy reads it.
template <class T>
class pinned_buffer {
  static_assert(std::is_trivially_copyable_v<T>, "buffer elements are moved as bytes");

 public:
  pinned_buffer() = default;
  pinned_buffer(pinned_buffer&& other) noexcept
      : data_{std::exchange(other.data_, nullptr)}, size_{std::exchange(other.size_, 0)}, capacity_{std::exchange(other.capacity_, 0)} {}
  pinned_buffer& operator=(pinned_buffer&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(size_, other.size_);
    std::swap(capacity_, other.capacity_);
    return *this;
  }
  ~pinned_buffer() {
    if (data_ != nullptr) (void)cudaFreeHost(data_);
  }

  /// Sets the number of elements. Old contents are lost when the buffer has to grow; no copy may be using it then.
  void resize(std::size_t n) {
    if (n > capacity_) {
      std::size_t const grown = n > capacity_ + capacity_ / 2 ? n : capacity_ + capacity_ / 2;
      if (data_ != nullptr) NESTPIPE_CUDA_TRY(cudaFreeHost(data_));
      data_ = nullptr;
      capacity_ = size_ = 0;
      void* memory = nullptr;
      NESTPIPE_CUDA_TRY(cudaHostAlloc(&memory, grown * sizeof(T), cudaHostAllocDefault));
      data_ = static_cast<T*>(memory);
      capacity_ = grown;
    }
    size_ = n;
  }

  T* data() { return data_; }
  T const* data() const { return data_; }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }
  T& operator[](std::size_t i) { return data_[i]; }
  T const& operator[](std::size_t i) const { return data_[i]; }
  std::span<T> span() { return {data_, size_}; }
  std::span<T const> span() const { return {data_, size_}; }

 private:
  T* data_ = nullptr;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

/// Queues a copy of n elements; nothing when n is 0.
template <class T>
void copy_to_device(T* to, T const* pinned_from, std::size_t n, cudaStream_t stream) {
  if (n != 0) NESTPIPE_CUDA_TRY(cudaMemcpyAsync(to, pinned_from, n * sizeof(T), cudaMemcpyHostToDevice, stream));
}
template <class T>
void copy_to_host(T* pinned_to, T const* from, std::size_t n, cudaStream_t stream) {
  if (n != 0) NESTPIPE_CUDA_TRY(cudaMemcpyAsync(pinned_to, from, n * sizeof(T), cudaMemcpyDeviceToHost, stream));
}
template <class T>
void copy_on_device(T* to, T const* from, std::size_t n, cudaStream_t stream) {
  if (n != 0) NESTPIPE_CUDA_TRY(cudaMemcpyAsync(to, from, n * sizeof(T), cudaMemcpyDeviceToDevice, stream));
}

/// Ordinary host values on their way to the device: put aside in pinned memory, then copied, so that the source may change at once.
/// The pinned side is written again only when the copy before is done, for which `put` waits (long since true after warm-up).
template <class T>
class upload {
 public:
  /// Queues the copy of `values`; device() holds them for what follows on `stream`.
  void put(std::span<T const> values, cudaStream_t stream) {
    if (used_) copied_.synchronize();
    pinned_.resize(values.size());
    device_.resize(values.size(), stream);
    if (!values.empty()) std::memcpy(pinned_.data(), values.data(), values.size_bytes());
    copy_to_device(device_.data(), pinned_.data(), values.size(), stream);
    copied_.record(stream);
    used_ = true;
  }
  T const* device() const { return device_.data(); }
  std::size_t size() const { return device_.size(); }

 private:
  pinned_buffer<T> pinned_;
  buffer<T, cuda> device_;
  cuda_event copied_;
  bool used_ = false;
};

}  // namespace nestpipe::exec
