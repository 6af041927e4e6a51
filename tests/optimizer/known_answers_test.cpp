// Ten steps of each optimizer against references in double precision, written from the published formulas.

#include <doctest/doctest.h>

#include <nestpipe/core/random.hpp>
#include <nestpipe/optimizer/adagrad.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/optimizer/ftrl.hpp>
#include <nestpipe/optimizer/momentum.hpp>
#include <nestpipe/optimizer/rowwise_adagrad.hpp>
#include <nestpipe/optimizer/sgd.hpp>

#include <cmath>
#include <functional>
#include <vector>

namespace o = nestpipe::optimizer;
using vec = std::vector<double>;

namespace {

/// Steps of a reference: weights in place, its own state in the closure; t counts from 1.
using reference = std::function<void(vec& w, vec const& g, int t)>;

/// Elements of about 1 in size that keep their sign over ten steps, so that relative errors of elements make sense.
float first_value(std::size_t dim, std::size_t i) {
  float const u = nestpipe::counter_random{11, dim, 0}.uniform(i);
  return (i % 2 == 0 ? 1.0f : -1.0f) * (0.8f + 0.4f * u);
}

/// @param lag  the row is updated at every lag-th global step only
template <class O>
void check_ten_steps(O const& optimizer, reference const& step, std::size_t dim, int lag = 1, double factor = 1.0) {
  CAPTURE(dim);
  std::vector<float> row(dim + optimizer.state_size(dim)), gradient(dim);
  vec w(dim), g(dim);
  for (std::size_t i = 0; i < dim; ++i) w[i] = row[i] = first_value(dim, i);
  optimizer.initialize(row.data() + dim, dim);
  for (int k = 1; k <= 10; ++k) {
    int const t = k * lag;
    nestpipe::counter_random const random{5, dim, static_cast<std::uint64_t>(k)};
    for (std::size_t i = 0; i < dim; ++i) g[i] = gradient[i] = 0.3f * random.normal(i) + 0.01f;
    optimizer.update(row.data(), row.data() + dim, gradient.data(), dim,
                     optimizer.prepare(static_cast<std::uint64_t>(t), static_cast<float>(factor)));
    step(w, g, t);
  }
  double moved = 0.0;
  for (std::size_t i = 0; i < dim; ++i) {
    CAPTURE(i);
    CHECK(std::abs(static_cast<double>(row[i]) - w[i]) <= 1e-6 * std::abs(w[i]));
    moved += std::abs(w[i] - static_cast<double>(first_value(dim, i)));
  }
  CHECK(moved > 1e-3);
}

constexpr std::size_t dims[] = {1, 3, 8, 16, 33, 64, 100};

reference ref_sgd(double rate, double decay) {
  return [=](vec& w, vec const& g, int) {
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= rate * (g[i] + decay * w[i]);
  };
}

// torch.optim.SGD, as documented: b_1 = g_1, b_t = mu b_{t-1} + g_t; Nesterov uses g_t + mu b_t.
reference ref_momentum(double rate, double mu, bool nesterov, double decay) {
  return [=, b = vec{}](vec& w, vec const& g0, int) mutable {
    bool const first = b.empty();
    b.resize(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      double const g = g0[i] + decay * w[i];
      b[i] = first ? g : mu * b[i] + g;
      w[i] -= rate * (nesterov ? g + mu * b[i] : b[i]);
    }
  };
}

// torch.optim.Adagrad with lr_decay 0.
reference ref_adagrad(double rate, double eps, double initial, double decay) {
  return [=, s = vec{}](vec& w, vec const& g0, int) mutable {
    if (s.empty()) s.assign(w.size(), initial);
    for (std::size_t i = 0; i < w.size(); ++i) {
      double const g = g0[i] + decay * w[i];
      s[i] += g * g;
      w[i] -= rate * g / (std::sqrt(s[i]) + eps);
    }
  };
}

// FBGEMM, rowwise: one sum of the mean square.
reference ref_rowwise_adagrad(double rate, double eps, double initial, double decay) {
  return [=, s = initial](vec& w, vec const& g0, int) mutable {
    double mean = 0.0;
    for (std::size_t i = 0; i < w.size(); ++i) mean += std::pow(g0[i] + decay * w[i], 2);
    s += mean / static_cast<double>(w.size());
    double const multiplier = rate / (std::sqrt(s) + eps);
    for (std::size_t i = 0; i < w.size(); ++i) w[i] -= multiplier * (g0[i] + decay * w[i]);
  };
}

// torch.optim.Adam, as documented, with m-hat and v-hat written out.
reference ref_adam(double rate, double beta1, double beta2, double eps, double decay) {
  return [=, m = vec{}, v = vec{}](vec& w, vec const& g0, int t) mutable {
    m.resize(w.size());
    v.resize(w.size());
    for (std::size_t i = 0; i < w.size(); ++i) {
      double const g = g0[i] + decay * w[i];
      m[i] = beta1 * m[i] + (1 - beta1) * g;
      v[i] = beta2 * v[i] + (1 - beta2) * g * g;
      double const m_hat = m[i] / (1 - std::pow(beta1, t));
      double const v_hat = v[i] / (1 - std::pow(beta2, t));
      w[i] -= rate * m_hat / (std::sqrt(v_hat) + eps);
    }
  };
}

// McMahan et al. 2013, algorithm 1; z of the start chosen so that w(z, 0) with lambda1 = 0 is the first value.
reference ref_ftrl(double alpha, double beta, double l1, double l2) {
  return [=, z = vec{}, n = vec{}](vec& w, vec const& g, int) mutable {
    if (z.empty()) {
      n.resize(w.size());
      for (double const x : w) z.push_back(-x * (beta / alpha + l2));
    }
    for (std::size_t i = 0; i < w.size(); ++i) {
      double const sigma = (std::sqrt(n[i] + g[i] * g[i]) - std::sqrt(n[i])) / alpha;
      z[i] += g[i] - sigma * w[i];
      n[i] += g[i] * g[i];
      double const sign = z[i] > 0 ? 1.0 : -1.0;
      w[i] = std::abs(z[i]) <= l1 ? 0.0 : -(z[i] - sign * l1) / ((beta + std::sqrt(n[i])) / alpha + l2);
    }
  };
}

}  // namespace

