#pragma once
/// @file
/// Dot products between all pairs of a sample's vectors (Naumov et al. 2019), and their gradients. Loops run along the
/// fast axis without reductions, so each dot product is one ascending sum.

#include <nestpipe/math/pack.hpp>

#include <algorithm>

namespace nestpipe::model {

/// Pairs (i, j), j < i, of `count` vectors of `dim`, in the order (1,0), (2,0), (2,1), (3,0), ...
template <class Scalar>
class pair_interaction {
 public:
  pair_interaction() = default;
  pair_interaction(std::size_t count, std::size_t dim) : count_{count}, dim_{dim} {}

  std::size_t pairs() const { return count_ * (count_ - (count_ > 0 ? 1 : 0)) / 2; }
  /// Scratch for one sample in forward and backward.
  std::size_t scratch_size() const { return std::max(dim_ * padded(count_), count_ * count_ + count_ * padded(dim_)); }

  /// @param vectors (count, dim) contiguous  @param out (pairs)
  void forward(Scalar const* vectors, Scalar* scratch, Scalar* out) const {
    std::size_t const width = padded(count_);
    for (std::size_t k = 0; k < dim_; ++k) {  // transposed
      for (std::size_t i = 0; i < count_; ++i) scratch[k * width + i] = vectors[i * dim_ + k];
      std::fill_n(scratch + k * width + count_, width - count_, Scalar{0});
    }
    std::size_t const all = pairs();
    for (std::size_t i = 1; i < count_; i += rows) {
      std::size_t const n = std::min(rows, count_ - i);
      // Strips from the last to the first, rows ascending: whole strips are stored, and what reaches over a row's end is
      // overwritten by what comes later.
      for (std::size_t j = (i + n - 2) / pack::size * pack::size + pack::size; j > 0;) {
        j -= pack::size;
        pack sums[rows];
        products(n, dim_, vectors + i * dim_, dim_, scratch + j, width, sums);
        for (std::size_t r = 0; r < n; ++r) {
          std::size_t const at = (i + r) * (i + r - 1) / 2 + j;
          if (j >= i + r) continue;
          if (at + pack::size <= all) {
            sums[r].store(out + at);
          } else {
            sums[r].store(out + at, std::min(pack::size, i + r - j));
          }
        }
      }
    }
  }

  /// @param d_out (pairs)  @param d_vectors (count, dim), overwritten
  void backward(Scalar const* vectors, Scalar const* d_out, Scalar* scratch, Scalar* d_vectors) const {
    Scalar* const d_pairs = scratch;  // the symmetric matrix of pair gradients, diagonal 0
    for (std::size_t i = 0; i < count_; ++i) {
      d_pairs[i * count_ + i] = Scalar{0};
      for (std::size_t j = 0; j < i; ++j) {
        d_pairs[i * count_ + j] = *d_out;
        d_pairs[j * count_ + i] = *d_out++;
      }
    }
    std::size_t const width = padded(dim_);
    Scalar const* wide = vectors;
    if (width != dim_) {  // rows padded
      Scalar* const copy = scratch + count_ * count_;
      for (std::size_t i = 0; i < count_; ++i) {
        std::copy_n(vectors + i * dim_, dim_, copy + i * width);
        std::fill_n(copy + i * width + dim_, width - dim_, Scalar{0});
      }
      wide = copy;
    }
    for (std::size_t i = 0; i < count_; i += rows) {
      std::size_t const n = std::min(rows, count_ - i);
      for (std::size_t k = 0; k < dim_; k += pack::size) {
        pack sums[rows];
        products(n, count_, d_pairs + i * count_, count_, wide + k, width, sums);
        for (std::size_t r = 0; r < n; ++r) {
          Scalar* const to = d_vectors + (i + r) * dim_ + k;
          if (k + pack::size <= dim_) {
            sums[r].store(to);
          } else {
            sums[r].store(to, dim_ - k);
          }
        }
      }
    }
  }

 private:
  using pack = math::pack<Scalar>;
  static constexpr std::size_t rows = 8;  // at once: one sum alone would wait for itself at every term
  static std::size_t padded(std::size_t n) { return (n + pack::size - 1) / pack::size * pack::size; }

  /// sums[r] = row r (terms), rows ld_rows apart, times one strip of a matrix whose rows are ld apart, r < n.
  static void products(std::size_t n, std::size_t terms, Scalar const* row, std::size_t ld_rows, Scalar const* strip, std::size_t ld, pack (&sums)[rows]) {
    if (n == rows) {
      product<rows>(terms, row, ld_rows, strip, ld, sums);
      return;
    }
    std::size_t r = 0;
    for (; r + 2 <= n; r += 2) product<2>(terms, row + r * ld_rows, ld_rows, strip, ld, sums + r);
    if (r < n) product<1>(terms, row + r * ld_rows, ld_rows, strip, ld, sums + r);
  }
  template <std::size_t N>
  static void product(std::size_t terms, Scalar const* row, std::size_t ld_rows, Scalar const* strip, std::size_t ld, pack* out) {
    pack sums[N];
    for (std::size_t t = 0; t < terms; ++t) {
      pack next;
      next.load(strip + t * ld);
      for (std::size_t r = 0; r < N; ++r) sums[r].add_product(row[r * ld_rows + t], next);
    }
    for (std::size_t r = 0; r < N; ++r) out[r] = sums[r];
  }

  std::size_t count_ = 0;
  std::size_t dim_ = 0;
};

}  // namespace nestpipe::model
