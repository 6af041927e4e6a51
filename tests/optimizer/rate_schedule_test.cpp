#include <doctest/doctest.h>

#include <nestpipe/optimizer/rate_schedule.hpp>

#include <cmath>

namespace o = nestpipe::optimizer;

TEST_CASE("a schedule that says nothing is constant") {
  o::rate_schedule const s;
  for (std::uint64_t const step : {1ULL, 2ULL, 1000000ULL}) CHECK(s.factor(step) == 1.0f);
}

TEST_CASE("warm-up rises linearly, never from zero") {
  o::rate_schedule const s{.rise = {.steps = 4}};
  CHECK(s.factor(1) == 0.25f);
  CHECK(s.factor(2) == 0.5f);
  CHECK(s.factor(4) == 1.0f);
  CHECK(s.factor(5) == 1.0f);
}

TEST_CASE("polynomial decay: start, length, power and end") {
  o::rate_schedule const linear{.fall = {.start = 10, .steps = 100, .power = 1.0, .end = 0.2}};
  CHECK(linear.factor(1) == 1.0f);
  CHECK(linear.factor(10) == 1.0f);
  CHECK(static_cast<double>(linear.factor(60)) == doctest::Approx(0.6));
  CHECK(linear.factor(110) == 0.2f);
  CHECK(linear.factor(1000) == 0.2f);
  o::rate_schedule const square{.fall = {.start = 0, .steps = 100, .power = 2.0, .end = 0.0}};
  CHECK(static_cast<double>(square.factor(50)) == doctest::Approx(0.25));
}

TEST_CASE("composed, the factors multiply") {
  o::rate_schedule const s{.rise = {.steps = 100}, .fall = {.start = 0, .steps = 100}};
  CHECK(static_cast<double>(s.factor(50)) == doctest::Approx(0.25));
  CHECK(s == s);
  CHECK_FALSE(s == o::rate_schedule{});
}

TEST_CASE("values out of their domain are refused") {
  CHECK_THROWS_AS((o::rate_schedule{.fall = {.steps = 1, .power = 0.0}}.check()), nestpipe::config_error);
  CHECK_THROWS_AS((o::rate_schedule{.fall = {.steps = 1, .end = 1.5}}.check()), nestpipe::config_error);
  CHECK_THROWS_AS((o::rate_schedule{.fall = {.steps = 1, .end = std::nan("")}}.check()), nestpipe::config_error);
  CHECK_NOTHROW(o::rate_schedule{}.check());
}
