#include "optimizer_conformance.hpp"

#include <nestpipe/optimizer/adagrad.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/optimizer/any_of.hpp>
#include <nestpipe/optimizer/ftrl.hpp>
#include <nestpipe/optimizer/momentum.hpp>
#include <nestpipe/optimizer/rowwise_adagrad.hpp>
#include <nestpipe/optimizer/sgd.hpp>

#include <limits>

namespace o = nestpipe::optimizer;
using optimizer_conformance::check_optimizer;
using some = o::any_of<o::sgd, o::momentum, o::adagrad, o::rowwise_adagrad, o::adam, o::ftrl>;

TEST_CASE_TEMPLATE("an optimizer is a pure function of row, state, gradient and step", O, o::sgd, o::momentum, o::adagrad,
                   o::rowwise_adagrad, o::adam, o::ftrl) {
  check_optimizer(O{});
  check_optimizer(some{O{}});
  CHECK_NOTHROW(O{}.check());
}

TEST_CASE("so it is with every option set") {
  check_optimizer(o::sgd{.rate = 0.05, .weight_decay = 0.01});
  check_optimizer(o::momentum{.rate = 0.01, .momentum_factor = 0.8, .nesterov = true, .weight_decay = 0.01});
  check_optimizer(o::adagrad{.rate = 0.05, .eps = 1e-8, .initial_accumulator = 0.1, .weight_decay = 0.01});
  check_optimizer(o::rowwise_adagrad{.rate = 0.05, .eps = 1e-6, .initial_accumulator = 0.1, .weight_decay = 0.01});
  check_optimizer(o::adam{.rate = 0.01, .beta1 = 0.8, .beta2 = 0.99, .eps = 1e-7, .weight_decay = 0.01});
  check_optimizer(o::ftrl{.rate = 0.05, .beta = 0.5, .lambda1 = 0.01, .lambda2 = 0.02});
}

TEST_CASE("state sizes") {
  CHECK(o::sgd{}.state_size(16) == 0);
  CHECK(o::momentum{}.state_size(16) == 16);
  CHECK(o::adagrad{}.state_size(16) == 16);
  CHECK(o::rowwise_adagrad{}.state_size(16) == 1);
  CHECK(o::adam{}.state_size(16) == 32);
  CHECK(o::ftrl{}.state_size(16) == 32);
}

TEST_CASE("a value out of its domain is refused by name") {
  double const nan = std::numeric_limits<double>::quiet_NaN();
  CHECK_THROWS_WITH_AS(o::sgd{.rate = nan}.check(), doctest::Contains("sgd: rate is nan"), nestpipe::config_error);
  CHECK_THROWS_WITH_AS(o::momentum{.momentum_factor = 1.0}.check(), doctest::Contains("momentum_factor"), nestpipe::config_error);
  CHECK_THROWS_WITH_AS(o::adagrad{.eps = 0.0}.check(), doctest::Contains("adagrad: eps"), nestpipe::config_error);
  CHECK_THROWS_WITH_AS(o::adagrad{.eps = 1e-50}.check(), doctest::Contains("adagrad: eps"), nestpipe::config_error);
  CHECK_THROWS_WITH_AS(o::rowwise_adagrad{.weight_decay = -1.0}.check(), doctest::Contains("weight_decay"), nestpipe::config_error);
  CHECK_THROWS_WITH_AS(o::adam{.beta2 = 1.0}.check(), doctest::Contains("beta2"), nestpipe::config_error);
  CHECK_THROWS_WITH_AS(o::ftrl{.rate = 0.0}.check(), doctest::Contains("ftrl: rate"), nestpipe::config_error);
  CHECK_THROWS_AS(some{o::adam{.rate = -1.0}}.check(), nestpipe::config_error);
}
