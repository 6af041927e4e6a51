#pragma once
/// @file
/// Matrix product of Eigen, in float and double. Build with the AVX of the machine: Eigen does not choose at run time.

#if !__has_include(<Eigen/Core>)
#error "nestpipe: <nestpipe/math/eigen.hpp> needs Eigen 3 (Debian: libeigen3-dev; CMake: link nestpipe::eigen)"
#endif

#if defined(EIGEN_HAS_OPENMP) && !defined(EIGEN_DONT_PARALLELIZE)
#error "nestpipe: include <nestpipe/math/eigen.hpp> before other Eigen headers, or define EIGEN_DONT_PARALLELIZE: a matrix product must use one thread"
#endif
#ifndef EIGEN_DONT_PARALLELIZE
#define EIGEN_DONT_PARALLELIZE
#endif
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wmaybe-uninitialized"  // g++ 12 warns about its own AVX-512 intrinsics in Eigen's kernels
#pragma GCC diagnostic ignored "-Wuninitialized"
#endif
#include <Eigen/Core>

#include <nestpipe/math/backend.hpp>

#include <type_traits>

namespace nestpipe::math {

/// Same bits for the same sizes, values and alignment; its sums do depend on alignment and on m, so buffers are aligned and
/// one call is one micro-batch.
struct eigen {
  static constexpr char const* name = "eigen";

  template <class Scalar>
  static void gemm(bool transpose_a, bool transpose_b, std::size_t m, std::size_t n, std::size_t k, Scalar alpha,
                   Scalar const* a, std::size_t lda, Scalar const* b, std::size_t ldb, Scalar beta, Scalar* c,
                   std::size_t ldc) {
    auto const left = view(a, transpose_a ? k : m, transpose_a ? m : k, lda);
    auto const right = view(b, transpose_b ? n : k, transpose_b ? k : n, ldb);
    auto out = view(c, m, n, ldc);
    if (beta == Scalar{0}) {
      out.setZero();
    } else if (beta != Scalar{1}) {
      out *= beta;
    }
    if (transpose_a) {
      if (transpose_b) {
        out.noalias() += alpha * left.transpose() * right.transpose();
      } else {
        out.noalias() += alpha * left.transpose() * right;
      }
    } else if (transpose_b) {
      out.noalias() += alpha * left * right.transpose();
    } else {
      out.noalias() += alpha * left * right;
    }
  }

 private:
  template <class Scalar>
  static auto view(Scalar* data, std::size_t rows, std::size_t cols, std::size_t ld) {
    using matrix = Eigen::Matrix<std::remove_const_t<Scalar>, Eigen::Dynamic, Eigen::Dynamic, Eigen::RowMajor>;
    using type = std::conditional_t<std::is_const_v<Scalar>, matrix const, matrix>;
    return Eigen::Map<type, Eigen::Unaligned, Eigen::OuterStride<>>{
        data, static_cast<Eigen::Index>(rows), static_cast<Eigen::Index>(cols), Eigen::OuterStride<>{static_cast<Eigen::Index>(ld)}};
  }
};

}  // namespace nestpipe::math

#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC diagnostic pop
#endif
