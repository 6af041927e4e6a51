#pragma once
/// @file
/// What a math backend is: a stateless type with a row-major matrix product that runs on the calling thread only.
///
/// | requirement on B | meaning |
/// |---|---|
/// | `B::template gemm<Scalar>(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc)` | C = alpha op(A) op(B) + beta C |
/// | `B::name` | text for reports |
///
/// op(A) is (m, k), op(B) is (k, n), C is (m, n); ld* is the distance between stored rows in elements. With beta 0, C is
/// written and never read. B must also: give the same bits whenever it gets the same sizes and values in buffers of the
/// library's alignment, use one thread, and be callable from several threads at once.

#include <nestpipe/core/config.hpp>

#include <concepts>

namespace nestpipe::math {

template <class B, class Scalar>
concept backend = requires(Scalar const* in, Scalar* out, Scalar s, std::size_t n, bool t) {
  B::template gemm<Scalar>(t, t, n, n, n, s, in, n, in, n, s, out, n);
  { B::name } -> std::convertible_to<char const*>;
};

/// C = alpha op(A) op(B) + beta C through backend `Math`; any of m, n, k may be 0. O(m n k).
template <class Math, class Scalar>
void gemm(bool transpose_a, bool transpose_b, std::size_t m, std::size_t n, std::size_t k, Scalar alpha, Scalar const* a,
          std::size_t lda, Scalar const* b, std::size_t ldb, Scalar beta, Scalar* c, std::size_t ldc) {
  constexpr bool complete = requires { sizeof(Math); };
  static_assert(complete,
                "nestpipe: this model multiplies matrices with math::automatic: include <nestpipe/math/default.hpp>, or name "
                "a backend, as in model::dlrm<float, math::plain>");
  if constexpr (complete) {
    if (m == 0 || n == 0) return;
    if (k == 0) {  // libraries differ in what they do here
      for (std::size_t i = 0; i < m; ++i)
        for (std::size_t j = 0; j < n; ++j) c[i * ldc + j] = beta == Scalar{0} ? Scalar{0} : beta * c[i * ldc + j];
      return;
    }
    Math::template gemm<Scalar>(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  }
}

}  // namespace nestpipe::math
