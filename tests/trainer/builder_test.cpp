#include <doctest/doctest.h>

#include <nestpipe/nestpipe.hpp>

#include <support/click_stream.hpp>

#include <type_traits>

namespace np = nestpipe;

namespace {

using logistic = np::model::logistic<float, np::math::plain>;

np::trainer_config small() {
  np::trainer_config c;
  c.batch_size = 64;
  c.micro_batches = 2;
  c.cardinality = 150;
  return c;
}

np::test::click_stream stream() {
  np::test::stream_options o;
  o.rows = 400;
  return np::test::click_stream{o};
}

}  // namespace

TEST_CASE("parts come in any order, defaults fill the rest, and the trainer is made in place") {
  auto a = np::make_trainer().model(logistic{}).comm(np::comm::self{}).build();
  static_assert(std::is_same_v<decltype(a), np::trainer<logistic, np::storage::hashed<>, np::comm::self, np::schedule::nested, np::optimizer::rowwise_adagrad, np::optimizer::adam>>);
  static_assert(!std::is_copy_constructible_v<decltype(a)> && !std::is_move_constructible_v<decltype(a)>);
  CHECK(a.config().batch_size == np::trainer_config{}.batch_size);

  auto b = np::make_trainer()
               .reduction(np::reduction::native{})
               .executor<np::exec::inline_lanes>()
               .config(small())
               .dense_optimizer(np::optimizer::sgd{.rate = 0.5})
               .comm(np::comm::self{})
               .schedule(np::schedule::prefetch{.ahead = 4})
               .row_optimizer(np::optimizer::sgd{.rate = 0.25})
               .storage(np::storage::dense{})
               .model(logistic{})
               .build();
  static_assert(std::is_same_v<decltype(b), np::trainer<logistic, np::storage::dense, np::comm::self, np::schedule::prefetch, np::optimizer::sgd, np::optimizer::sgd, np::exec::inline_lanes,
                                                        np::reduction::native>>);
  CHECK(b.config().batch_size == 64);
  auto const fitted = b.fit(stream());
  CHECK(fitted.samples == stream().good_rows());
  CHECK(b.engine().rows().optimizer().rate == 0.25);  // values, not only types
  CHECK(b.engine().dense().optimizer().rate == 0.5);
}

TEST_CASE("a builder is a value: a common part can be finished in several ways, with equal results") {
  auto const common = np::make_trainer().comm(np::comm::self{}).config({.batch_size = 64, .micro_batches = 2}).model(logistic{}).row_optimizer(np::optimizer::adagrad{.rate = 0.1});
  auto plain = common.schedule(np::schedule::sequential{}).executor<np::exec::inline_lanes>().build();
  auto nested = common.schedule(np::schedule::nested{}).build();
  np::trainer<logistic, np::storage::hashed<>, np::comm::self, np::schedule::sequential, np::optimizer::adagrad, np::optimizer::adam> by_name{
      {.batch_size = 64, .micro_batches = 2}, np::comm::self{}, {.row_optimizer = {.rate = 0.1}}};
  plain.fit(stream());
  nested.fit(stream());
  by_name.fit(stream());
  CHECK(plain.parameters_digest() == nested.parameters_digest());
  CHECK(plain.parameters_digest() == by_name.parameters_digest());
}

TEST_CASE("bad values are refused with a sentence") {
  auto const refuse = [](np::trainer_config c) {
    try {
      auto t = np::make_trainer().model(logistic{}).comm(np::comm::self{}).config(std::move(c)).build();
      t.fit(stream());
    } catch (np::config_error const& e) {
      return std::string{e.what()};
    }
    return std::string{};
  };
  auto const has = [](std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; };
  np::trainer_config c = small();
  c.dim = 0;
  CHECK(has(refuse(c), "dim must be at least 1"));
  c = small();
  c.batch_size = 0;
  CHECK(has(refuse(c), "batch size"));
  c = small();
  c.micro_batches = 0;
  CHECK(has(refuse(c), "micro-batches"));
  c = small();
  c.batches_in_flight = 1;
  CHECK(has(refuse(c), "batches in flight"));
  c = small();
  c.features = {{"f0", "t"}};
  c.tables = {{"t", 1}};
  CHECK(has(refuse(c), "5 features"));
  c.features = {{"f0", "t"}, {"f1", "t"}, {"f2", "t"}, {"f4", "t"}, {"f3", "t"}};
  CHECK(has(refuse(c), "f4"));
  c.features = {{"f0", "t"}, {"f1", "t"}, {"f2", "none"}, {"f3", "t"}, {"f4", "t"}};
  CHECK(has(refuse(c), "table none"));
  CHECK(refuse(small()).empty());
}
