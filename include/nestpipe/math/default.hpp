#pragma once
/// @file
/// Completes `math::automatic` with the best backend this build has: oneDNN, else Eigen, else plain loops. The macros
/// NESTPIPE_WITH_ONEDNN and NESTPIPE_WITH_EIGEN (set by the CMake targets) must be the same in all files of a program.

#include <nestpipe/math/automatic.hpp>
#include <nestpipe/math/plain.hpp>

#if defined(NESTPIPE_WITH_ONEDNN)
#include <nestpipe/math/onednn.hpp>
#endif
#if defined(NESTPIPE_WITH_EIGEN)
#include <nestpipe/math/eigen.hpp>
#endif

#include <type_traits>

namespace nestpipe::math {

#if defined(NESTPIPE_WITH_EIGEN)
using default_double_backend = eigen;
#else
using default_double_backend = plain;
#endif

#if defined(NESTPIPE_WITH_ONEDNN)
using default_backend = onednn;
#else
using default_backend = default_double_backend;
#endif

struct automatic {
  static constexpr char const* name = default_backend::name;

  /// float goes to the best backend, double to the best that has it.
  template <class Scalar>
  static void gemm(bool transpose_a, bool transpose_b, std::size_t m, std::size_t n, std::size_t k, Scalar alpha,
                   Scalar const* a, std::size_t lda, Scalar const* b, std::size_t ldb, Scalar beta, Scalar* c,
                   std::size_t ldc) {
    using chosen = std::conditional_t<std::is_same_v<Scalar, float>, default_backend, default_double_backend>;
    chosen::template gemm<Scalar>(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
  }
};

}  // namespace nestpipe::math
