#include <doctest/doctest.h>

#include <nestpipe/comm/self.hpp>
#include <nestpipe/comm/threads.hpp>
#include <nestpipe/core/random.hpp>
#include <nestpipe/metric/collector.hpp>

#include <bit>
#include <cmath>
#include <vector>

namespace m = nestpipe::metric;
using floats = std::vector<float>;
using nestpipe::comm::threads;

namespace {

std::vector<std::uint64_t> bits(m::summary const& s) {
  std::vector<std::uint64_t> out{s.samples, s.positives};
  for (double const v : {s.auc, s.log_loss, s.normalized_entropy, s.calibration, s.rmse, s.accuracy, s.error})
    out.push_back(std::bit_cast<std::uint64_t>(v));
  return out;
}

constexpr std::size_t samples = 5003;

void data(floats& scores, floats& labels) {
  nestpipe::counter_random const random{8, 9, 10};
  for (std::size_t i = 0; i < samples; ++i) {
    scores.push_back(std::round(random.uniform(2 * i) * 500.0f) / 500.0f);
    labels.push_back(random.uniform(2 * i + 1) < scores.back() ? 1.0f : 0.0f);
  }
}

}  // namespace

TEST_CASE("a summary has one and the same bits on 1, 2, 3 and 4 ranks, however the samples are spread") {
  floats scores, labels;
  data(scores, labels);
  m::collector alone;
  alone.add(scores, labels);
  m::summary const whole = alone.summarize();
  CHECK(whole.samples == samples);
  CHECK(whole.auc == m::auc(scores, labels));
  CHECK(whole.log_loss == doctest::Approx(m::log_loss(scores, labels)).epsilon(1e-12));
  CHECK(whole.normalized_entropy == doctest::Approx(m::normalized_entropy(scores, labels)).epsilon(1e-12));
  CHECK(whole.calibration == doctest::Approx(m::calibration(scores, labels)).epsilon(1e-12));
  CHECK(whole.rmse == doctest::Approx(m::rmse(scores, labels)).epsilon(1e-12));
  CHECK(whole.accuracy + whole.error == doctest::Approx(1.0));
  for (std::size_t const ranks : {1, 2, 3, 4}) {
    for (bool const last_has_none : {false, true}) {
      CAPTURE(ranks);
      std::vector<std::vector<std::uint64_t>> seen(ranks);
      threads::run(ranks, [&](threads& comm) {
        auto channel = comm.channel("control");
        m::collector mine;
        std::size_t const sharers = last_has_none && ranks > 1 ? ranks - 1 : ranks;
        for (std::size_t i = 0; i < samples; ++i) {
          if (i * i % sharers == comm.rank()) mine.add(std::span{scores}.subspan(i, 1), std::span{labels}.subspan(i, 1));
        }
        mine.gather(channel, comm.size());
        seen[comm.rank()] = bits(mine.summarize());
      });
      for (auto const& s : seen) CHECK(s == bits(whole));
    }
  }
}

TEST_CASE("one rank needs no channel's help") {
  nestpipe::comm::self comm;
  auto channel = comm.channel("control");
  m::collector c;
  c.add(floats{0.2f, 0.8f}, floats{0, 1});
  c.gather(channel, 1);
  CHECK(c.summarize().auc == 1.0);
  c.clear();
  CHECK(c.size() == 0);
}

TEST_CASE("no samples: zeros and NaN, on every rank") {
  threads::run(2, [](threads& comm) {
    auto channel = comm.channel("control");
    m::collector c;
    c.gather(channel, comm.size());
    m::summary const s = c.summarize();
    bool const defined = s.samples == 0 && s.positives == 0 && std::isnan(s.auc) && std::isnan(s.log_loss) && std::isnan(s.normalized_entropy) &&
                         std::isnan(s.calibration) && std::isnan(s.rmse) && std::isnan(s.accuracy) && std::isnan(s.error);
    if (!defined) throw nestpipe::error{"summary of nothing is not as defined"};
  });
}

TEST_CASE("one class: what needs two is NaN, the rest is there") {
  m::collector c;
  c.add(floats{0.25f, 0.75f}, floats{1, 1});
  m::summary const s = c.summarize();
  CHECK(s.positives == 2);
  CHECK(std::isnan(s.auc));
  CHECK(std::isnan(s.normalized_entropy));
  CHECK(s.log_loss == doctest::Approx(-0.5 * (std::log(0.25) + std::log(0.75))));
  CHECK(s.calibration == 0.5);
  CHECK(s.accuracy == 0.5);
  CHECK(s.error == 0.5);
}

TEST_CASE("a prediction that is NaN shows in every figure it touches") {
  m::collector c;
  c.add(floats{std::nanf(""), 0.75f}, floats{0, 1});
  m::summary const s = c.summarize();
  CHECK(s.samples == 2);
  CHECK(std::isnan(s.auc));
  CHECK(std::isnan(s.log_loss));
  CHECK(std::isnan(s.rmse));
  CHECK(std::isnan(s.accuracy));
}

TEST_CASE("labels of a regression: rmse and calibration only") {
  m::collector c;
  c.add(floats{3.0f, -1.0f}, floats{4.0f, -3.0f});
  m::summary const s = c.summarize();
  CHECK(s.rmse == std::sqrt(2.5));
  CHECK(s.calibration == 2.0);
  CHECK(std::isnan(s.auc));
  CHECK(std::isnan(s.log_loss));
}

TEST_CASE("summing up twice, or adding after it, works") {
  floats scores, labels;
  data(scores, labels);
  m::collector c;
  c.add(std::span{scores}.first(100), std::span{labels}.first(100));
  auto const first = bits(c.summarize());
  CHECK(bits(c.summarize()) == first);
  c.add(std::span{scores}.subspan(100), std::span{labels}.subspan(100));
  m::collector whole;
  whole.add(scores, labels);
  CHECK(bits(c.summarize()) == bits(whole.summarize()));
}
