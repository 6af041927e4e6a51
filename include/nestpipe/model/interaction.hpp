#pragma once
/// @file
/// Dot products between all pairs of a sample's vectors (Naumov et al. 2019), and their gradients. Loops run along the
/// fast axis without reductions, so each dot product is one ascending sum.

#include <nestpipe/math/scratch.hpp>

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
  std::size_t scratch_size() const { return count_ * std::max(dim_, count_); }

  /// @param vectors (count, dim) contiguous  @param out (pairs)
  void forward(Scalar const* vectors, Scalar* scratch, Scalar* out) const {
    for (std::size_t i = 0; i < count_; ++i)
      for (std::size_t k = 0; k < dim_; ++k) scratch[k * count_ + i] = vectors[i * dim_ + k];
    for (std::size_t i = 1; i < count_; ++i) {
      std::fill_n(out, i, Scalar{0});
      for (std::size_t k = 0; k < dim_; ++k) {
        Scalar const x = vectors[i * dim_ + k];
        Scalar const* const column = scratch + k * count_;
        for (std::size_t j = 0; j < i; ++j) out[j] += x * column[j];
      }
      out += i;
    }
  }

  /// @param d_out (pairs)  @param d_vectors (count, dim), overwritten
  void backward(Scalar const* vectors, Scalar const* d_out, Scalar* scratch, Scalar* d_vectors) const {
    for (std::size_t i = 0; i < count_; ++i) {  // the symmetric matrix of pair gradients, diagonal 0
      scratch[i * count_ + i] = Scalar{0};
      for (std::size_t j = 0; j < i; ++j) {
        scratch[i * count_ + j] = *d_out;
        scratch[j * count_ + i] = *d_out++;
      }
    }
    std::size_t k = 0;
    for (; k + strip <= dim_; k += strip) columns<strip>(strip, vectors + k, scratch, d_vectors + k);
    if (k < dim_) columns<0>(dim_ - k, vectors + k, scratch, d_vectors + k);
  }

 private:
  static constexpr std::size_t strip = 16;

  /// d_vectors[., columns] = scratch vectors[., columns]. @tparam Width columns if known, else 0
  template <std::size_t Width>
  void columns(std::size_t width, Scalar const* vectors, Scalar const* scratch, Scalar* d_vectors) const {
    if constexpr (Width != 0) width = Width;
    for (std::size_t i = 0; i < count_; ++i) {
      Scalar sum[strip] = {};
      for (std::size_t j = 0; j < count_; ++j) {
        Scalar const x = scratch[i * count_ + j];
        for (std::size_t k = 0; k < width; ++k) sum[k] += x * vectors[j * dim_ + k];
      }
      std::copy_n(sum, width, d_vectors + i * dim_);
    }
  }

  std::size_t count_ = 0;
  std::size_t dim_ = 0;
};

}  // namespace nestpipe::model
