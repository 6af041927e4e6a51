#include <doctest/doctest.h>

#include <nestpipe/core/random.hpp>
#include <nestpipe/metric/calibration.hpp>
#include <nestpipe/metric/log_loss.hpp>
#include <nestpipe/metric/normalized_entropy.hpp>
#include <nestpipe/metric/rmse.hpp>

#include <cmath>
#include <vector>

namespace m = nestpipe::metric;
using floats = std::vector<float>;

TEST_CASE("log loss") {
  CHECK(m::log_loss(floats{0.25f}, floats{1}) == doctest::Approx(std::log(4.0)).epsilon(1e-15));
  CHECK(m::log_loss(floats{0.25f, 0.25f}, floats{1, 0}) == doctest::Approx(-0.5 * (std::log(0.25) + std::log(0.75))).epsilon(1e-15));
  CHECK(m::log_loss(floats{0.25f, 0.25f}, floats{1, 0}, floats{3, 1}) ==
        doctest::Approx(-0.25 * (3 * std::log(0.25) + std::log(0.75))).epsilon(1e-15));
  CHECK(m::log_loss(floats{0.5f}, floats{0.3f}) == doctest::Approx(std::log(2.0)).epsilon(1e-15));   // a soft label
  CHECK(m::log_loss(floats{0.0f}, floats{1}) == doctest::Approx(-std::log(1e-7)).epsilon(1e-12));     // the clamp
  CHECK(m::log_loss(floats{1.0f}, floats{0}) == doctest::Approx(-std::log(1e-7)).epsilon(1e-8));
  CHECK(m::log_loss(floats{1.0f}, floats{1}) == doctest::Approx(1e-7).epsilon(1e-6));
  CHECK(std::isnan(m::log_loss(floats{}, floats{})));
  CHECK(std::isnan(m::log_loss(floats{std::nanf(""), 0.5f}, floats{1, 0})));
  CHECK(std::isnan(m::log_loss(floats{0.5f}, floats{1}, floats{0})));
  CHECK_THROWS_AS(m::log_loss(floats{0.5f}, floats{1, 0}), nestpipe::config_error);
}

TEST_CASE("normalised entropy is 1 for the base rate and undefined for one class") {
  CHECK(m::normalized_entropy(floats{0.25f, 0.25f, 0.25f, 0.25f}, floats{1, 0, 0, 0}) == doctest::Approx(1.0).epsilon(1e-12));
  CHECK(m::normalized_entropy(floats{0.9f, 0.1f, 0.1f, 0.1f}, floats{1, 0, 0, 0}) < 0.2);
  CHECK(m::normalized_entropy(floats{0.5f, 0.5f}, floats{1, 0}, floats{1, 3}) ==
        doctest::Approx(std::log(2.0) / -(0.25 * std::log(0.25) + 0.75 * std::log(0.75))).epsilon(1e-12));
  CHECK(std::isnan(m::normalized_entropy(floats{0.5f, 0.5f}, floats{1, 1})));
  CHECK(std::isnan(m::normalized_entropy(floats{0.5f, 0.5f}, floats{0, 0})));
  CHECK(std::isnan(m::normalized_entropy(floats{}, floats{})));
}

TEST_CASE("calibration") {
  CHECK(m::calibration(floats{0.5f, 0.75f}, floats{1, 0}) == 1.25);
  CHECK(m::calibration(floats{0.5f, 0.75f}, floats{1, 0}, floats{2, 4}) == 2.0);
  CHECK(std::isnan(m::calibration(floats{0.5f}, floats{0})));
  CHECK(std::isnan(m::calibration(floats{}, floats{})));
}

TEST_CASE("rmse") {
  CHECK(m::rmse(floats{1, 2}, floats{4, 6}) == std::sqrt(12.5));
  CHECK(m::rmse(floats{1, 2}, floats{4, 6}, floats{1, 0}) == 3.0);
  CHECK(m::rmse(floats{1}, floats{1}) == 0.0);
  CHECK(std::isnan(m::rmse(floats{}, floats{})));
}

TEST_CASE("sums go in blocks: a long input agrees with long double") {
  nestpipe::counter_random const random{1, 1, 1};
  floats p, y;
  long double loss = 0;
  for (std::uint64_t i = 0; i < 100001; ++i) {
    p.push_back(0.05f + 0.9f * random.uniform(2 * i));
    y.push_back(random.uniform(2 * i + 1) < p.back() ? 1.0f : 0.0f);
    loss -= std::log(y.back() > 0.5f ? static_cast<long double>(p.back()) : 1.0L - static_cast<long double>(p.back()));
  }
  CHECK(m::log_loss(p, y) == doctest::Approx(static_cast<double>(loss / 100001.0L)).epsilon(1e-13));
}
