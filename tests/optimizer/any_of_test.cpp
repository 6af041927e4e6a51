#include <doctest/doctest.h>

#include <nestpipe/optimizer/adagrad.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/optimizer/any_of.hpp>
#include <nestpipe/optimizer/sgd.hpp>

#include <type_traits>
#include <vector>

namespace o = nestpipe::optimizer;
using some = o::any_of<o::sgd, o::adagrad, o::adam>;

static_assert(std::is_trivially_copyable_v<some>);
static_assert(std::is_trivially_copyable_v<some::constants>);
static_assert(o::optimizer<some>);

TEST_CASE("an any_of is the optimizer it holds") {
  some a;
  CHECK(a.index() == 0);
  CHECK(a.state_size(4) == 0);
  a = o::adam{.rate = 0.25};
  CHECK(a.index() == 2);
  CHECK(a.state_size(4) == 8);
  some const copy = a;
  float rows[2][3 * 4] = {};
  float const g[4] = {1, -2, 3, -4};
  o::adam const plain{.rate = 0.25};
  copy.update(rows[0], rows[0] + 4, g, std::size_t{4}, copy.prepare(3, 0.5f));
  plain.update(rows[1], rows[1] + 4, g, std::size_t{4}, plain.prepare(3, 0.5f));
  for (std::size_t i = 0; i < 12; ++i) CHECK(rows[0][i] == rows[1][i]);
  CHECK(rows[0][0] != 0.0f);
}

TEST_CASE("with_concrete hands out the concrete type") {
  some const a{o::adagrad{.rate = 0.5}};
  double const rate = o::with_concrete(a, [](auto const& concrete) {
    static_assert(!std::is_same_v<std::remove_cvref_t<decltype(concrete)>, some>);
    return concrete.rate;
  });
  CHECK(rate == 0.5);
  some b{o::sgd{}};
  b.visit([](auto& concrete) { concrete.rate = 0.75; });
  CHECK(b.visit([](auto const& concrete) { return concrete.rate; }) == 0.75);
}
