// Layers, the stack and the losses: values, orders of sums, and gradients against central differences.
#include <nestpipe/core/random.hpp>
#include <nestpipe/math/layers.hpp>
#include <nestpipe/math/loss.hpp>
#include <nestpipe/math/mlp.hpp>
#include <nestpipe/math/plain.hpp>

#include <doctest/doctest.h>

#include <array>
#include <limits>
#include <vector>

using namespace nestpipe;

namespace {

std::vector<double> random(std::size_t n, std::uint64_t stream) {
  std::vector<double> v(n);
  counter_random const draw{5, stream, 0};
  for (std::size_t i = 0; i < n; ++i) v[i] = 2 * draw.uniform_double(i) - 1;
  return v;
}

constexpr double not_a_number = std::numeric_limits<double>::quiet_NaN();

}  // namespace

TEST_CASE("activations") {
  std::array<double, 4> const bias{1, 1, 1, 1};
  std::array<double, 4> y{-3, -1, 0.5, not_a_number};
  math::add_bias_and_activate<double>(1, 4, bias.data(), math::activation::relu, y.data(), 4);
  CHECK(y[0] == 0);
  CHECK(y[1] == 0);
  CHECK(y[2] == 1.5);
  CHECK(std::isnan(y[3]));
  std::array<double, 4> d{5, 5, 5, 5};
  math::activation_backward<double>(1, 4, math::activation::relu, y.data(), 4, d.data(), 4);
  CHECK(d[0] == 0);
  CHECK(d[1] == 0);
  CHECK(d[2] == 5);
  CHECK(math::sigmoid(0.0f) == 0.5f);
  CHECK(math::sigmoid(-1000.0) == 0.0);
  CHECK(math::sigmoid(1000.0f) == 1.0f);
  CHECK(math::sigmoid(2.0) == doctest::Approx(1 / (1 + std::exp(-2.0))).epsilon(1e-15));
}

TEST_CASE("sums over rows go in blocks of 64, then over the blocks") {
  std::size_t const n = 200, width = 70, ld = 73;
  std::vector<float> d(n * ld);
  counter_random const draw{5, 1, 0};
  for (std::size_t i = 0; i < d.size(); ++i) d[i] = draw.normal(i) * (i % 11 == 0 ? 1e4f : 1.0f);
  std::vector<float> sums(width, std::numeric_limits<float>::quiet_NaN());
  math::sum_rows(n, width, d.data(), ld, sums.data());
  bool order_matters = false;
  for (std::size_t j = 0; j < width; ++j) {
    float total = 0, straight = 0;
    for (std::size_t i0 = 0; i0 < n; i0 += 64) {
      float part = 0;
      for (std::size_t i = i0; i < std::min(n, i0 + 64); ++i) {
        part += d[i * ld + j];
        straight += d[i * ld + j];
      }
      total += part;
    }
    CHECK(sums[j] == total);
    order_matters = order_matters || straight != total;
  }
  CHECK(order_matters);
  math::sum_rows<float>(0, width, nullptr, width, sums.data());
  CHECK(sums[3] == 0);
}

TEST_CASE("binary cross entropy is exact, and finite at the ends") {
  std::array<double, 6> const z{-1000, -2, 0, 2, 1000, 800};
  std::array<double, 6> const y{0, 1, 1, 0.25, 1, 0};
  std::array<double, 6> d{};
  double const loss = math::binary_cross_entropy<double>(6, z.data(), y.data(), 2.0, d.data());
  auto const naive = [](double x, double t) { return -t * std::log(1 / (1 + std::exp(-x))) - (1 - t) * std::log(1 / (1 + std::exp(x))); };
  CHECK(loss == doctest::Approx(naive(-2, 1) + naive(0, 1) + naive(2, 0.25) + 800).epsilon(1e-14));
  CHECK(d[0] == 0);
  CHECK(d[2] == -1);
  CHECK(d[4] == 0);
  CHECK(d[5] == 2);
  for (std::size_t i = 1; i < 4; ++i) {
    double const step = 1e-5;
    auto const at = [&](double x) {
      double unused = 0;
      return 2 * math::binary_cross_entropy<double>(1, &x, &y[i], 1.0, &unused);
    };
    CHECK(d[i] == doctest::Approx((at(z[i] + step) - at(z[i] - step)) / (2 * step)).epsilon(1e-8));
  }
  double const bad = not_a_number;
  double unused = 0;
  CHECK(std::isnan(math::binary_cross_entropy<double>(1, &bad, &y[0], 1.0, &unused)));
  CHECK(std::isnan(unused));
  CHECK(math::binary_cross_entropy<double>(0, nullptr, nullptr, 1.0, nullptr) == 0);
}

TEST_CASE("squared error has no factor of a half") {
  std::array<float, 2> const z{3, -1};
  std::array<float, 2> const y{1, 1};
  std::array<float, 2> d{};
  CHECK(math::squared_error<float>(2, z.data(), y.data(), 0.5f, d.data()) == 8);
  CHECK(d[0] == 2);
  CHECK(d[1] == -2);
}

TEST_CASE("gradients of a stack, with strided inputs and outputs") {
  std::size_t const n = 5, ldx = 6, ldd = 4;
  for (math::activation const f : {math::activation::relu, math::activation::sigmoid, math::activation::identity}) {
    std::vector<std::size_t> const widths{7, 3, 2};
    math::mlp<double, math::plain> const stack{4, widths, f, f};
    CHECK(stack.size() == 5 * 7 + 8 * 3 + 4 * 2);
    CHECK(stack.inputs() == 4);
    CHECK(stack.outputs() == 2);
    auto p = random(stack.size(), 1);
    auto x = random(n * ldx, 2);
    auto const d_out = random(n * ldd, 3);
    math::mlp<double, math::plain>::workspace ws;
    auto const objective = [&] {
      math::mlp<double, math::plain>::workspace fresh;
      double const* const y = stack.forward(p.data(), n, x.data(), ldx, fresh);
      double sum = 0;
      for (std::size_t i = 0; i < n; ++i)
        for (std::size_t j = 0; j < 2; ++j) sum += y[i * 2 + j] * d_out[i * ldd + j];
      return sum;
    };
    stack.forward(p.data(), n, x.data(), ldx, ws);
    std::vector<double> dx(n * ldx, not_a_number), g(stack.size(), not_a_number);
    stack.backward_inputs(p.data(), n, d_out.data(), ldd, ws, dx.data(), ldx);
    stack.backward_weights(n, x.data(), ldx, ws, g.data());
    double const step = 1e-6;
    auto const numeric = [&](double& v) {
      double const before = v;
      v = before + step;
      double const above = objective();
      v = before - step;
      double const below = objective();
      v = before;
      return (above - below) / (2 * step);
    };
    for (std::size_t i = 0; i < p.size(); ++i) CHECK(std::abs(g[i] - numeric(p[i])) <= 1e-8);
    for (std::size_t i = 0; i < n; ++i)
      for (std::size_t j = 0; j < 4; ++j) CHECK(std::abs(dx[i * ldx + j] - numeric(x[i * ldx + j])) <= 1e-8);
    CHECK(std::isnan(dx[4]));  // beyond the inputs nothing is written
    // Without dx the weights' gradients are the same.
    std::vector<double> again(stack.size(), not_a_number);
    stack.backward_inputs(p.data(), n, d_out.data(), ldd, ws, nullptr, 0);
    stack.backward_weights(n, x.data(), ldx, ws, again.data());
    CHECK(again == g);
  }
}
