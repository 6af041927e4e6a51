#pragma once
/// @file
/// A register's worth of numbers, for inner loops that compilers vectorise at one level of optimisation and not at the next.

#include <nestpipe/core/config.hpp>

#include <cstring>

namespace nestpipe::math {

/// 64 bytes of Scalar with element-wise arithmetic (an extension of g++ and clang, on every processor). Each element is
/// computed as the scalar expression would be. Passed by reference only: by value, its calling convention depends on flags.
template <class Scalar>
struct pack {
  static constexpr std::size_t size = 64 / sizeof(Scalar);
  typedef Scalar values_type __attribute__((vector_size(64)));

  void load(Scalar const* from) { std::memcpy(&values, from, sizeof values); }
  void store(Scalar* to) const { std::memcpy(to, &values, sizeof values); }
  /// The first `count` elements.
  void store(Scalar* to, std::size_t count) const { std::memcpy(to, &values, count * sizeof(Scalar)); }
  /// this += x * other
  void add_product(Scalar x, pack const& other) { values += x * other.values; }

  values_type values{};
};

}  // namespace nestpipe::math
