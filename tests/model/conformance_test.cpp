// The conformance suite over all models, scalars and backends, and over a user's own model.
#include <nestpipe/math/default.hpp>
#include <nestpipe/model/any_of.hpp>
#include <nestpipe/model/dcn.hpp>
#include <nestpipe/model/deepfm.hpp>
#include <nestpipe/model/dlrm.hpp>
#include <nestpipe/model/fm.hpp>
#include <nestpipe/model/logistic.hpp>

#include "model/model_conformance.hpp"
#include "support/sequence_model.hpp"

using namespace nestpipe;
using nestpipe::test::check_model;
using nestpipe::test::shape;

namespace {

template <class Scalar, class Math>
struct with {
  using scalar = Scalar;
  using math = Math;
};

template <class M>
void check_shapes(M const& prototype, std::size_t labels = 1, model::task other_task = model::task::regression) {
  shape s;
  s.samples = 150;  // more than two blocks of a sum
  s.labels = labels;
  check_model(prototype, s);
  s.dense = 0;
  s.dim = 3;
  s.samples = 5;
  check_model(prototype, s);
  s.dense = 1;
  s.features = 70;
  s.task = other_task;
  check_model(prototype, s);
}

}  // namespace

// On more backends: tests/model/backends_test.cpp.
TEST_CASE_TEMPLATE("models conform", W, with<float, math::automatic>, with<double, math::plain>) {
  using S = typename W::scalar;
  using B = typename W::math;
  SUBCASE("logistic") {
    check_shapes(model::logistic<S, B>{});
    check_shapes(model::logistic<S, B>{{.labels = 3}}, 3);
  }
  SUBCASE("fm") {
    check_shapes(model::fm<S, B>{});
    check_shapes(model::fm<S, B>{{.labels = 2}}, 2);
  }
  SUBCASE("deepfm") { check_shapes(model::deepfm<S, B>{{.hidden = {9, 4}, .labels = 2}}, 2); }
  SUBCASE("dcn") { check_shapes(model::dcn<S, B>{{.cross_layers = 2, .hidden = {9, 4}}}, 2); }
  SUBCASE("dcn, low rank") { check_shapes(model::dcn<S, B>{{.cross_layers = 2, .rank = 3, .hidden = {9, 4}}}); }
  SUBCASE("dlrm") { check_shapes(model::dlrm<S, B>{{.bottom = {9}, .top = {9, 4}}}, 2); }
  SUBCASE("sequence_model") {
    check_shapes(test::sequence_model<S>{}, 1, model::task::binary);
    check_shapes(test::sequence_model<S>{}, 2, model::task::binary);
  }
}

TEST_CASE_TEMPLATE("models with several buckets of parameters conform", W, with<float, math::automatic>, with<double, math::plain>) {
  using S = typename W::scalar;
  using B = typename W::math;
  auto const buckets = [](auto const& prototype, shape const& s) {
    check_model(prototype, s);
    return model::weight_buckets(test::fixture<std::decay_t<decltype(prototype)>>{s, prototype}.model);
  };
  shape s;
  s.samples = 9;
  // Weights of 300 x 300 make a bucket; smaller layers join those that follow in backward, the first layers the last bucket.
  CHECK(buckets(model::dlrm<S, B>{{.bottom = {300, 300}, .top = {1000, 66, 4}}}, s) == 2);
  CHECK(buckets(model::dlrm<S, B>{{.bottom = {300, 300, 300, 300}, .top = {300, 300}}}, s) == 4);
  CHECK(buckets(model::deepfm<S, B>{{.hidden = {300, 300, 300}}}, s) == 2);
  CHECK(buckets(model::deepfm<S, B>{{.hidden = {9}}}, s) == 1);
  CHECK(buckets(model::dcn<S, B>{{.cross_layers = 2, .hidden = {300, 300, 300}}}, s) == 2);
  s.features = 55;
  CHECK(buckets(model::dcn<S, B>{{.cross_layers = 3, .hidden = {300}}}, s) == 4);
  CHECK(buckets(model::any_of<model::logistic<S, B>, model::deepfm<S, B>>{model::deepfm<S, B>{{.hidden = {300, 300}}}}, s) == 2);
}

TEST_CASE("a model chosen at run time is a model, and computes what the chosen one does") {
  using any = model::any_of<model::logistic<>, model::fm<>, model::dlrm<>>;
  check_model(any{model::logistic<>{}}, {});
  check_model(any{model::fm<>{}}, {});
  check_model(any{model::dlrm<>{{.bottom = {4}, .top = {4}}}}, {});
  CHECK(any{}.index() == 0);
  CHECK(any{model::fm<>{}}.visit([](auto const& m) { return m.request(4).dim; }) == 5);

  test::fixture<model::fm<>> const f{{}};
  test::fixture<any> const g{{}, any{model::fm<>{}}};
  model::fm<>::workspace wf;
  any::workspace wg;
  auto const a = f.run(wf, 0.5f);
  auto const b = g.run(wg, 0.5f);
  CHECK(a.loss == b.loss);
  CHECK(a.d_pooled == b.d_pooled);
  CHECK(a.d_parameters == b.d_parameters);
  CHECK(wg.index() == 1);

  // One workspace may serve another model later.
  test::fixture<any> const h{{}, any{model::logistic<>{}}};
  auto const c = h.run(wg, 0.5f);
  any::workspace fresh;
  CHECK(c == h.run(fresh, 0.5f));
}
