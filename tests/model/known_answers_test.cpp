// Models against formulas written out naively, and a small problem that only interactions solve.
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/dcn.hpp>
#include <nestpipe/model/deepfm.hpp>
#include <nestpipe/model/dlrm.hpp>
#include <nestpipe/model/fm.hpp>
#include <nestpipe/model/logistic.hpp>

#include "model/fixture.hpp"

#include <doctest/doctest.h>

using namespace nestpipe;
using P = math::plain;
using nestpipe::test::array;
using nestpipe::test::fixture;
using nestpipe::test::shape;

TEST_CASE("fm counts every pair of ids of a sample, inside a bag too") {
  for (std::size_t const labels : {1u, 2u}) {
    shape s;
    s.labels = labels;
    fixture<model::fm<double, P>> f{s, model::fm<double, P>{{.labels = labels}}};
    model::fm<double, P>::workspace ws;
    auto const r = f.run(ws, 1);
    for (std::size_t i = 0; i < s.samples; ++i)
      for (std::size_t l = 0; l < labels; ++l) {
        std::vector<double const*> rows;
        std::vector<double> weights;
        for (std::size_t c = 0; c < s.features; ++c)
          f.for_bag(c, i, [&](std::size_t v, double w) {
            rows.push_back(f.row(c, f.ids[v]));
            weights.push_back(w);
          });
        double z = f.parameters[s.dense * labels + l];
        for (std::size_t k = 0; k < s.dense; ++k) z += f.dense[i * s.dense + k] * f.parameters[k * labels + l];
        for (std::size_t a = 0; a < rows.size(); ++a) {
          z += weights[a] * rows[a][l];
          for (std::size_t b = 0; b < a; ++b)
            for (std::size_t k = 0; k < s.dim; ++k)
              z += weights[a] * rows[a][labels + l * s.dim + k] * weights[b] * rows[b][labels + l * s.dim + k];
        }
        CHECK(r.logits[i * labels + l] == doctest::Approx(z).epsilon(1e-12));
      }
  }
}

TEST_CASE("logistic is a weighted sum") {
  shape s;
  s.features = 130;
  fixture<model::logistic<double, P>> f{s};
  model::logistic<double, P>::workspace ws;
  auto const r = f.run(ws, 1);
  for (std::size_t i = 0; i < s.samples; ++i) {
    double z = f.parameters[s.dense];
    for (std::size_t k = 0; k < s.dense; ++k) z += f.dense[i * s.dense + k] * f.parameters[k];
    for (std::size_t c = 0; c < s.features; ++c) z += f.pooled[i * s.features + c];
    CHECK(r.logits[i] == doctest::Approx(z).epsilon(1e-12));
  }
}

TEST_CASE("dlrm joins the bottom's output with the dot products of all pairs") {
  using M = model::dlrm<double, P>;
  for (std::size_t const dense : {0u, 3u}) {
    shape s;
    s.dense = dense;
    fixture<M> f{s, M{{.bottom = {}, .top = {}}}};
    M::workspace ws;
    auto const r = f.run(ws, 1);
    std::size_t const d = s.dim;
    for (std::size_t i = 0; i < s.samples; ++i) {
      std::vector<std::vector<double>> vectors;
      if (dense > 0) {
        vectors.emplace_back();
        for (std::size_t k = 0; k < d; ++k) {
          double x = f.parameters[dense * d + k];
          for (std::size_t c = 0; c < dense; ++c) x += f.dense[i * dense + c] * f.parameters[c * d + k];
          vectors[0].push_back(std::max(x, 0.0));
        }
      }
      for (std::size_t c = 0; c < s.features; ++c) {
        double const* const v = f.pooled.data() + i * s.features * d + c * d;
        vectors.emplace_back(v, v + d);
      }
      std::vector<double> input;
      for (std::size_t v = 0; v < (dense > 0 ? 1 : vectors.size()); ++v) input.insert(input.end(), vectors[v].begin(), vectors[v].end());
      for (std::size_t a = 0; a < vectors.size(); ++a)
        for (std::size_t b = 0; b < a; ++b) {
          double dot = 0;
          for (std::size_t k = 0; k < d; ++k) dot += vectors[a][k] * vectors[b][k];
          input.push_back(dot);
        }
      double const* const top = f.parameters.data() + (dense > 0 ? (dense + 1) * d : 0);
      double z = top[input.size()];
      for (std::size_t k = 0; k < input.size(); ++k) z += input[k] * top[k];
      CHECK(r.logits[i] == doctest::Approx(z).epsilon(1e-12));
    }
  }
}

