#pragma once
// What every model must do, whatever it computes. A user's own model can be put through it too.

#include "model/fixture.hpp"

#include <doctest/doctest.h>

#include <set>
#include <thread>

namespace nestpipe::test {

template <class Scalar>
bool all_finite(array<Scalar> const& a) {
  return std::all_of(a.begin(), a.end(), [](Scalar v) { return std::isfinite(v); });
}

// Largest difference over the largest value.
template <class Scalar>
double difference(array<Scalar> const& a, array<Scalar> const& b) {
  REQUIRE(a.size() == b.size());
  double error = 0, size = 1e-30;
  for (std::size_t i = 0; i < a.size(); ++i) {
    error = std::max(error, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    size = std::max(size, std::abs(static_cast<double>(a[i])));
  }
  return error / size;
}

template <class M>
void check_model(M const& prototype, shape const& given) {
  static_assert(model::audit<M>());
  static_assert(model::model<M>);
  using scalar = typename M::scalar;
  double const tolerance = std::is_same_v<scalar, float> ? 1e-5 : 1e-12;
  fixture<M> const f{given, prototype};
  typename M::workspace ws;
  auto const r = f.run(ws, scalar{0.5});

  // Names are there and differ; no parameter is empty.
  std::set<std::string> names;
  for (model::parameter const& p : f.model.parameters()) {
    CHECK(p.size() > 0);
    CHECK_MESSAGE(names.insert(p.name).second, p.name);
    CHECK(std::isfinite(p.init.scale));
  }

  // Outputs were NaN before: all are overwritten, none is added to. The weights' half saw nothing but the workspace.
  CHECK(std::isfinite(r.loss));
  CHECK(all_finite(r.logits));
  CHECK(all_finite(r.d_logits));
  CHECK(all_finite(r.d_pooled));
  CHECK(all_finite(r.d_parameters));
  for (auto const& d : r.d_sequences) CHECK(all_finite(d));

  // Buckets partition the parameters, none of several is empty, and each writes its range and nothing else, with the same bits.
  std::size_t const buckets = model::weight_buckets(f.model);
  REQUIRE(buckets >= 1);
  array<scalar> joined_buckets(r.d_parameters.size());
  std::vector<int> written(r.d_parameters.size(), 0);
  for (std::size_t b = 0; b < buckets; ++b) {
    model::parameter_range const range = model::bucket_range(f.model, b);
    REQUIRE(range.first <= range.last);
    REQUIRE(range.last <= written.size());
    CHECK((range.size() > 0 || buckets == 1));
    array<scalar> const part = f.run_bucket(ws, scalar{0.5}, b);
    std::size_t outside = 0;
    for (std::size_t i = 0; i < part.size(); ++i) {
      bool const inside = i >= range.first && i < range.last;
      if (!inside) outside += std::isnan(part[i]) ? 0 : 1;
      if (inside) joined_buckets[i] = part[i];
      if (inside) ++written[i];
    }
    CHECK(outside == 0);
  }
  CHECK(std::all_of(written.begin(), written.end(), [](int n) { return n == 1; }));
  CHECK(joined_buckets == r.d_parameters);

  // Same bits with a used workspace, a fresh one, after a smaller and after an empty batch.
  CHECK(f.run(ws, scalar{0.5}) == r);
  typename M::workspace fresh;
  CHECK(f.run(fresh, scalar{0.5}) == r);
  std::size_t const n = given.samples;
  std::size_t const cut = n / 3;
  auto const head = f.slice(0, cut);
  auto const tail = f.slice(cut, n);
  auto const a = head.run(ws, scalar{0.5});
  CHECK(f.run(ws, scalar{0.5}) == r);
  auto const empty = f.slice(0, 0).run(ws, scalar{0.5});
  CHECK(empty.loss == 0);
  CHECK(std::all_of(empty.d_parameters.begin(), empty.d_parameters.end(), [](scalar v) { return v == scalar{0}; }));
  CHECK(f.run(ws, scalar{0.5}) == r);
  typename M::workspace for_empty;
  CHECK(f.slice(0, 0).run(for_empty, scalar{0.5}).d_parameters == empty.d_parameters);

  // The loss is a sum over samples, the gradients too, and a sample's logit is its own affair.
  auto const b = tail.run(ws, scalar{0.5});
  CHECK(a.loss + b.loss == doctest::Approx(r.loss).epsilon(tolerance));
  array<scalar> sum(r.d_parameters.size()), joined(r.logits.size());
  for (std::size_t i = 0; i < sum.size(); ++i) sum[i] = a.d_parameters[i] + b.d_parameters[i];
  CHECK(difference(r.d_parameters, sum) <= 10 * tolerance);
  std::copy(a.logits.begin(), a.logits.end(), joined.begin());
  std::copy(b.logits.begin(), b.logits.end(), joined.begin() + a.logits.size());
  CHECK(difference(r.logits, joined) <= tolerance);

  // scale multiplies gradients, not the returned loss; a power of two changes no other bit.
  auto const doubled = f.run(ws, scalar{1});
  CHECK(doubled.loss == r.loss);
  CHECK(doubled.logits == r.logits);
  auto twice = r;
  for (scalar& v : twice.d_logits) v *= 2;
  for (scalar& v : twice.d_parameters) v *= 2;
  CHECK(doubled.d_logits == twice.d_logits);
  CHECK(difference(doubled.d_parameters, twice.d_parameters) <= tolerance);

  // Scores are probabilities for a binary task, and rise with the logit.
  if (given.task == model::task::binary) {
    CHECK(f.model.score(scalar{0}) == scalar{0.5});
    CHECK(f.model.score(scalar{-1000}) >= scalar{0});
    CHECK(f.model.score(scalar{1000}) <= scalar{1});
    CHECK(f.model.score(scalar{-1}) < f.model.score(scalar{2}));
  } else {
    CHECK(f.model.score(scalar{-7}) == scalar{-7});
  }

  // Two micro-batches at once, each with its workspace.
  auto const tail_alone = b;
  bool ok[2] = {true, true};
  std::thread one{[&] {
    typename M::workspace mine;
    for (int i = 0; i < 10; ++i) ok[0] = ok[0] && f.run(mine, scalar{0.5}) == r;
  }};
  std::thread two{[&] {
    typename M::workspace mine;
    for (int i = 0; i < 10; ++i) ok[1] = ok[1] && tail.run(mine, scalar{0.5}) == tail_alone;
  }};
  one.join();
  two.join();
  CHECK(ok[0]);
  CHECK(ok[1]);

  // A copy computes the same; attach may be called again.
  fixture<M> copied = f;
  copied.pool();
  CHECK(copied.run(ws, scalar{0.5}) == r);
  shape other = given;
  other.dense += 1;
  other.features += 1;
  fixture<M> const larger{other, f.model};
  typename M::workspace larger_ws;
  CHECK(all_finite(larger.run(larger_ws, scalar{1}).d_parameters));
  fixture<M> const again{given, larger.model};
  CHECK(again.run(larger_ws, scalar{0.5}) == r);
}

}  // namespace nestpipe::test
