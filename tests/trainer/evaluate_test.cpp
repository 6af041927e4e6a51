// Metrics and predictions: the same on every rank and for any number of ranks; evaluation creates nothing.
#include <doctest/doctest.h>

#include <nestpipe/comm/threads.hpp>
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/logistic.hpp>
#include <nestpipe/optimizer/adagrad.hpp>
#include <nestpipe/optimizer/sgd.hpp>
#include <nestpipe/schedule/nested.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/trainer.hpp>

#include <support/click_stream.hpp>

#include <cmath>
#include <cstring>
#include <map>
#include <mutex>
#include <vector>

namespace np = nestpipe;

namespace {

using trainer_type = np::trainer<np::model::logistic<float, np::math::plain>, np::storage::hashed<>, np::comm::threads, np::schedule::nested, np::optimizer::adagrad, np::optimizer::sgd>;

np::trainer_config config(std::size_t ranks) {
  np::trainer_config c;
  c.batch_size = 60;
  c.micro_batches = 12 / ranks;
  return c;
}

np::test::click_stream train_data() {
  np::test::stream_options o;
  o.rows = 700;
  return np::test::click_stream{o};
}

/// Every third key was never trained.
np::test::click_stream held_out() {
  np::test::stream_options o;
  o.rows = 333;
  o.seed = 5;
  o.key = [](std::size_t, std::uint64_t, np::key_type k) { return k % 3 == 0 ? k + 1'000'000 : k; };
  return np::test::click_stream{o};
}

bool same_bits(double a, double b) { return std::memcmp(&a, &b, sizeof a) == 0; }

bool same_bits(np::metric::summary const& a, np::metric::summary const& b) {
  return a.samples == b.samples && a.positives == b.positives && same_bits(a.auc, b.auc) && same_bits(a.log_loss, b.log_loss) && same_bits(a.normalized_entropy, b.normalized_entropy) &&
         same_bits(a.calibration, b.calibration) && same_bits(a.rmse, b.rmse) && same_bits(a.accuracy, b.accuracy);
}

}  // namespace

TEST_CASE("metrics have the same bits on every rank, for 1, 2, 3 and 4 ranks; evaluation creates no rows") {
  np::metric::summary reference;
  std::map<std::uint64_t, float> scores;
  for (std::size_t const ranks : {1U, 2U, 3U, 4U}) {
    std::map<std::uint64_t, float> mine;
    std::mutex mutex;
    np::comm::threads::run(ranks, [&](np::comm::threads& comm) {
      trainer_type t{config(ranks), comm};
      t.fit(train_data());
      auto const rows = t.engine().rows().rows();
      auto const digest = t.parameters_digest();
      auto const summary = t.evaluate(held_out());
      auto const predicted = t.predict(held_out());
      CHECK(t.engine().rows().rows() == rows);
      CHECK(t.parameters_digest() == digest);
      CHECK(same_bits(t.evaluate(held_out()), summary));
      std::lock_guard lock{mutex};
      if (ranks == 1) reference = summary;
      CHECK(same_bits(summary, reference));
      CHECK(std::is_sorted(predicted.row.begin(), predicted.row.end()));
      for (std::size_t i = 0; i < predicted.row.size(); ++i) CHECK(mine.emplace(predicted.row[i], predicted.score[i]).second);
    });
    if (ranks == 1) scores = mine;
    CHECK(mine == scores);
  }
  CHECK(reference.samples == held_out().good_rows());
  CHECK(scores.size() == reference.samples);
  CHECK(reference.auc > 0);
  CHECK(reference.auc < 1);
}

TEST_CASE("a key without a row reads the table's default, and counts") {
  np::comm::threads::run(2, [](np::comm::threads& comm) {
    np::trainer_config c = config(2);
    np::row_init const zeros{np::row_init::kind::zeros, 0.0f, 0};
    for (int f = 0; f < 2; ++f) {
      c.tables.push_back({"t" + std::to_string(f), 1, zeros, f == 0 ? 0.5f : 0.0f});
      c.features.push_back({"f" + std::to_string(f), "t" + std::to_string(f)});
    }
    np::test::stream_options o;
    o.rows = 50;
    o.features = 2;
    o.dense = 0;
    o.malformed_in = 0;
    o.bag = [](std::size_t f, std::uint64_t row, std::size_t) { return f == 0 ? row % 3 : 1; };
    trainer_type t{c, comm};
    auto const p = t.predict(np::test::click_stream{o});  // before any training: the bias is 0
    CHECK_FALSE(p.row.empty());
    for (std::size_t i = 0; i < p.row.size(); ++i) {
      double const logit = 0.5 * static_cast<double>(p.row[i] % 3);
      CHECK(static_cast<double>(p.score[i]) == doctest::Approx(1 / (1 + std::exp(-logit))).epsilon(1e-6));
    }
    CHECK(t.engine().rows().rows() == 0);
  });
}

TEST_CASE("evaluation of nothing, and between epochs") {
  np::comm::threads::run(2, [](np::comm::threads& comm) {
    np::trainer_config c = config(2);
    c.epochs = 3;
    trainer_type t{c, comm}, undisturbed{c, comm};
    int epochs = 0;
    t.fit(train_data(), [&](std::uint64_t epoch, np::fit_result const& so_far) {
      CHECK(epoch == static_cast<std::uint64_t>(epochs++));
      CHECK(so_far.samples == static_cast<std::uint64_t>(epochs) * train_data().good_rows());
      CHECK(t.evaluate(held_out()).samples == held_out().good_rows());
      return true;
    });
    CHECK(epochs == 3);
    undisturbed.fit(train_data());
    CHECK(t.parameters_digest() == undisturbed.parameters_digest());
    np::test::stream_options none;
    none.rows = 0;
    auto const s = t.evaluate(np::test::click_stream{none});
    CHECK(s.samples == 0);
    CHECK(std::isnan(s.auc));
    CHECK(t.predict(np::test::click_stream{none}).row.empty());
  });
}
