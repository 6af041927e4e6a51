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

/// Writes the sum of `terms` terms of `width` floats to `out`, in blocks of sum_block: in registers when the width is known to the
/// compiler. `add(sum, k)` adds term k to `sum` (width floats).
/// @param scratch at least 2 * width floats, used only when the width is a run-time value
template <class Width, class Add>
inline void sum_in_blocks(Width width, std::size_t terms, float* scratch, float* out, Add const& add) {
  auto const run = [&](float* total, float* block) {
    for (std::size_t i = 0; i < width; ++i) total[i] = 0.0f;
    std::size_t const head = terms < sum_block ? terms : sum_block;
    for (std::size_t k = 0; k < head; ++k) add(total, k);
    for (std::size_t from = head; from < terms; from += sum_block) {
      for (std::size_t i = 0; i < width; ++i) block[i] = 0.0f;
      std::size_t const to = from + sum_block < terms ? from + sum_block : terms;
      for (std::size_t k = from; k < to; ++k) add(block, k);
      for (std::size_t i = 0; i < width; ++i) total[i] += block[i];
    }
    for (std::size_t i = 0; i < width; ++i) out[i] = total[i];
  };
  if constexpr (std::is_same_v<Width, std::size_t>) {
    run(scratch, scratch + width);
  } else {
    float total[Width::value];
    float block[Width::value];
    run(total, block);
  }
}

/// Rows ahead of the sum for which prefetches are issued.
inline constexpr std::size_t prefetch_distance = 16;

