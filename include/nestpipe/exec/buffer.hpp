#pragma once
/// @file
/// A growing array without initialisation: sized anew every step, allocated only while it still grows.

#include <nestpipe/core/huge_memory.hpp>
#include <nestpipe/exec/space.hpp>

#include <cstring>
#include <span>
#include <type_traits>
#include <utility>

namespace nestpipe::exec {

template <class T, class Space = host>
class buffer;

/// Host buffer of trivially copyable elements, base aligned to 64 bytes.
template <class T>
class buffer<T, host> {
  static_assert(std::is_trivially_copyable_v<T>, "buffer elements are moved as bytes");

 public:
  buffer() = default;
  explicit buffer(std::size_t n) { resize(n); }
  buffer(buffer&& other) noexcept
      : memory_{std::move(other.memory_)}, size_{std::exchange(other.size_, 0)}, capacity_{std::exchange(other.capacity_, 0)} {}
  buffer& operator=(buffer&& other) noexcept {
    memory_ = std::move(other.memory_);
    size_ = std::exchange(other.size_, 0);
    capacity_ = std::exchange(other.capacity_, 0);
    return *this;
  }

  /// Sets the number of elements. Old contents are lost when the buffer has to grow (by half at least).
  void resize(std::size_t n) {
    if (n > capacity_) {
      std::size_t const grown = n > capacity_ + capacity_ / 2 ? n : capacity_ + capacity_ / 2;
      memory_ = huge_memory{};
      capacity_ = 0;
      memory_ = huge_memory{grown * sizeof(T)};
      capacity_ = grown;
    }
    size_ = n;
  }
  /// As resize, and sets every byte to zero.
  void assign_zero(std::size_t n) {
    resize(n);
    if (n != 0) std::memset(memory_.data(), 0, n * sizeof(T));
  }

  T* data() { return reinterpret_cast<T*>(memory_.data()); }
  T const* data() const { return reinterpret_cast<T const*>(memory_.data()); }
  std::size_t size() const { return size_; }
  std::size_t capacity() const { return capacity_; }
  T& operator[](std::size_t i) { return data()[i]; }
  T const& operator[](std::size_t i) const { return data()[i]; }
  std::span<T> span() { return {data(), size_}; }
  std::span<T const> span() const { return {data(), size_}; }

 private:
  huge_memory memory_;
  std::size_t size_ = 0;
  std::size_t capacity_ = 0;
};

}  // namespace nestpipe::exec