TEST_CASE("sgd") {
  for (std::size_t const dim : dims) {
    check_ten_steps(o::sgd{}, ref_sgd(0.01, 0), dim);
    check_ten_steps(o::sgd{.rate = 0.05, .weight_decay = 0.1}, ref_sgd(0.05, 0.1), dim);
    check_ten_steps(o::sgd{.rate = 0.05}, ref_sgd(0.025, 0), dim, 1, 0.5);
  }
}

TEST_CASE("momentum") {
  for (std::size_t const dim : dims) {
    check_ten_steps(o::momentum{}, ref_momentum(0.01, 0.9, false, 0), dim);
    check_ten_steps(o::momentum{.rate = 0.005, .momentum_factor = 0.95, .weight_decay = 0.02}, ref_momentum(0.005, 0.95, false, 0.02), dim);
    check_ten_steps(o::momentum{.rate = 0.005, .nesterov = true, .weight_decay = 0.02}, ref_momentum(0.005, 0.9, true, 0.02), dim);
  }
}

TEST_CASE("adagrad") {
  for (std::size_t const dim : dims) {
    check_ten_steps(o::adagrad{}, ref_adagrad(0.01, 1e-10, 0, 0), dim);
    check_ten_steps(o::adagrad{.rate = 0.02, .eps = 1e-2, .initial_accumulator = 0.1, .weight_decay = 0.01},
                    ref_adagrad(0.02, 1e-2, 0.1, 0.01), dim);
  }
}

TEST_CASE("rowwise_adagrad") {
  for (std::size_t const dim : dims) {
    check_ten_steps(o::rowwise_adagrad{}, ref_rowwise_adagrad(0.01, 1e-8, 0, 0), dim);
    check_ten_steps(o::rowwise_adagrad{.rate = 0.02, .eps = 1e-2, .initial_accumulator = 0.1, .weight_decay = 0.01},
                    ref_rowwise_adagrad(0.02, 1e-2, 0.1, 0.01), dim);
  }
}

