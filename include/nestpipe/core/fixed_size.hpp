#pragma once
/// @file
/// A size known at compile time, passed like a number; std::integral_constant cannot be converted in device code.

#include <nestpipe/core/config.hpp>

namespace nestpipe {

template <std::size_t N>
struct fixed_size {
  static constexpr std::size_t value = N;
  NESTPIPE_HOST_DEVICE constexpr operator std::size_t() const { return N; }  // NOLINT: implicit, it stands for a number
};

/// Calls `f` with `n` as a compile-time constant where it is a usual row width (an embedding, alone or with one
/// or two floats of state or with as many), else with `n` itself.
template <class F>
decltype(auto) with_fixed_size(std::size_t n, F&& f) {
  switch (n) {
#define NESTPIPE_FIXED_SIZE(w) \
  case w:                 \
    return f(fixed_size<w>{})
    NESTPIPE_FIXED_SIZE(1);
    NESTPIPE_FIXED_SIZE(2);
    NESTPIPE_FIXED_SIZE(3);
    NESTPIPE_FIXED_SIZE(4);
    NESTPIPE_FIXED_SIZE(8);
    NESTPIPE_FIXED_SIZE(9);
    NESTPIPE_FIXED_SIZE(16);
    NESTPIPE_FIXED_SIZE(17);
    NESTPIPE_FIXED_SIZE(18);
    NESTPIPE_FIXED_SIZE(32);
    NESTPIPE_FIXED_SIZE(33);
    NESTPIPE_FIXED_SIZE(34);
    NESTPIPE_FIXED_SIZE(48);
    NESTPIPE_FIXED_SIZE(64);
    NESTPIPE_FIXED_SIZE(65);
    NESTPIPE_FIXED_SIZE(96);
    NESTPIPE_FIXED_SIZE(128);
    NESTPIPE_FIXED_SIZE(129);
#undef NESTPIPE_FIXED_SIZE
    default:
      return f(n);
  }
}

/// The same for embedding dims, where fewer widths are usual: less code where the loop body is large.
template <class F>
decltype(auto) with_fixed_dim(std::size_t dim, F&& f) {
  switch (dim) {
    case 1: return f(fixed_size<1>{});
    case 8: return f(fixed_size<8>{});
    case 9: return f(fixed_size<9>{});
    case 16: return f(fixed_size<16>{});
    case 17: return f(fixed_size<17>{});
    case 32: return f(fixed_size<32>{});
    case 64: return f(fixed_size<64>{});
    case 128: return f(fixed_size<128>{});
    default: return f(dim);
  }
}

/// The same for code that is seldom used: few widths, or every program would be longer to compile.
template <class F>
decltype(auto) with_common_dim(std::size_t dim, F&& f) {
  switch (dim) {
    case 9: return f(fixed_size<9>{});
    case 16: return f(fixed_size<16>{});
    case 17: return f(fixed_size<17>{});
    case 64: return f(fixed_size<64>{});
    default: return f(dim);
  }
}

}  // namespace nestpipe