/// All cache lines of `dim` floats, 512 bytes at most.
template <class Dim>
inline void prefetch_row(float const* row, Dim dim) {
  constexpr std::size_t line = alignment_bytes / sizeof(float);
  std::size_t const n = dim < 8 * line ? dim : 8 * line;
  for (std::size_t i = 0; i < n; i += line) __builtin_prefetch(row + i);
}

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
      std::size_t const dim_of = layout.dim_of_feature(f);
      switch (layout.features()[f].pooling) {
        case pooling::none:
          with_common_dim(dim_of, [&](auto dim) { copy_rows(dim, ids, f, landing, rows[sequence]); });
          ++sequence;
          break;
        case pooling::sum_and_squares: with_common_dim(dim_of, [&](auto dim) { pool_squares(dim, layout, ids, f, landing, pooled); }); break;
        default:
          if (ids.weights.empty() && layout.features()[f].pooling == pooling::sum) {
            with_fixed_dim(dim_of, [&](auto dim) { pool_plain(dim, layout, ids, f, landing, pooled); });
          } else {
            with_common_dim(dim_of, [&](auto dim) { pool_scaled(dim, layout, ids, f, landing, pooled); });
          }
      }
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
      std::size_t const dim_of = layout.tables()[t].dim;
      auto const features = layout.features_of(t);
      if (features.size() == 1 && layout.features()[features[0]].pooling == pooling::sum && ids.weights.empty()) {  // no factors
        float const* const column = d_pooled + layout.column(features[0]);
        with_fixed_dim(dim_of, [&](auto dim) {
          sum_uses(dim, route, t, out, [&](occurrence const& use) { return column + use.sample * ld; },
                   [&](occurrence const& use, std::size_t, float* acc) {
                     float const* const d = column + use.sample * ld;
                     for (std::size_t c = 0; c < dim; ++c) acc[c] += d[c];
                   });
        });
      } else {
        with_common_dim(dim_of, [&](auto dim) {
          sum_uses(dim, route, t, out, [&](occurrence const& use) { return gradient_of(dim, use, d_pooled, ld); },
                   [&](occurrence const& use, std::size_t e, float* acc) {
                     add_use(dim, ids, use, gradient_of(dim, use, d_pooled, ld), landing + place[e], acc);
                   });
        });
      }
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

  template <class Dim>
  void prefetch(Dim dim, float const* landing, std::size_t p) const {
    if (p + detail::prefetch_distance < where_.size()) detail::prefetch_row(landing + where_[p + detail::prefetch_distance], dim);
  }

  // A sum without weights.
  template <class Dim>
  void pool_plain(Dim dim, embedding_layout const& layout, jagged const& ids, std::size_t f, float const* landing, float* pooled) {
    pool_terms(dim, layout, ids, f, pooled, [&](std::size_t, float* acc, std::size_t p) {
      prefetch(dim, landing, p);
      float const* const row = landing + where_[p];
      for (std::size_t c = 0; c < dim; ++c) acc[c] += row[c];
    });
  }

  template <class Dim>
  void pool_scaled(Dim dim, embedding_layout const& layout, jagged const& ids, std::size_t f, float const* landing, float* pooled) {
    enum pooling const kind = layout.features()[f].pooling;
    pool_terms(dim, layout, ids, f, pooled, [&](std::size_t bag, float* acc, std::size_t p) {
      prefetch(dim, landing, p);
      float const* const row = landing + where_[p];
      float const s = scale(kind, ids, bag, p);
      for (std::size_t c = 0; c < dim; ++c) acc[c] += s * row[c];
    });
  }

  // Every bag of feature f: add(bag, sum, p) for its values p.
  template <class Dim, class Add>
  void pool_terms(Dim dim, embedding_layout const& layout, jagged const& ids, std::size_t f, float* pooled, Add const& add) {
    scratch_.resize(2 * dim);
    float* out = pooled + layout.column(f);
    for (std::size_t i = 0; i < ids.samples; ++i, out += layout.pooled_width()) {
      std::size_t const bag = f * ids.samples + i;
      std::size_t const first = ids.offsets[bag];
      detail::sum_in_blocks(dim, ids.offsets[bag + 1] - first, scratch_.data(), out,
                            [&](float* acc, std::size_t k) { add(bag, acc, first + k); });
    }
  }

  template <class Dim>
  void pool_squares(Dim dim, embedding_layout const& layout, jagged const& ids, std::size_t f, float const* landing, float* pooled) {
    scratch_.resize(2 * dim);
    float* out = pooled + layout.column(f);
    for (std::size_t i = 0; i < ids.samples; ++i, out += layout.pooled_width()) {
      std::size_t const bag = f * ids.samples + i;
      std::size_t const first = ids.offsets[bag];
      std::size_t const terms = ids.offsets[bag + 1] - first;
      detail::sum_in_blocks(dim, terms, scratch_.data(), out, [&](float* acc, std::size_t k) {
        prefetch(dim, landing, first + k);
        float const w = weight(ids, first + k);
        float const* const row = landing + where_[first + k];
        for (std::size_t c = 0; c < dim; ++c) acc[c] += w * row[c];
      });
      detail::sum_in_blocks(dim, terms, scratch_.data(), out + dim, [&](float* acc, std::size_t k) {
        float const w = weight(ids, first + k);
        float const* const row = landing + where_[first + k];
        for (std::size_t c = 0; c < dim; ++c) {
          float const x = w * row[c];
          acc[c] += x * x;
        }
      });
    }
  }

  template <class Dim>
  void copy_rows(Dim dim, jagged const& ids, std::size_t f, float const* landing, float* rows) {
    std::size_t const end = ids.offsets[(f + 1) * ids.samples];
    for (std::size_t p = ids.offsets[f * ids.samples]; p < end; ++p) {
      prefetch(dim, landing, p);
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

  // Every entry of table t: add(use, entry, sum) for its uses, in their order.
  template <class Dim, class AddressOf, class Add>
  void sum_uses(Dim dim, micro_route const& route, std::size_t t, float* out, AddressOf const& address_of, Add const& add) {
    scratch_.resize(2 * dim);
    occurrence const* const uses = route.uses.data();
    std::size_t const end = route.entry_start[route.table_entry[t + 1]];
    for (std::size_t e = route.table_entry[t]; e < route.table_entry[t + 1]; ++e) {
      std::size_t const first = route.entry_start[e];
      detail::sum_in_blocks(dim, route.entry_start[e + 1] - first, scratch_.data(), out + route.entry_offset[e],
                            [&](float* acc, std::size_t k) {
                              std::size_t const u = first + k;
                              if (u + detail::prefetch_distance < end)
                                detail::prefetch_row(address_of(uses[u + detail::prefetch_distance]), dim);
                              add(uses[u], e, acc);
                            });
    }
  }

  // Where the gradient of a use lies.
  template <class Dim>
  float const* gradient_of(Dim dim, occurrence const& use, float const* d_pooled, std::size_t ld) const {
    feature_plan const& plan = plans_[use.feature];
    if (plan.pooling == pooling::none) return plan.d_rows + (use.position - plan.first_value) * dim;
    return d_pooled + use.sample * ld + plan.column;
  }

  template <class Dim>
  void add_use(Dim dim, jagged const& ids, occurrence const& use, float const* d, float const* v, float* acc) const {
    feature_plan const& plan = plans_[use.feature];
    if (plan.pooling == pooling::none) {
      for (std::size_t c = 0; c < dim; ++c) acc[c] += d[c];
    } else if (plan.pooling == pooling::sum_and_squares) {
      float const w = weight(ids, use.position);
      float const twice = 2.0f * (w * w);
      for (std::size_t c = 0; c < dim; ++c) acc[c] += w * d[c] + twice * v[c] * d[dim + c];
    } else {
      float const s = scale(plan.pooling, ids, use.feature * ids.samples + use.sample, use.position);
      for (std::size_t c = 0; c < dim; ++c) acc[c] += s * d[c];
    }
  }

  exec::buffer<std::uint32_t> where_;  // per value: place of its row in the landing buffer
  exec::buffer<float> scratch_;
  std::vector<feature_plan> plans_;
};

}  // namespace nestpipe::embedding
