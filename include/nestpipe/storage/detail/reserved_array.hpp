#pragma once
/// @file
/// An array whose address space is reserved at once and whose memory is used as it fills: growing copies nothing.

#include <nestpipe/core/huge_memory.hpp>

#include <string>
#include <type_traits>

namespace nestpipe::storage::detail {

/// Elements are zero bytes until written.
template <class T>
class reserved_array {
  static_assert(std::is_trivially_copyable_v<T>);

 public:
  void reserve(std::uint64_t n, std::string const& purpose) {
    if (n <= room_) return;
    huge_memory larger{n * sizeof(T), purpose};
    if (size_ != 0) std::memcpy(static_cast<void*>(larger.data()), memory_.data(), size_ * sizeof(T));
    memory_ = std::move(larger);
    room_ = n;
  }
  /// Within what is reserved.
  void push_back(T const& value) { data()[size_++] = value; }

  T& operator[](std::uint64_t i) { return data()[i]; }
  T const& operator[](std::uint64_t i) const { return data()[i]; }
  std::uint64_t size() const { return size_; }
  std::uint64_t room() const { return room_; }

 private:
  T* data() const { return reinterpret_cast<T*>(memory_.data()); }

  huge_memory memory_;
  std::uint64_t size_ = 0, room_ = 0;
};

}  // namespace nestpipe::storage::detail
