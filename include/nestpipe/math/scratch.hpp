#pragma once
/// @file
/// Working memory of the dense layers: aligned, grows, never shrinks.

#include <nestpipe/core/config.hpp>

#include <memory>
#include <new>
#include <type_traits>

namespace nestpipe::math {

/// An uninitialised array aligned to `alignment_bytes`. Movable, not copyable.
template <class Scalar>
class scratch {
  static_assert(std::is_trivially_copyable_v<Scalar>);

 public:
  /// At least `count` elements; keeps the memory (not necessarily the values) of earlier calls. Allocates only when it
  /// must grow. @throws std::bad_alloc
  Scalar* reserve(std::size_t count) {
    if (count > capacity_) {
      memory_.reset();
      capacity_ = 0;
      memory_.reset(static_cast<Scalar*>(::operator new(count * sizeof(Scalar), std::align_val_t{alignment_bytes})));
      capacity_ = count;
    }
    return memory_.get();
  }
  Scalar* data() { return memory_.get(); }
  Scalar const* data() const { return memory_.get(); }
  std::size_t capacity() const { return capacity_; }

 private:
  struct release {
    void operator()(Scalar* p) const { ::operator delete(p, std::align_val_t{alignment_bytes}); }
  };
  std::unique_ptr<Scalar, release> memory_;
  std::size_t capacity_ = 0;
};

}  // namespace nestpipe::math
