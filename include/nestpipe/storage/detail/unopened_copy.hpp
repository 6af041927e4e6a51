#pragma once
/// @file
/// What an open store holds is moved but not copied: a copy of a policy is a fresh description.

#include <utility>

namespace nestpipe::storage::detail {

/// Wraps the opened part of a store. Copying gives an empty one; moving takes it along.
template <class T>
struct unopened_copy {
  T value{};

  unopened_copy() = default;
  unopened_copy(unopened_copy const&) {}
  unopened_copy(unopened_copy&&) = default;
  unopened_copy& operator=(unopened_copy const& other) {
    if (this != &other) value = T{};
    return *this;
  }
  unopened_copy& operator=(unopened_copy&&) = default;
  ~unopened_copy() = default;

  T* operator->() { return &value; }
  T const* operator->() const { return &value; }
};

}  // namespace nestpipe::storage::detail
