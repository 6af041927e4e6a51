// Both halves of every model's backward against central differences, in double, through pooling down to table rows.
#include <nestpipe/math/eigen.hpp>
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/dcn.hpp>
#include <nestpipe/model/deepfm.hpp>
#include <nestpipe/model/dlrm.hpp>
#include <nestpipe/model/fm.hpp>
#include <nestpipe/model/logistic.hpp>

#include "model/fixture.hpp"
#include "support/sequence_model.hpp"

#include <doctest/doctest.h>

using namespace nestpipe;
using nestpipe::test::fixture;
using nestpipe::test::shape;

namespace {

// Largest |analytic - numeric| over the largest |numeric| of the array.
template <class M>
double worst(fixture<M>& f, test::array<double>& values, test::array<double> const& analytic, double scale) {
  double error = 0, size = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    double const x = values[i];
    double const step = 1e-5;
    values[i] = x + step;
    double const above = f.objective(scale);
    values[i] = x - step;
    double const below = f.objective(scale);
    values[i] = x;
    double const numeric = (above - below) / (2 * step);
    error = std::max(error, std::abs(numeric - analytic[i]));
    size = std::max(size, std::abs(numeric));
    if (analytic[i] != analytic[i]) return analytic[i];
  }
  f.pool();
  return values.size() == 0 ? 0 : error / size;
}

template <class M>
void check(shape s, M const& prototype = M{}) {
  for (std::uint64_t seed = 1; seed <= 2; ++seed) {
    s.seed = seed;
    CAPTURE(seed);
    CAPTURE(s.dense);
    CAPTURE(s.dim);
    fixture<M> f{s, prototype};
    double const scale = 0.25;
    typename M::workspace ws;
    auto const r = f.run(ws, scale);
    auto const d_tables = f.table_gradients(r);
    CHECK(worst(f, f.parameters, r.d_parameters, scale) <= 1e-6);
    for (std::size_t t = 0; t < d_tables.size(); ++t) CHECK(worst(f, f.table_values[t], d_tables[t], scale) <= 1e-6);
  }
}

template <class M>
void check_all(M const& prototype = M{}, std::size_t labels = 1) {
  shape s;
  s.labels = labels;
  check<M>(s, prototype);
  s.dense = 0;
  check<M>(s, prototype);
  s.dense = 2;
  s.task = model::task::regression;
  s.dim = 1;
  check<M>(s, prototype);
  s.dim = 17;
  s.samples = 3;
  s.features = 1;
  check<M>(s, prototype);
  if (M{}.request(2).pooling == pooling::sum) {
    s = shape{};
    s.labels = labels;
    s.first_pooling = pooling::mean;
    check<M>(s, prototype);
  }
}

}  // namespace

TEST_CASE_TEMPLATE("gradients of the models", Math, math::plain, math::eigen) {
  SUBCASE("logistic") { check_all<model::logistic<double, Math>>(); }
  SUBCASE("logistic, two labels") { check_all(model::logistic<double, Math>{{.labels = 2}}, 2); }
  SUBCASE("fm") { check_all<model::fm<double, Math>>(); }
  SUBCASE("fm, two labels") { check_all(model::fm<double, Math>{{.labels = 2}}, 2); }
  SUBCASE("deepfm") { check_all(model::deepfm<double, Math>{{.hidden = {6, 5}}}); }
  SUBCASE("deepfm, two labels") { check_all(model::deepfm<double, Math>{{.hidden = {6}, .labels = 2}}, 2); }
  SUBCASE("deepfm, no hidden layer") { check_all(model::deepfm<double, Math>{{.hidden = {}}}); }
  SUBCASE("dcn, full") { check_all(model::dcn<double, Math>{{.cross_layers = 2, .hidden = {6, 5}}}); }
  SUBCASE("dcn, low rank") { check_all(model::dcn<double, Math>{{.cross_layers = 3, .rank = 2, .hidden = {6}}}); }
  SUBCASE("dcn, no cross layers, two labels") { check_all(model::dcn<double, Math>{{.cross_layers = 0, .hidden = {6}}}, 2); }
  SUBCASE("dlrm") { check_all(model::dlrm<double, Math>{{.bottom = {6}, .top = {7, 5}}}); }
  SUBCASE("dlrm, shallow, two labels") { check_all(model::dlrm<double, Math>{{.bottom = {}, .top = {}}}, 2); }
}

TEST_CASE("gradients of a model over sequences with weighted samples") {
  using M = test::sequence_model<double>;
  shape s;
  s.labels = 2;
  check<M>(s);
  s.labels = 1;
  s.dim = 3;
  s.first_pooling = pooling::sum;
  check<M>(s);
  s.first_pooling = pooling::mean;
  check<M>(s);
}

TEST_CASE("a wrong gradient is noticed") {
  using M = model::fm<double, math::plain>;
  shape s;
  fixture<M> f{s};
  M::workspace ws;
  auto r = f.run(ws, 1.0);
  // The rule for an id of weight w is w g1 + 2 w^2 v g2: without the second term the check must fail.
  for (std::size_t i = 0; i < s.samples; ++i)
    for (std::size_t c = 0; c < s.features; ++c)
      std::fill_n(r.d_pooled.data() + i * f.layout.pooled_width() + f.layout.column(c) + f.layout.dim_of_feature(c), f.layout.dim_of_feature(c), 0.0);
  auto const d_tables = f.table_gradients(r);
  CHECK(worst(f, f.table_values[0], d_tables[0], 1.0) > 1e-3);
}
