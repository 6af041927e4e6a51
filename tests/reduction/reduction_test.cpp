#include <doctest/doctest.h>

#include <nestpipe/comm/self.hpp>
#include <nestpipe/reduction/any_of.hpp>
#include <nestpipe/reduction/native.hpp>
#include <nestpipe/reduction/ordered.hpp>

#include "reduction_conformance.hpp"

#include <cstring>
#include <utility>

namespace np = nestpipe;
namespace suite = reduction_conformance;
using np::reduction::native;
using np::reduction::ordered;
using any = np::reduction::any_of<ordered, native>;

static_assert(np::reduction::audit<ordered>() && np::reduction::audit<native>() && np::reduction::audit<any>());
static_assert(np::reduction::reduction<ordered> && np::reduction::reduction<native> && np::reduction::reduction<any>);
static_assert(!np::reduction::bits_depend_on_ranks<ordered> && np::reduction::bits_depend_on_ranks<native>);
static_assert(np::reduction::bits_depend_on_ranks<any>);

namespace {

bool same_bits(std::vector<float> const& a, std::vector<float> const& b) {
  return a.size() == b.size() && (a.empty() || std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0);
}

std::pair<std::size_t, std::size_t> const shapes[] = {{1, 8}, {2, 4}, {4, 2}, {8, 1}, {1, 6}, {2, 3},
                                                      {3, 2}, {6, 1}, {1, 1}, {3, 1}, {1, 3}, {5, 1},
                                                      {1, 5}, {1, 7}, {2, 5}, {5, 2}, {4, 3}, {3, 4}};

}  // namespace

TEST_CASE_TEMPLATE("ordered: every rank has the bits of the tree, whatever the number of ranks", R, ordered, any) {
  for (auto const& shape : shapes) {
    std::size_t const world = shape.first, local = shape.second;
    for (std::size_t const parameters : {0, 1, 7, 1000, 5003}) {
      CAPTURE(world);
      CAPTURE(local);
      CAPTURE(parameters);
      auto const expected = suite::tree(world * local, parameters);
      for (auto const& mine : suite::results(R{ordered{}}, world, local, parameters, {parameters}))
        CHECK(same_bits(mine, expected));
    }
  }
}

TEST_CASE("ordered: ranges give the same bits as the whole, batch after batch") {
  for (auto const& shape : shapes) {
    std::size_t const world = shape.first, local = shape.second;
    CAPTURE(world);
    CAPTURE(local);
    auto const expected = suite::tree(world * local, 4500, 2);
    for (auto const& mine : suite::results(ordered{}, world, local, 4500, {1, 1, 3, 2500, 4499, 4500}, 3))
      CHECK(same_bits(mine, expected));
  }
}

TEST_CASE_TEMPLATE("native: the sum, up to rounding, the same on all ranks", R, native, any) {
  for (auto const& shape : shapes) {
    std::size_t const world = shape.first, local = shape.second;
    CAPTURE(world);
    CAPTURE(local);
    std::size_t const parameters = 1000;
    auto const all = suite::results(R{native{}}, world, local, parameters, {10, parameters}, 2);
    for (auto const& mine : all) CHECK(same_bits(mine, all[0]));
    std::size_t wrong = 0;
    for (std::size_t i = 0; i < parameters; ++i) {
      double sum = 0, magnitude = 0;
      for (std::size_t m = 0; m < world * local; ++m) {
        double const x = suite::gradient(m, parameters, 1)[i];
        sum += x;
        magnitude += std::abs(x);
      }
      wrong += std::abs(all[0][i] - sum) > 1e-6 * magnitude;
    }
    CHECK(wrong == 0);
  }
}

TEST_CASE("negative control: native has other bits on other numbers of ranks, so the inputs above can tell") {
  auto const one = suite::results(native{}, 1, 8, 1000, {1000})[0];
  auto const four = suite::results(native{}, 4, 2, 1000, {1000})[0];
  CHECK(!same_bits(one, four));
  CHECK(!same_bits(one, suite::tree(8, 1000)));
}

TEST_CASE_TEMPLATE("reductions: leaves are aligned, copies before open are independent, shapes are checked", R, ordered,
                   native, any) {
  R const prototype{[] {
    if constexpr (std::same_as<R, any>) {
      return ordered{};
    } else {
      return R{};
    }
  }()};
  R a{prototype}, b{prototype};
  a.open({5, 3, 0, 1});
  b.open({5, 3, 0, 1});
  for (std::size_t j = 0; j < 3; ++j) {
    CHECK(reinterpret_cast<std::uintptr_t>(a.leaf(j).data()) % 64 == 0);
    CHECK(a.leaf(j).size() == 5);
    CHECK(a.leaf(j).data() != b.leaf(j).data());
  }
  R c{prototype};
  CHECK_THROWS_AS(c.open({5, 0, 0, 1}), np::config_error);
  CHECK_THROWS_AS(c.open({5, 1, 2, 2}), np::config_error);
  CHECK_THROWS_AS(c.open({5, 1, 0, 0}), np::config_error);
}

TEST_CASE("ordered works over self, and sums small numbers by hand") {
  np::comm::self comm;
  auto channel = comm.channel("reduce");
  ordered r;
  r.open({2, 3, 0, 1});
  for (std::size_t j = 0; j < 3; ++j) {
    r.leaf(j)[0] = static_cast<float>(j + 1);
    r.leaf(j)[1] = static_cast<float>(10 * j);
    r.add(j, 0, 2);
  }
  r.reduce(channel, 0, 2, {"reduce_dense", 1});
  CHECK(r.result()[0] == 6);
  CHECK(r.result()[1] == 30);
}
