#pragma once
// A model with random bags of ids over small tables, and pooling as the library does it, in plain loops: losses and
// gradients become functions of table rows and dense parameters.

#include <nestpipe/core/random.hpp>
#include <nestpipe/core/schema.hpp>
#include <nestpipe/model/model.hpp>
#include <nestpipe/math/scratch.hpp>

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>
#include <vector>

namespace nestpipe::test {

struct shape {
  std::size_t samples = 7;
  std::size_t dense = 3;
  std::size_t labels = 1;
  std::size_t dim = 5;                      // asked of request()
  std::size_t features = 3;
  model::task task = model::task::binary;
  std::optional<pooling> first_pooling{};   // of feature 0 in place of what the model asks for
  std::uint64_t seed = 1;
};

// 64-byte aligned array with values of its own.
template <class Scalar>
class array {
 public:
  array() = default;
  explicit array(std::size_t size, Scalar value = 0) { assign(size, value); }
  array(array const& other) { *this = other; }
  array& operator=(array const& other) {
    assign(other.size_, Scalar{0});
    std::copy_n(other.data(), size_, data());
    return *this;
  }
  void assign(std::size_t size, Scalar value) {
    size_ = size;
    std::fill_n(memory_.reserve(std::max<std::size_t>(size, 1)), std::max<std::size_t>(size, 1), value);
  }
  Scalar* data() { return memory_.data(); }
  Scalar const* data() const { return memory_.data(); }
  std::size_t size() const { return size_; }
  Scalar& operator[](std::size_t i) { return data()[i]; }
  Scalar const& operator[](std::size_t i) const { return data()[i]; }
  Scalar* begin() { return data(); }
  Scalar* end() { return data() + size_; }
  Scalar const* begin() const { return data(); }
  Scalar const* end() const { return data() + size_; }
  bool operator==(array const& other) const { return std::equal(begin(), end(), other.begin(), other.end()); }

 private:
  math::scratch<Scalar> memory_;
  std::size_t size_ = 0;
};

template <class M>
class fixture {
 public:
  using scalar = typename M::scalar;
  static constexpr std::size_t rows = 6;  // of each table

  explicit fixture(shape const& s, M const& prototype = M{}) : model{prototype}, given{s} {
    model::embedding_request const r = model.request(s.dim);
    std::vector<table> tables;
    std::vector<feature> features;
    schema columns{{}, s.dense, s.labels};
    for (std::size_t f = 0; f < s.features; ++f) {
      if (f < 2) tables.push_back({"table_" + std::to_string(f), r.dim, r.init});
      bool const own = f == 0 && s.first_pooling;
      features.push_back({"feature_" + std::to_string(f), "table_" + std::to_string(f % 2), own ? *s.first_pooling : r.pooling});
      columns.features.push_back(features.back().name);
    }
    layout = embedding_layout{tables, features};
    model.attach({columns, layout, s.task});
    std::size_t size = 0;
    for (model::parameter const& p : model.parameters()) size += p.size();
    parameters = random(size, 1, 0.5);
    for (std::size_t t = 0; t < tables.size(); ++t) table_values.push_back(random(rows * tables[t].dim, 10 + t, 0.5));
    dense = random(s.samples * s.dense, 2, 1);
    labels.assign(s.samples * s.labels, 0);
    counter_random const draw{s.seed, 3, 3};
    for (std::size_t i = 0; i < labels.size(); ++i)
      labels[i] = static_cast<scalar>(s.task == model::task::binary ? static_cast<double>(draw.below(i, 2)) : draw.uniform_double(i));
    counter_random const ids_draw{s.seed, 4, 4};
    std::uint64_t n = 0;
    for (std::size_t f = 0; f < s.features; ++f)
      for (std::size_t i = 0; i < s.samples; ++i) {
        std::size_t const length = f == 0 && i == 1 ? 0 : 1 + ids_draw.below(n++, 3);  // one bag is empty, ids repeat
        for (std::size_t k = 0; k < length; ++k) {
          ids.push_back(ids_draw.below(n++, rows));
          weights.push_back(static_cast<scalar>(0.5 + ids_draw.uniform_double(n++)));
        }
        offsets.push_back(static_cast<std::uint32_t>(ids.size()));
      }
    pool();
  }

