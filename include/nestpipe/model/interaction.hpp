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
    for (std::size_t i = 1; i < count_; ++i)
      for (std::size_t j = 0; j < i; j += pack::size) {
        std::size_t const columns = std::min(pack::size, i - j);
        product(dim_, vectors + i * dim_, scratch + j, width, columns, out);
        out += columns;
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
    Scalar* const wide = scratch + count_ * count_;  // the vectors, rows padded
    for (std::size_t i = 0; i < count_; ++i) {
      std::copy_n(vectors + i * dim_, dim_, wide + i * width);
      std::fill_n(wide + i * width + dim_, width - dim_, Scalar{0});
    }
    for (std::size_t i = 0; i < count_; ++i)
      for (std::size_t k = 0; k < dim_; k += pack::size)
        product(count_, d_pairs + i * count_, wide + k, width, std::min(pack::size, dim_ - k), d_vectors + i * dim_ + k);
  }

 private:
  using pack = math::pack<Scalar>;
  static std::size_t padded(std::size_t n) { return (n + pack::size - 1) / pack::size * pack::size; }

  /// out (columns) = row (terms) times one strip of a matrix whose rows are ld apart.
  static void product(std::size_t terms, Scalar const* row, Scalar const* strip, std::size_t ld, std::size_t columns, Scalar* out) {
    pack sum, next;
    for (std::size_t t = 0; t < terms; ++t) {
      next.load(strip + t * ld);
      sum.add_product(row[t], next);
    }
    sum.store(out, columns);
  }

  std::size_t count_ = 0;
  std::size_t dim_ = 0;
};

}  // namespace nestpipe::model
