#include <doctest/doctest.h>

#include <nestpipe/core/random.hpp>
#include <nestpipe/metric/auc.hpp>
#include <nestpipe/metric/binned_auc.hpp>

#include <cmath>
#include <vector>

namespace m = nestpipe::metric;
using floats = std::vector<float>;

TEST_CASE("the exact AUC lies within the stated bound, which shrinks with bins") {
  for (int const shape : {0, 1, 2}) {
    nestpipe::counter_random const random{1, 2, static_cast<std::uint64_t>(shape)};
    floats scores, labels;
    for (std::uint64_t i = 0; i < 20000; ++i) {
      float p = random.uniform(2 * i);
      if (shape == 1) p = p * p * p * 0.1f;              // small probabilities, as clicks have
      if (shape == 2) p = std::round(p * 20.0f) / 20.0f;  // many ties
      scores.push_back(p);
      labels.push_back(random.uniform(2 * i + 1) < p ? 1.0f : 0.0f);
    }
    double const exact = m::auc(scores, labels);
    double last = 1.0;
    for (std::size_t const bins : {1, 7, 64, 1024, 65536}) {
      CAPTURE(bins);
      m::binned_auc binned{bins};
      binned.add(scores, labels);
      CHECK(std::abs(binned.value() - exact) <= binned.error_bound() + 1e-12);
      CHECK(binned.error_bound() <= last + 1e-12);
      last = binned.error_bound();
    }
    if (shape == 0) CHECK(last < 1e-4);
  }
}

TEST_CASE("the bound is reached: all pairs of one bin on the right side") {
  m::binned_auc binned{2};
  binned.add(floats{0.1f, 0.2f}, floats{0, 1});
  CHECK(binned.value() == 0.5);
  CHECK(binned.error_bound() == 0.5);
}

TEST_CASE("counts of ranks add up to the bits of one") {
  nestpipe::counter_random const random{4, 5, 6};
  m::binned_auc whole{256}, parts[3] = {m::binned_auc{256}, m::binned_auc{256}, m::binned_auc{256}};
  for (std::uint64_t i = 0; i < 3000; ++i) {
    float const p = random.uniform(2 * i), y = random.uniform(2 * i + 1) < p ? 1.0f : 0.0f;
    whole.add(p, y);
    parts[i % 3].add(p, y);
  }
  parts[2] += parts[0];
  parts[2] += parts[1];
  CHECK(parts[2].value() == whole.value());
  CHECK(parts[2].error_bound() == whole.error_bound());
  CHECK_THROWS_AS(whole += m::binned_auc{255}, nestpipe::config_error);
}

TEST_CASE("scores beyond [0, 1], NaN, one class, nothing") {
  m::binned_auc binned{16};
  CHECK(std::isnan(binned.value()));
  binned.add(-5.0f, 0.0f);
  binned.add(-6.0f, 0.0f);
  CHECK(std::isnan(binned.value()));
  CHECK(std::isnan(binned.error_bound()));
  binned.add(1e30f, 1.0f);
  CHECK(binned.value() == 1.0);
  binned.add(std::nanf(""), 1.0f);
  CHECK(std::isnan(binned.value()));
  binned.clear();
  binned.add(floats{0.0f, 1.0f}, floats{0, 1});
  CHECK(binned.value() == 1.0);
  CHECK_THROWS_AS(m::binned_auc{0}, nestpipe::config_error);
}