  // Pooled matrix and sequences from the tables.
  void pool() {
    std::size_t const n = given.samples;
    pooled.assign(n * layout.pooled_width(), 0);
    sequence_rows.clear();
    sequence_offsets.clear();
    for (std::size_t f = 0; f < given.features; ++f) {
      std::size_t const dim = layout.dim_of_feature(f);
      enum pooling const p = layout.features()[f].pooling;
      if (p == pooling::none) {
        sequence_offsets.emplace_back();
        for (std::size_t i = 0; i <= n; ++i) sequence_offsets.back().push_back(offsets[f * n + i] - offsets[f * n]);
        sequence_rows.emplace_back(sequence_offsets.back().back() * dim);
        for (std::size_t v = offsets[f * n]; v < offsets[(f + 1) * n]; ++v)
          std::copy_n(row(f, ids[v]), dim, sequence_rows.back().data() + (v - offsets[f * n]) * dim);
        continue;
      }
      for (std::size_t i = 0; i < n; ++i) {
        scalar* const out = pooled.data() + i * layout.pooled_width() + layout.column(f);
        for_bag(f, i, [&](std::size_t v, scalar w) {
          for (std::size_t k = 0; k < dim; ++k) {
            scalar const x = w * row(f, ids[v])[k];
            out[k] += x;
            if (p == pooling::sum_and_squares) out[dim + k] += x * x;
          }
        });
      }
    }
    sequences.clear();
    for (std::size_t q = 0; q < sequence_rows.size(); ++q) sequences.push_back({sequence_offsets[q], sequence_rows[q].data(), dim_of_sequence(q)});
  }

  // The samples [first, last) alone, with buffers of their own.
  fixture slice(std::size_t first, std::size_t last) const {
    fixture part = *this;
    std::size_t const n = given.samples;
    part.given.samples = last - first;
    part.dense.assign((last - first) * given.dense, 0);
    std::copy(dense.data() + first * given.dense, dense.data() + last * given.dense, part.dense.data());
    part.labels.assign((last - first) * given.labels, 0);
    std::copy(labels.data() + first * given.labels, labels.data() + last * given.labels, part.labels.data());
    part.ids.clear();
    part.weights.clear();
    part.offsets.assign(1, 0);
    for (std::size_t f = 0; f < given.features; ++f)
      for (std::size_t i = first; i < last; ++i) {
        for (std::size_t v = offsets[f * n + i]; v < offsets[f * n + i + 1]; ++v) {
          part.ids.push_back(ids[v]);
          part.weights.push_back(weights[v]);
        }
        part.offsets.push_back(static_cast<std::uint32_t>(part.ids.size()));
      }
    part.pool();
    return part;
  }

  model::model_batch<scalar> batch() const { return {given.samples, dense.data(), pooled.data(), sequences, labels.data()}; }

  // Loss of the whole batch through pooling and forward, times scale.
  double objective(scalar scale) {
    pool();
    typename M::workspace ws;
    array<scalar> logits(given.samples * model.outputs()), d(logits.size());
    model.forward(parameters.data(), batch(), ws, logits.data());
    return static_cast<double>(scale) * model.loss(batch(), logits.data(), scale, d.data());
  }

  struct result {
    double loss = 0;
    array<scalar> logits, d_logits, d_pooled, d_parameters;
    std::vector<array<scalar>> d_sequences;
    bool operator==(result const&) const = default;
  };

  // One pass with outputs poisoned beforehand, so what is not overwritten shows.
  result run(typename M::workspace& ws, scalar scale) const {
    result r;
    pass(ws, scale, r, [&](auto const& late, scalar const* gone) { model.backward_weights(parameters.data(), late, ws, gone, r.d_parameters.data()); });
    return r;
  }

  // As run, but the gradients of one bucket of parameters only; NaN is left elsewhere.
  array<scalar> run_bucket(typename M::workspace& ws, scalar scale, std::size_t bucket) const {
    result r;
    pass(ws, scale, r, [&](auto const& late, scalar const* gone) {
      model::backward_weights_bucket(model, bucket, parameters.data(), late, ws, gone, r.d_parameters.data());
    });
    return r.d_parameters;
  }

