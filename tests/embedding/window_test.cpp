#include <doctest/doctest.h>

#include <nestpipe/embedding/overlap.hpp>
#include <nestpipe/embedding/window.hpp>

#include <cmath>
#include <cstring>
#include <vector>

namespace np = nestpipe;
using np::embedding::owner_route;
using np::embedding::route_shape;
using np::embedding::window;

namespace {

/// One rank, one micro-batch, two tables: the keys are the slots' keys.
owner_route routed(std::vector<np::key_type> const& a, std::vector<np::key_type> const& b) {
  route_shape const shape{1, 1, 2, 1024};
  owner_route r;
  auto const n = [](auto const& v) { return static_cast<std::uint32_t>(v.size()); };
  r.counts = {n(a), n(b), n(a), n(b)};
  r.expect(shape);
  std::size_t at = 0;
  for (auto const* keys : {&a, &b}) {
    for (std::size_t i = 0; i < keys->size(); ++i, ++at) {
      r.received[at] = (*keys)[i];
      r.slots[at] = static_cast<std::uint32_t>(i);
    }
  }
  r.build(shape, true);
  return r;
}

window window_for(owner_route const& r, std::vector<std::size_t> const& dims, std::vector<std::size_t> const& floats) {
  window w;
  w.shape(dims, floats);
  w.reset(r);
  for (std::size_t t = 0; t < w.tables(); ++t) {
    for (std::size_t i = 0; i < w.slots(t) * w.row_floats(t); ++i) w.rows(t)[i] = static_cast<float>(1000 * t + i);
  }
  return w;
}

}  // namespace

TEST_CASE("a window sends embeddings without state, in the order asked for") {
  for (std::size_t const dim : {4U, 5U}) {
    owner_route const r = routed({7, 0, ~np::key_type{0}}, {5});
    window const w = window_for(r, {dim, 3}, {dim + 2, 6});
    CHECK(w.slots(0) == 3);
    CHECK(w.slots(1) == 1);
    std::vector<std::uint32_t> const slots{2, 0, 2};
    std::vector<float> out(3 * dim + 1, -1.0f);
    CHECK(w.send(0, slots, out.data()) == out.data() + 3 * dim);
    for (std::size_t i = 0; i < 3; ++i) {
      for (std::size_t k = 0; k < dim; ++k) CHECK(out[i * dim + k] == static_cast<float>(slots[i] * (dim + 2) + k));
    }
    CHECK(out.back() == -1.0f);
  }
}

TEST_CASE("gradients fold in the order of calls; the first one is copied bit by bit") {
  for (std::size_t const dim : {1U, 4U, 5U, 100U}) {
    owner_route const r = routed({1, 2, 3}, {});
    window w = window_for(r, {dim, 3}, {dim, 3});
    // a + b + c in this order; with these sizes another order has other bits
    std::vector<float> a(2 * dim), b(2 * dim), c(dim);
    for (std::size_t k = 0; k < dim; ++k) {
      a[k] = 1e8f;
      a[dim + k] = -0.0f;
      b[k] = 3.3f + static_cast<float>(k);
      b[dim + k] = 0.25f;
      c[k] = -1e8f;
    }
    CHECK(w.fold(0, std::vector<std::uint32_t>{1, 2}, a.data()) == a.data() + 2 * dim);
    CHECK(std::signbit(w.gradients(0)[2 * dim]));  // -0 stays -0: nothing was added to it
    w.fold(0, std::vector<std::uint32_t>{1, 2}, b.data());
    w.fold(0, std::vector<std::uint32_t>{1}, c.data());
    CHECK(w.has_gradient(0)[0] == 0);
    CHECK(w.has_gradient(0)[1] != 0);
    CHECK(w.has_gradient(0)[2] != 0);
    for (std::size_t k = 0; k < dim; ++k) {
      float const forward = (a[k] + b[k]) + c[k];
      CHECK(w.gradients(0)[dim + k] == forward);
      CHECK(w.gradients(0)[2 * dim + k] == 0.25f);
    }
    float const other_order = (a[0] + c[0]) + b[0];
    CHECK(w.gradients(0)[dim] != other_order);
    w.reset(r);
    CHECK(w.has_gradient(0)[1] == 0);
  }
}

TEST_CASE("what two batches share is found by key, and its rows are copied with their state") {
  owner_route const before = routed({4, 0, 9, ~np::key_type{0}}, {4});
  owner_route const after = routed({9, 5, ~np::key_type{0}, 4}, {5, 0});
  np::embedding::overlap shared;
  shared.build(before, after, 2);
  CHECK(shared.size() == 3);
  auto const list = [](std::span<std::uint32_t const> s) { return std::vector<std::uint32_t>(s.begin(), s.end()); };
  CHECK(list(shared.from(0)) == std::vector<std::uint32_t>{2, 3, 0});
  CHECK(list(shared.to(0)) == std::vector<std::uint32_t>{0, 2, 3});
  CHECK(shared.from(1).empty());
  CHECK(shared.late(0)[0] == 1);
  CHECK(shared.late(0)[1] == 0);
  CHECK(shared.late(1)[0] == 0);

  window const old = window_for(before, {4, 3}, {7, 3});
  window fresh = window_for(after, {4, 3}, {7, 3});
  for (std::size_t i = 0; i < 4 * 7; ++i) fresh.rows(0)[i] = -1.0f;
  fresh.copy_rows(0, old, shared.from(0), shared.to(0));
  for (std::size_t k = 0; k < 7; ++k) {
    CHECK(fresh.rows(0)[0 * 7 + k] == static_cast<float>(2 * 7 + k));
    CHECK(fresh.rows(0)[1 * 7 + k] == -1.0f);
    CHECK(fresh.rows(0)[2 * 7 + k] == static_cast<float>(3 * 7 + k));
    CHECK(fresh.rows(0)[3 * 7 + k] == static_cast<float>(0 * 7 + k));
  }
  shared.clear(after, 2);
  CHECK(shared.size() == 0);
  CHECK(shared.late(0)[0] == 0);
}
