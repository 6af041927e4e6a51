// The same model on every backend of this build: close to the plain loops, and the same bits from call to call.
#include <nestpipe/math/default.hpp>
#include <nestpipe/model/dcn.hpp>
#include <nestpipe/model/deepfm.hpp>
#include <nestpipe/model/dlrm.hpp>
#include <nestpipe/model/fm.hpp>
#include <nestpipe/model/logistic.hpp>

#include "model/model_conformance.hpp"

using namespace nestpipe;
using nestpipe::test::difference;
using nestpipe::test::fixture;
using nestpipe::test::shape;

namespace {

template <template <class, class> class Model, class Math, class Options>
void compare(Options const& options) {
  shape s;
  s.samples = 200;
  s.dense = 13;
  s.dim = 16;
  s.features = 8;
  test::check_model(Model<float, Math>{options}, s);
  fixture<Model<float, Math>> f{s, Model<float, Math>{options}};
  fixture<Model<float, math::plain>> g{s, Model<float, math::plain>{options}};
  // Smaller weights than the fixture's, so that the sums are not all cancellation.
  for (float& v : f.parameters) v *= 0.2f;
  for (float& v : g.parameters) v *= 0.2f;
  typename Model<float, Math>::workspace wf;
  typename Model<float, math::plain>::workspace wg;
  auto const a = f.run(wf, 0.25f);
  auto const b = g.run(wg, 0.25f);
  CHECK(a.loss == doctest::Approx(b.loss).epsilon(1e-5));
  CHECK(difference(a.logits, b.logits) <= 1e-5);
  CHECK(difference(a.d_pooled, b.d_pooled) <= 1e-5);
  CHECK(difference(a.d_parameters, b.d_parameters) <= 1e-5);
}

template <class Math>
void compare_all() {
  compare<model::logistic, Math>(model::logistic_options{});
  compare<model::fm, Math>(model::fm_options{});
  compare<model::deepfm, Math>(model::deepfm_options{.hidden = {64, 33}});
  compare<model::dcn, Math>(model::dcn_options{.cross_layers = 2, .hidden = {64, 33}});
  compare<model::dlrm, Math>(model::dlrm_options{.bottom = {64}, .top = {64, 33}});
}

}  // namespace

#if defined(NESTPIPE_WITH_EIGEN)
TEST_CASE("Eigen agrees with the plain loops") { compare_all<math::eigen>(); }
#endif
#if defined(NESTPIPE_WITH_ONEDNN)
TEST_CASE("oneDNN agrees with the plain loops") { compare_all<math::onednn>(); }
#endif
TEST_CASE("the automatic backend agrees with the plain loops") { compare<model::dlrm, math::automatic>(model::dlrm_options{.bottom = {64}, .top = {64, 33}}); }
