#pragma once
/// @file
/// The factorisation machine as a building block: Rendle, "Factorization Machines" (ICDM 2010), equations 1 and 5.

#include <nestpipe/math/layers.hpp>
#include <nestpipe/math/scratch.hpp>
#include <nestpipe/model/model.hpp>

#include <algorithm>

namespace nestpipe::model {

/// Over features pooled as sum_and_squares whose rows are [w (labels) | v (labels, dim)]: label l has a machine of its own,
/// z_l = sum w_l + 1/2 (|sum v_l|^2 - sum |v_l|^2), where the sums run over all ids of the sample, so every pair of ids
/// counts, inside a bag too.
template <class Scalar>
class factorization {
 public:
  struct workspace {
    math::scratch<Scalar> sums;  ///< (n, labels * dim): the sum of all v
  };

  factorization() = default;

  /// @throws config_error naming the first feature that does not fit
  factorization(std::string const& model, embedding_layout const& layout, std::size_t labels) : labels_{labels} {
    features_ = layout.features().size();
    require(features_ > 0, model + " needs at least one categorical feature", {}, "use another model for dense columns alone");
    row_ = layout.dim_of_feature(0);
    for (std::size_t f = 0; f < features_; ++f) {
      std::string const where = "feature " + layout.features()[f].name + ", table " + layout.features()[f].table;
      require(layout.features()[f].pooling == pooling::sum_and_squares, model + " needs pooling sum_and_squares", where, "change the feature's pooling");
      std::size_t const dim = layout.dim_of_feature(f);
      require(dim == row_, model + " needs one dim for all tables: expected " + std::to_string(row_) + " as in the first feature, got " + std::to_string(dim), where,
              "give all tables the same dim");
      require(dim > labels && dim % labels == 0, model + " needs rows of (1 + dim) floats a label, got " + std::to_string(dim) + " floats for " + std::to_string(labels) + " labels",
              where, "take the dim from request()");
    }
    factors_ = row_ - labels;
    width_ = layout.pooled_width();
  }

  /// Row width and first values for factors of `dim`: weights at zero, factors normal.
  static embedding_request request(std::size_t dim, std::size_t labels, float scale) {
    return {labels * (1 + dim), {row_init::kind::normal, scale, static_cast<std::uint32_t>(labels)}, pooling::sum_and_squares};
  }

  std::size_t features() const { return features_; }
  /// Floats of all factors of a row: labels * dim.
  std::size_t factors() const { return factors_; }
  /// Column of feature f's summed factors in the pooled matrix.
  std::size_t factor_column(std::size_t f) const { return 2 * row_ * f + labels_; }

  /// logits (n, labels) += z
  void forward(model_batch<Scalar> const& batch, workspace& ws, Scalar* logits) const {
    Scalar* const all = ws.sums.reserve(batch.samples * factors_ + 2 * row_ + row_);
    Scalar* const total = all + batch.samples * factors_;  // weights, then factors; behind it their block, then the squares
    Scalar* const part = total + row_;
    Scalar* const squares = part + row_;
    std::size_t const dim = factors_ / labels_;
    for (std::size_t i = 0; i < batch.samples; ++i) {
      Scalar const* const row = batch.pooled + i * width_;
      add_up(row, total, part);
      add_up(row + row_, squares, part);
      for (std::size_t l = 0; l < labels_; ++l) {
        Scalar pairs = 0;
        for (std::size_t k = labels_ + l * dim; k < labels_ + (l + 1) * dim; ++k) pairs += total[k] * total[k] - squares[k];
        logits[i * labels_ + l] += total[l] + Scalar{0.5} * pairs;
      }
      std::copy_n(total + labels_, factors_, all + i * factors_);
    }
  }

  /// Overwrites all of d_pooled. d_logits (n, labels).
  void backward(std::size_t n, workspace const& ws, Scalar const* d_logits, Scalar* d_pooled) const {
    std::size_t const dim = factors_ / labels_;
    for (std::size_t i = 0; i < n; ++i) {
      Scalar const* const sums = ws.sums.data() + i * factors_;
      Scalar const* const g = d_logits + i * labels_;
      for (std::size_t f = 0; f < features_; ++f) {
        Scalar* const d = d_pooled + i * width_ + 2 * row_ * f;
        std::copy_n(g, labels_, d);
        std::fill_n(d + row_, labels_, Scalar{0});
        for (std::size_t l = 0; l < labels_; ++l) {
          Scalar* const d_sum = d + labels_ + l * dim;
          for (std::size_t k = 0; k < dim; ++k) {
            d_sum[k] = g[l] * sums[l * dim + k];
            d_sum[row_ + k] = Scalar{-0.5} * g[l];
          }
        }
      }
    }
  }

 private:
  /// total (row) = sum over features, in blocks of sum_block.
  void add_up(Scalar const* columns, Scalar* total, Scalar* part) const {
    std::fill_n(total, row_, Scalar{0});
    for (std::size_t f0 = 0; f0 < features_; f0 += sum_block) {
      std::fill_n(part, row_, Scalar{0});
      for (std::size_t f = f0; f < std::min(features_, f0 + sum_block); ++f)
        for (std::size_t k = 0; k < row_; ++k) part[k] += columns[2 * row_ * f + k];
      for (std::size_t k = 0; k < row_; ++k) total[k] += part[k];
    }
  }

  std::size_t labels_ = 1, features_ = 0, row_ = 0, factors_ = 0, width_ = 0;
};

}  // namespace nestpipe::model