TEST_CASE("a full cross layer is x0 * (W x + b) + x") {
  using M = model::dcn<double, P>;
  shape s;
  fixture<M> f{s, M{{.cross_layers = 1, .hidden = {}}}};
  M::workspace ws;
  auto const r = f.run(ws, 1);
  std::size_t const width = s.features * s.dim + s.dense;
  for (std::size_t i = 0; i < s.samples; ++i) {
    std::vector<double> x(f.pooled.data() + i * s.features * s.dim, f.pooled.data() + (i + 1) * s.features * s.dim);
    x.insert(x.end(), f.dense.data() + i * s.dense, f.dense.data() + (i + 1) * s.dense);
    double const* const bias = f.parameters.data() + width * width;
    double z = bias[2 * width];
    for (std::size_t j = 0; j < width; ++j) {
      double u = bias[j];
      for (std::size_t k = 0; k < width; ++k) u += x[k] * f.parameters[k * width + j];
      z += (x[j] * u + x[j]) * bias[width + j];
    }
    CHECK(r.logits[i] == doctest::Approx(z).epsilon(1e-12));
  }
}

namespace {

// Trains on y = (a + b) mod 2 over a, b in 0..3 with plain Adagrad from the models' own first values. @return mean loss
template <class M>
double learn_parity(M m) {
  model::embedding_request const r = m.request(4);
  embedding_layout const layout{{{"left", r.dim}, {"right", r.dim}}, {{"a", "left", r.pooling}, {"b", "right", r.pooling}}};
  m.attach({schema{{"a", "b"}, 1, 1}, layout, model::task::binary});
  std::size_t size = 0, index = 0;
  for (model::parameter const& p : m.parameters()) size += p.size();
  array<float> parameters(size), state(size, 0.1f), gradients(size);
  size = 0;
  for (model::parameter const& p : m.parameters()) {
    p.init(7, 1000, index++, parameters.data() + size, p.size());
    size += p.size();
  }
  array<float> tables(8 * r.dim), table_state(8 * r.dim, 0.1f), d_tables(8 * r.dim);
  for (std::uint32_t t = 0; t < 2; ++t)
    for (std::size_t k = 0; k < 4; ++k) r.init(7, t, k, tables.data() + (4 * t + k) * r.dim, r.dim);
  std::size_t const n = 16;
  std::size_t const width = layout.pooled_width();
  array<float> dense(n), labels(n), pooled(n * width), d_pooled(n * width), logits(n), d_logits(n);
  for (std::size_t i = 0; i < n; ++i) labels[i] = static_cast<float>((i / 4 + i % 4) % 2);
  typename M::workspace ws;
  double loss = 0;
  auto const adagrad = [](array<float>& x, array<float>& s, array<float> const& g) {
    for (std::size_t i = 0; i < x.size(); ++i) {
      s[i] += g[i] * g[i];
      x[i] -= 0.1f * g[i] / std::sqrt(s[i]);
    }
  };
  for (int step = 0; step < 400; ++step) {
    auto const row_of = [&](std::size_t i, std::size_t f) { return (f == 0 ? i / 4 : 4 + i % 4) * r.dim; };
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t f = 0; f < 2; ++f)
        for (std::size_t k = 0; k < r.dim; ++k) {
          float const v = tables[row_of(i, f) + k];
          pooled[i * width + layout.column(f) + k] = v;
          if (r.pooling == pooling::sum_and_squares) pooled[i * width + layout.column(f) + r.dim + k] = v * v;
        }
    model::model_batch<float> const batch{n, dense.data(), pooled.data(), {}, labels.data()};
    m.forward(parameters.data(), batch, ws, logits.data());
    loss = m.loss(batch, logits.data(), 1.0f / n, d_logits.data()) / n;
    m.backward_inputs(parameters.data(), batch, ws, d_logits.data(), {d_pooled.data(), {}});
    m.backward_weights(parameters.data(), batch, ws, d_logits.data(), gradients.data());
    d_tables.assign(d_tables.size(), 0);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t f = 0; f < 2; ++f)
        for (std::size_t k = 0; k < r.dim; ++k) {
          std::size_t const at = i * width + layout.column(f) + k;
          d_tables[row_of(i, f) + k] += d_pooled[at];
          if (r.pooling == pooling::sum_and_squares) d_tables[row_of(i, f) + k] += 2 * tables[row_of(i, f) + k] * d_pooled[at + r.dim];
        }
    adagrad(parameters, state, gradients);
    adagrad(tables, table_state, d_tables);
  }
  return loss;
}

}  // namespace

TEST_CASE("models learn an interaction from their own first values; logistic cannot") {
  CHECK(learn_parity(model::logistic<float, P>{}) == doctest::Approx(std::log(2.0)).epsilon(0.01));
  CHECK(learn_parity(model::fm<float, P>{}) < 0.1);
  CHECK(learn_parity(model::deepfm<float, P>{{.hidden = {32, 16}}}) < 0.1);
  CHECK(learn_parity(model::dcn<float, P>{{.hidden = {32, 16}}}) < 0.1);
  CHECK(learn_parity(model::dlrm<float, P>{{.bottom = {16}, .top = {32, 16}}}) < 0.1);
}
