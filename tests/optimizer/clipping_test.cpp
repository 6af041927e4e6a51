#include <doctest/doctest.h>

#include <nestpipe/core/random.hpp>
#include <nestpipe/optimizer/clipping.hpp>

#include <limits>
#include <vector>

namespace o = nestpipe::optimizer;

TEST_CASE("the norm is that of long double, whatever the length") {
  nestpipe::counter_random const random{1, 2, 3};
  for (std::size_t const n : {0, 1, 7, 8, 9, 63, 64, 65, 1000}) {
    std::vector<float> v(n);
    long double sum = 0;
    for (std::size_t i = 0; i < n; ++i) {
      v[i] = random.normal(i);
      sum += static_cast<long double>(v[i]) * static_cast<long double>(v[i]);
    }
    CHECK(o::squared_norm(v.data(), n) == doctest::Approx(static_cast<double>(sum)).epsilon(1e-14));
  }
}

TEST_CASE("below the limit nothing changes, above it the norm becomes the limit") {
  std::vector<float> v{3.0f, 4.0f};
  CHECK(o::clip_by_norm{.max_norm = 5.0}.apply(v.data(), 2) == 1.0f);
  CHECK(v == std::vector<float>{3.0f, 4.0f});
  CHECK(o::clip_by_norm{.max_norm = 2.5}.apply(v.data(), 2) == 0.5f);
  CHECK(v == std::vector<float>{1.5f, 2.0f});
}

TEST_CASE("zero switches clipping off") {
  std::vector<float> v{3e30f, 4e30f};
  CHECK(o::clip_by_norm{}.apply(v.data(), 2) == 1.0f);
  CHECK(v[1] == 4e30f);
}

TEST_CASE("a huge finite gradient does not overflow; one that is not finite is left to be seen") {
  std::vector<float> v{3e38f, 3e38f};
  o::clip_by_norm const clip{.max_norm = 1.0};
  clip.apply(v.data(), 2);
  CHECK(static_cast<double>(v[0]) == doctest::Approx(0.70710678));
  std::vector<float> bad{1.0f, std::numeric_limits<float>::infinity()};
  CHECK(clip.apply(bad.data(), 2) == 1.0f);
  CHECK(bad[0] == 1.0f);
  bad[1] = std::numeric_limits<float>::quiet_NaN();
  CHECK(clip.apply(bad.data(), 2) == 1.0f);
  CHECK(bad[0] == 1.0f);
}

TEST_CASE("a limit out of its domain is refused") {
  CHECK_THROWS_AS(o::clip_by_norm{.max_norm = -1.0}.check(), nestpipe::config_error);
  CHECK_THROWS_AS(o::clip_by_norm{.max_norm = std::numeric_limits<double>::quiet_NaN()}.check(), nestpipe::config_error);
}
