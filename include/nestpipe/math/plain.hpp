#pragma once
/// @file
/// Matrix product in portable loops: the fallback without libraries, and the reference in tests.

#include <nestpipe/math/backend.hpp>
#include <nestpipe/math/scratch.hpp>

namespace nestpipe::math {

/// Sums run over k in ascending order, so the bits depend neither on alignment nor on m or n.
struct plain {
  static constexpr char const* name = "plain";

  template <class Scalar>
  static void gemm(bool transpose_a, bool transpose_b, std::size_t m, std::size_t n, std::size_t k, Scalar alpha,
                   Scalar const* a, std::size_t lda, Scalar const* b, std::size_t ldb, Scalar beta, Scalar* c,
                   std::size_t ldc) {
    if (transpose_b) {  // the inner loop must run along rows of op(B)
      thread_local scratch<Scalar> packed;
      Scalar* const p = packed.reserve(n * k);
      for (std::size_t j = 0; j < n; ++j)
        for (std::size_t l = 0; l < k; ++l) p[l * n + j] = b[j * ldb + l];
      b = p;
      ldb = n;
    }
    std::size_t const row_step = transpose_a ? 1 : lda;
    std::size_t const column_step = transpose_a ? lda : 1;
    std::size_t const whole = m / rows * rows;
    std::size_t i = 0;
    for (; i < whole; i += rows) block<rows>(n, k, alpha, a + i * row_step, row_step, column_step, b, ldb, beta, c + i * ldc, ldc);
    for (; i < m; ++i) block<1>(n, k, alpha, a + i * row_step, row_step, column_step, b, ldb, beta, c + i * ldc, ldc);
  }

 private:
  static constexpr std::size_t rows = 4;
  static constexpr std::size_t columns = 32;

  /// `Rows` rows of C, in strips of columns that stay in registers.
  template <std::size_t Rows, class Scalar>
  static void block(std::size_t n, std::size_t k, Scalar alpha, Scalar const* a, std::size_t row_step,
                    std::size_t column_step, Scalar const* b, std::size_t ldb, Scalar beta, Scalar* c, std::size_t ldc) {
    std::size_t j = 0;
    for (; j + columns <= n; j += columns) {
      Scalar sum[Rows][columns] = {};
      for (std::size_t l = 0; l < k; ++l) {
        Scalar const* const b_row = b + l * ldb + j;
        for (std::size_t r = 0; r < Rows; ++r) {
          Scalar const x = a[r * row_step + l * column_step];
          for (std::size_t q = 0; q < columns; ++q) sum[r][q] += x * b_row[q];
        }
      }
      for (std::size_t r = 0; r < Rows; ++r) store(sum[r], columns, alpha, beta, c + r * ldc + j);
    }
    if (j == n) return;
    Scalar sum[Rows][columns] = {};
    for (std::size_t l = 0; l < k; ++l) {
      Scalar const* const b_row = b + l * ldb + j;
      for (std::size_t r = 0; r < Rows; ++r) {
        Scalar const x = a[r * row_step + l * column_step];
        for (std::size_t q = 0; q < n - j; ++q) sum[r][q] += x * b_row[q];
      }
    }
    for (std::size_t r = 0; r < Rows; ++r) store(sum[r], n - j, alpha, beta, c + r * ldc + j);
  }

  template <class Scalar>
  static void store(Scalar const* sum, std::size_t count, Scalar alpha, Scalar beta, Scalar* c) {
    for (std::size_t q = 0; q < count; ++q) c[q] = beta == Scalar{0} ? alpha * sum[q] : alpha * sum[q] + beta * c[q];
  }
};

}  // namespace nestpipe::math