  // Everything but the gradients of the weights, which are left to `weights`.
  template <class Weights>
  void pass(typename M::workspace& ws, scalar scale, result& r, Weights last) const {
    scalar const poison = std::numeric_limits<scalar>::quiet_NaN();
    r.logits.assign(given.samples * model.outputs(), poison);
    r.d_logits.assign(r.logits.size(), poison);
    r.d_pooled.assign(pooled.size(), poison);
    r.d_parameters.assign(parameters.size(), poison);
    std::vector<model::sequence<scalar>> d_sequences;
    for (auto const& s : sequence_rows) r.d_sequences.emplace_back(s.size(), poison);
    for (std::size_t q = 0; q < sequence_rows.size(); ++q) d_sequences.push_back({sequence_offsets[q], r.d_sequences[q].data(), dim_of_sequence(q)});
    model.forward(parameters.data(), batch(), ws, r.logits.data());
    r.loss = model.loss(batch(), r.logits.data(), scale, r.d_logits.data());
    model.backward_inputs(parameters.data(), batch(), ws, r.d_logits.data(), {r.d_pooled.data(), d_sequences});
    // Everything but the workspace is gone when the weights' turn comes.
    array<scalar> const gone_dense(dense.size(), poison), gone_pooled(pooled.size(), poison), gone_logits(r.logits.size(), poison);
    model::model_batch<scalar> late{given.samples, gone_dense.data(), gone_pooled.data(), {}, nullptr};
    last(late, gone_logits.data());
  }

  // Gradients of the tables: what the library does with d_pooled and d_sequences.
  std::vector<array<scalar>> table_gradients(result const& r) const {
    std::vector<array<scalar>> out;
    for (auto const& t : table_values) out.emplace_back(t.size());
    std::size_t q = 0;
    for (std::size_t f = 0; f < given.features; ++f) {
      std::size_t const dim = layout.dim_of_feature(f);
      enum pooling const p = layout.features()[f].pooling;
      for (std::size_t i = 0; i < given.samples; ++i)
        for_bag(f, i, [&](std::size_t v, scalar w) {
          scalar* const g = out[layout.table_of(f)].data() + ids[v] * dim;
          for (std::size_t k = 0; k < dim; ++k) {
            if (p == pooling::none) {
              g[k] += r.d_sequences[q][(v - offsets[f * given.samples]) * dim + k];
              continue;
            }
            scalar const* const d = r.d_pooled.data() + i * layout.pooled_width() + layout.column(f);
            g[k] += w * d[k];
            if (p == pooling::sum_and_squares) g[k] += 2 * w * w * row(f, ids[v])[k] * d[dim + k];
          }
        });
      if (p == pooling::none) ++q;
    }
    return out;
  }

  // f(position, weight of its term) over a bag; a mean's terms carry 1 / length.
  template <class F>
  void for_bag(std::size_t f, std::size_t i, F&& visit) const {
    std::size_t const first = offsets[f * given.samples + i], last = offsets[f * given.samples + i + 1];
    for (std::size_t v = first; v < last; ++v)
      visit(v, layout.features()[f].pooling == pooling::mean ? weights[v] / static_cast<scalar>(last - first) : weights[v]);
  }
  scalar const* row(std::size_t f, std::uint64_t id) const { return table_values[layout.table_of(f)].data() + id * layout.dim_of_feature(f); }

  M model;
  shape given;
  embedding_layout layout;
  array<scalar> parameters, dense, labels, pooled;
  std::vector<array<scalar>> table_values, sequence_rows;
  std::vector<std::vector<std::uint32_t>> sequence_offsets;
  std::vector<model::sequence<scalar const>> sequences;
  std::vector<std::uint64_t> ids;
  std::vector<scalar> weights;
  std::vector<std::uint32_t> offsets{0};

 private:
  array<scalar> random(std::size_t size, std::uint64_t stream, double half_width) const {
    array<scalar> out(size);
    counter_random const draw{given.seed, stream, 7};
    for (std::size_t i = 0; i < size; ++i) out[i] = static_cast<scalar>((2 * draw.uniform_double(i) - 1) * half_width);
    return out;
  }
  std::size_t dim_of_sequence(std::size_t q) const {
    for (std::size_t f = 0;; ++f)
      if (layout.features()[f].pooling == pooling::none && q-- == 0) return layout.dim_of_feature(f);
  }
};

}  // namespace nestpipe::test
