#pragma once
/// @file
/// Turns common row widths into compile-time constants: a loop of fixed length is about twice as fast as one of run-time
/// length.

#include <cstddef>
#include <type_traits>

namespace nestpipe {

template <std::size_t N>
using static_dim = std::integral_constant<std::size_t, N>;

/// Calls `f(static_dim<N>{})` for common `dim`, else `f(dim)`. Same arithmetic either way.
template <class F>
decltype(auto) with_static_dim(std::size_t dim, F&& f) {
  switch (dim) {
    case 1: return f(static_dim<1>{});
    case 4: return f(static_dim<4>{});
    case 8: return f(static_dim<8>{});
    case 9: return f(static_dim<9>{});
    case 16: return f(static_dim<16>{});
    case 17: return f(static_dim<17>{});
    case 32: return f(static_dim<32>{});
    case 64: return f(static_dim<64>{});
    case 128: return f(static_dim<128>{});
    default: return f(dim);
  }
}

}  // namespace nestpipe