TEST_CASE("adam") {
  for (std::size_t const dim : dims) {
    check_ten_steps(o::adam{.rate = 0.005}, ref_adam(0.005, 0.9, 0.999, 1e-8, 0), dim);
    check_ten_steps(o::adam{.rate = 0.01, .beta1 = 0.8, .beta2 = 0.95, .eps = 1e-3, .weight_decay = 0.01},
                    ref_adam(0.01, 0.8, 0.95, 1e-3, 0.01), dim);
    // A row touched at every seventh step: moments decay by update, the corrections by the global step.
    check_ten_steps(o::adam{.rate = 0.005}, ref_adam(0.005, 0.9, 0.999, 1e-8, 0), dim, 7);
  }
}

TEST_CASE("adam over tables of different dims does not mix their moments") {
  o::adam const adam{};
  auto const c = adam.prepare(1, 1.0f);
  std::vector<float> narrow(3 * 3), wide(3 * 5);
  std::vector<float> const g(5, 0.5f);
  adam.update(narrow.data(), narrow.data() + 3, g.data(), 3, c);
  adam.update(wide.data(), wide.data() + 5, g.data(), 5, c);
  for (std::size_t i = 0; i < 3; ++i) {
    CHECK(narrow[3 + i] == wide[5 + i]);       // first moments
    CHECK(narrow[6 + i] == wide[10 + i]);      // second moments
    CHECK(narrow[i] == wide[i]);
  }
}

TEST_CASE("ftrl") {
  for (std::size_t const dim : dims) {
    check_ten_steps(o::ftrl{}, ref_ftrl(0.1, 1.0, 0, 0), dim);
    check_ten_steps(o::ftrl{.rate = 0.05, .beta = 0.5, .lambda1 = 0.1, .lambda2 = 0.2}, ref_ftrl(0.05, 0.5, 0.1, 0.2), dim);
  }
}

TEST_CASE("ftrl starts from zero as the paper does, and keeps a first value that no gradient moved") {
  o::ftrl const f{.rate = 0.1, .beta = 1.0, .lambda1 = 0.05, .lambda2 = 0.0};
  float row[3] = {0.0f, 0.0f, 0.7f}, state[6];
  f.initialize(state, 3);
  float const small[3] = {0.04f, 0.2f, 0.0f};
  f.update(row, state, small, 3, f.prepare(1, 1.0f));
  CHECK(row[0] == 0.0f);                                              // |z| = .04 is below lambda1
  CHECK(static_cast<double>(row[1]) == doctest::Approx(-(0.2 - 0.05) / ((1.0 + 0.2) / 0.1)).epsilon(1e-6));
  CHECK(static_cast<double>(row[2]) == doctest::Approx(0.7 - 0.05 / 10.0).epsilon(1e-6));  // z = -7, shrunk by lambda1
  o::ftrl const no_l1{};
  float kept = 0.7f, kept_state[2];
  no_l1.initialize(kept_state, 1);
  float const zero = 0.0f;
  no_l1.update(&kept, kept_state, &zero, 1, no_l1.prepare(1, 1.0f));
  CHECK(static_cast<double>(kept) == doctest::Approx(0.7).epsilon(1e-6));
}

TEST_CASE("the first steps by hand") {
  // One element, w = 1, g = .5.
  auto const one = [](auto const& optimizer) {
    float row = 1.0f, state[2] = {};
    float const g = 0.5f;
    optimizer.initialize(state, 1);
    optimizer.update(&row, state, &g, 1, optimizer.prepare(1, 1.0f));
    return static_cast<double>(row);
  };
  CHECK(one(o::sgd{.rate = 0.1}) == doctest::Approx(0.95));
  CHECK(one(o::momentum{.rate = 0.1}) == doctest::Approx(0.95));
  CHECK(one(o::momentum{.rate = 0.1, .nesterov = true}) == doctest::Approx(1.0 - 0.1 * (0.5 + 0.9 * 0.5)));
  CHECK(one(o::adagrad{.rate = 0.1}) == doctest::Approx(0.9));            // g / sqrt(g^2) = 1
  CHECK(one(o::adagrad{.rate = 0.1, .eps = 0.5}) == doctest::Approx(0.95));  // eps outside the root
  CHECK(one(o::rowwise_adagrad{.rate = 0.1, .eps = 0.5}) == doctest::Approx(0.95));
  CHECK(one(o::adam{.rate = 0.1}) == doctest::Approx(0.9));
  CHECK(one(o::adam{.rate = 0.1, .eps = 0.5}) == doctest::Approx(0.95));
}
