#pragma once
/// @file
/// The local micro-batches' dense gradients, side by side.

#include <nestpipe/exec/buffer.hpp>

#include <cstddef>
#include <span>

namespace nestpipe::reduction::detail {

/// `count` arrays of `length` floats, each 64-byte aligned. A copy is empty: reductions are copied before they are opened.
class leaves {
 public:
  leaves() = default;
  leaves(leaves const&) noexcept {}
  leaves(leaves&&) noexcept = default;
  leaves& operator=(leaves const& other) noexcept {
    if (this != &other) *this = leaves{};
    return *this;
  }
  leaves& operator=(leaves&&) noexcept = default;
  ~leaves() = default;

  void open(std::size_t count, std::size_t length) {
    length_ = length;
    stride_ = (length + 15) / 16 * 16;
    memory_.assign_zero(count * stride_);
  }
  std::span<float> operator[](std::size_t i) { return memory_.span().subspan(i * stride_, length_); }
  std::span<float const> operator[](std::size_t i) const { return memory_.span().subspan(i * stride_, length_); }

 private:
  exec::buffer<float> memory_;
  std::size_t length_ = 0;
  std::size_t stride_ = 0;
};

/// to[i] += from[i]
inline void add(float* to, float const* from, std::size_t n) {
  for (std::size_t i = 0; i < n; ++i) to[i] += from[i];
}

}  // namespace nestpipe::reduction::detail
