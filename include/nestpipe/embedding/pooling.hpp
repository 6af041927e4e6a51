#pragma once
/// @file
/// Pooled look-up of one micro-batch, and its transpose: the gradient of each distinct key.

#include <nestpipe/core/schema.hpp>
#include <nestpipe/core/fixed_size.hpp>
#include <nestpipe/embedding/micro_route.hpp>

#include <array>
#include <algorithm>

namespace nestpipe::embedding {
namespace detail {

/// `Width` floats that add up terms in blocks of sum_block: in registers when the width is known to the compiler.
template <class Width>
class block_sum {
 public:
  /// @param scratch at least 2 * width floats, used only when the width is a run-time value
  block_sum(Width width, float* scratch) : width_{width} {
    if constexpr (!is_static) {
      total_ = scratch;
      block_ = scratch + width;
    } else {
      (void)scratch;
    }
  }

  /// Calls `add(block, k)` for k in [0, terms) so that each adds term k to `block` (width floats).
  template <class Add>
  float const* sum(std::size_t terms, Add add) {
    float* const total = data(total_);
    for (std::size_t i = 0; i < width_; ++i) total[i] = 0.0f;
    std::size_t const head = terms < sum_block ? terms : sum_block;
    for (std::size_t k = 0; k < head; ++k) add(total, k);
    for (std::size_t from = head; from < terms; from += sum_block) {
      float* const block = data(block_);
      for (std::size_t i = 0; i < width_; ++i) block[i] = 0.0f;
      std::size_t const to = from + sum_block < terms ? from + sum_block : terms;
      for (std::size_t k = from; k < to; ++k) add(block, k);
      for (std::size_t i = 0; i < width_; ++i) total[i] += block[i];
    }
    return total;
  }

 private:
  static constexpr bool is_static = !std::is_same_v<Width, std::size_t>;
  static constexpr std::size_t length() {
    if constexpr (is_static) return Width::value;
    return 1;
  }
  using storage = std::conditional_t<is_static, std::array<float, length()>, float*>;
  static float* data(storage& s) {
    if constexpr (is_static) {
      return s.data();
    } else {
      return s;
    }
  }

  Width width_;
  storage total_;
  storage block_;
};

inline constexpr std::size_t prefetch_distance = 16;

}  // namespace detail

/// Pools micro-batches; owns scratch only, so one pooler per concurrent micro-batch.
class pooler {
 public:
  /// Pooled features of one micro-batch, and rows of features with pooling none.
  /// @param landing  rows as they arrived (micro_route.floats)
  /// @param pooled   (samples, layout.pooled_width()), overwritten; an empty bag gives zeros
  /// @param rows     per feature with pooling none, in feature order: (bag total, dim), overwritten
  /// @complexity O(values * dim)
  void forward(embedding_layout const& layout, jagged const& ids, micro_route const& route, float const* landing, float* pooled,
               std::span<float* const> rows) {
    std::size_t sequence = 0;
    std::uint32_t const* const place = route.landing();
    where_.resize(ids.values.size());
    for (std::size_t p = 0; p < ids.values.size(); ++p) where_[p] = place[route.occurrence_entry[p]];
    for (std::size_t f = 0; f < layout.features().size(); ++f) {
      with_fixed_dim(layout.dim_of_feature(f), [&](auto dim) {
        switch (layout.features()[f].pooling) {
          case pooling::none: copy_rows(dim, ids, f, landing, rows[sequence++]); break;
          case pooling::sum_and_squares: pool_squares(dim, layout, ids, f, landing, pooled); break;
          default: pool(dim, layout, ids, f, landing, pooled);
        }
      });
    }
  }

  /// Gradient of each distinct (table, key) of the micro-batch: the sum over its occurrences in value order, in blocks.
  /// @param d_pooled  (samples, layout.pooled_width())
  /// @param d_rows    as `rows` of forward
  /// @param out       (micro_route.floats) laid out as the rows arrived, overwritten
  void backward(embedding_layout const& layout, jagged const& ids, micro_route const& route, float const* landing, float const* d_pooled,
                std::span<float const* const> d_rows, float* out) {
    prepare_features(layout, ids, d_rows);
    std::size_t const ld = layout.pooled_width();
    std::uint32_t const* const place = route.landing();
    for (std::size_t t = 0; t + 1 < route.table_entry.size(); ++t) {
      with_fixed_dim(layout.tables()[t].dim, [&](auto dim) {
        scratch_.resize(2 * dim);
        detail::block_sum<decltype(dim)> sum{dim, scratch_.data()};
        for (std::size_t e = route.table_entry[t]; e < route.table_entry[t + 1]; ++e) {
          occurrence const* const use = route.uses.data() + route.entry_start[e];
          std::size_t const uses = route.entry_start[e + 1] - route.entry_start[e];
          float const* const v = landing + place[e];
          float const* const g = sum.sum(uses, [&](float* acc, std::size_t k) { add_use(dim, ids, use[k], d_pooled, ld, v, acc); });
          float* const target = out + route.entry_offset[e];
          for (std::size_t i = 0; i < dim; ++i) target[i] = g[i];
        }
      });
    }
  }

 private:
  struct feature_plan {
    enum pooling pooling;
    std::size_t column;
    std::size_t first_value;
    float const* d_rows;
  };

  static float weight(jagged const& ids, std::size_t p) { return ids.weights.empty() ? 1.0f : ids.weights[p]; }

  // What one value contributes to a mean; the same expression forward and backward.
  static float scale(enum pooling kind, jagged const& ids, std::size_t bag, std::size_t p) {
    float const w = weight(ids, p);
    if (kind != pooling::mean) return w;
    return w * (1.0f / static_cast<float>(ids.offsets[bag + 1] - ids.offsets[bag]));
  }

  void prefetch(float const* landing, std::size_t p) const {
    if (p + detail::prefetch_distance < where_.size()) __builtin_prefetch(landing + where_[p + detail::prefetch_distance]);
  }

  template <class Dim>
  void pool(Dim dim, embedding_layout const& layout, jagged const& ids, std::size_t f, float const* landing, float* pooled) {
    scratch_.resize(2 * dim);
    detail::block_sum<Dim> sum{dim, scratch_.data()};
    enum pooling const kind = layout.features()[f].pooling;
    bool const plain = ids.weights.empty() && kind == pooling::sum;
    for (std::size_t i = 0; i < ids.samples; ++i) {
      std::size_t const bag = f * ids.samples + i;
      std::size_t const first = ids.offsets[bag];
      float const* const total = sum.sum(ids.offsets[bag + 1] - first, [&](float* acc, std::size_t k) {
        prefetch(landing, first + k);
        float const* const row = landing + where_[first + k];
        if (plain) {
          for (std::size_t c = 0; c < dim; ++c) acc[c] += row[c];
        } else {
          float const s = scale(kind, ids, bag, first + k);
          for (std::size_t c = 0; c < dim; ++c) acc[c] += s * row[c];
        }
      });
      float* const out = pooled + i * layout.pooled_width() + layout.column(f);
      for (std::size_t c = 0; c < dim; ++c) out[c] = total[c];
    }
  }

  template <class Dim>
  void pool_squares(Dim dim, embedding_layout const& layout, jagged const& ids, std::size_t f, float const* landing, float* pooled) {
    scratch_.resize(4 * dim);
    detail::block_sum<Dim> sums{dim, scratch_.data()};
    detail::block_sum<Dim> squares{dim, scratch_.data() + 2 * dim};
    for (std::size_t i = 0; i < ids.samples; ++i) {
      std::size_t const bag = f * ids.samples + i;
      std::size_t const first = ids.offsets[bag];
      std::size_t const terms = ids.offsets[bag + 1] - first;
      float const* const total = sums.sum(terms, [&](float* acc, std::size_t k) {
        prefetch(landing, first + k);
        float const w = weight(ids, first + k);
        float const* const row = landing + where_[first + k];
        for (std::size_t c = 0; c < dim; ++c) acc[c] += w * row[c];
      });
      float* const out = pooled + i * layout.pooled_width() + layout.column(f);
      for (std::size_t c = 0; c < dim; ++c) out[c] = total[c];
      float const* const square = squares.sum(terms, [&](float* acc, std::size_t k) {
        float const w = weight(ids, first + k);
        float const* const row = landing + where_[first + k];
        for (std::size_t c = 0; c < dim; ++c) {
          float const x = w * row[c];
          acc[c] += x * x;
        }
      });
      for (std::size_t c = 0; c < dim; ++c) out[dim + c] = square[c];
    }
  }

  template <class Dim>
  void copy_rows(Dim dim, jagged const& ids, std::size_t f, float const* landing, float* rows) {
    std::size_t const end = ids.offsets[(f + 1) * ids.samples];
    for (std::size_t p = ids.offsets[f * ids.samples]; p < end; ++p) {
      float const* const row = landing + where_[p];
      for (std::size_t c = 0; c < dim; ++c) rows[c] = row[c];
      rows += dim;
    }
  }

  void prepare_features(embedding_layout const& layout, jagged const& ids, std::span<float const* const> d_rows) {
    plans_.clear();
    std::size_t sequence = 0;
    for (std::size_t f = 0; f < layout.features().size(); ++f) {
      bool const none = layout.features()[f].pooling == pooling::none;
      plans_.push_back({layout.features()[f].pooling, layout.column(f), ids.offsets[f * ids.samples], none ? d_rows[sequence++] : nullptr});
    }
  }

  template <class Dim>
  void add_use(Dim dim, jagged const& ids, occurrence const& use, float const* d_pooled, std::size_t ld, float const* v, float* acc) const {
    feature_plan const& plan = plans_[use.feature];
    if (plan.pooling == pooling::none) {
      float const* const d = plan.d_rows + (use.position - plan.first_value) * dim;
      for (std::size_t c = 0; c < dim; ++c) acc[c] += d[c];
      return;
    }
    float const* const d = d_pooled + use.sample * ld + plan.column;
    if (plan.pooling == pooling::sum_and_squares) {
      float const w = weight(ids, use.position);
      float const twice = 2.0f * (w * w);
      for (std::size_t c = 0; c < dim; ++c) acc[c] += w * d[c] + twice * v[c] * d[dim + c];
      return;
    }
    float const s = scale(plan.pooling, ids, use.feature * ids.samples + use.sample, use.position);
    for (std::size_t c = 0; c < dim; ++c) acc[c] += s * d[c];
  }

  exec::buffer<std::uint32_t> where_;  // per value: place of its row in the landing buffer
  exec::buffer<float> scratch_;
  std::vector<feature_plan> plans_;
};

}  // namespace nestpipe::embedding
