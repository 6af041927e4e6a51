// One global batch size and seed: the bits of all rows and parameters do not depend on how many ranks computed them, on the
// schedule, on the executor or on where rows are stored, whatever the timing. NESTPIPE_TEST_FULL=1 runs the whole product.
#include <doctest/doctest.h>

#include <nestpipe/comm/threads.hpp>
#include <nestpipe/exec/any_of.hpp>
#include <nestpipe/exec/inline_lanes.hpp>
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/any_of.hpp>
#include <nestpipe/model/dlrm.hpp>
#include <nestpipe/model/fm.hpp>
#include <nestpipe/model/logistic.hpp>
#include <nestpipe/optimizer/adagrad.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/optimizer/any_of.hpp>
#include <nestpipe/optimizer/rowwise_adagrad.hpp>
#include <nestpipe/schedule/any_of.hpp>
#include <nestpipe/schedule/nested.hpp>
#include <nestpipe/schedule/prefetch.hpp>
#include <nestpipe/schedule/sequential.hpp>
#include <nestpipe/storage/any_of.hpp>
#include <nestpipe/storage/dense.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/trainer.hpp>

#include <support/click_stream.hpp>
#include <support/hooked_lanes.hpp>
#include <support/sequence_model.hpp>

#include <bit>
#include <cstdlib>
#include <map>
#include <string>
#include <vector>

namespace np = nestpipe;
using np::math::plain;

namespace {

using models = np::model::any_of<np::model::logistic<float, plain>, np::model::fm<float, plain>, np::model::dlrm<float, plain>, np::test::sequence_model<float>>;
using stores = np::storage::any_of<np::storage::hashed<>, np::storage::dense>;
using optimizers = np::optimizer::any_of<np::optimizer::adagrad, np::optimizer::rowwise_adagrad, np::optimizer::adam>;
using schedules = np::schedule::any_of<np::schedule::sequential, np::schedule::prefetch, np::schedule::dual_buffer<>, np::schedule::frozen_window, np::schedule::nested>;
using inline_lanes = np::test::hooked<np::exec::inline_lanes>;
using thread_lanes = np::test::hooked<np::exec::thread_lanes>;
using executors = np::exec::any_of<inline_lanes, thread_lanes>;

template <class S>
S without_early_rows() {
  S s{};
  s.early = false;
  s.shared_first = false;
  return s;
}

// A schedule that claims to be exact gets a line here.
std::vector<std::pair<std::string, schedules>> const all_schedules{
    {"sequential", np::schedule::sequential{}},
    {"prefetch", np::schedule::prefetch{}},
    {"dual_buffer", np::schedule::dual_buffer<>{}},
    {"frozen_window", np::schedule::frozen_window{}},
    {"nested", np::schedule::nested{}},
    {"nested, nothing early", without_early_rows<np::schedule::nested>()},
};

std::vector<std::pair<std::string, models>> const all_models{
    {"logistic", np::model::logistic<float, plain>{}},
    {"fm", np::model::fm<float, plain>{}},
    {"dlrm", np::model::dlrm<float, plain>{{{12}, {10}, 0.05f}}},
    {"sequence", np::test::sequence_model<float>{}},
};

struct named_optimizer {
  std::string name;
  optimizers rows;
};
std::vector<named_optimizer> const all_optimizers{
    {"adagrad", np::optimizer::adagrad{.rate = 0.05}},
    {"rowwise_adagrad", np::optimizer::rowwise_adagrad{.rate = 0.05}},
    {"adam", np::optimizer::adam{.rate = 0.02}},
};

struct layout {
  std::size_t ranks, micro_batches;
};
std::vector<layout> const eight{{1, 8}, {2, 4}, {4, 2}, {8, 1}};
std::vector<layout> const six{{1, 6}, {2, 3}, {3, 2}, {6, 1}};

struct setup {
  std::size_t model = 0, optimizer = 0, schedule = 0;
  layout shape{1, 8};
  bool threads = false;
  bool dense_storage = false;
  std::uint64_t delays = 0;  ///< seed; 0: none
};

struct outcome {
  std::string digest;
  std::uint64_t rows = 0, steps = 0, samples = 0;
  double loss = 0;
  bool operator==(outcome const&) const = default;
};

// 50 rows a batch do not divide by 8 or 6, the last batch has 23, one batch has malformed rows only, keys come back in the
// next batch, in the one after, and much later.
np::test::click_stream stream() {
  np::test::stream_options o;
  o.rows = 50 * 6 + 23;
  o.weighted = true;
  o.malformed = [](std::uint64_t row) { return row / 50 == 3; };
  return np::test::click_stream{o};
}

np::trainer_config config_for(setup const& s) {
  np::trainer_config c;
  c.batch_size = 50;
  c.micro_batches = s.shape.micro_batches;
  c.epochs = 2;
  c.seed = 9;
  c.dim = 8;
  c.cardinality = 150;
  if (all_models[s.model].first == "sequence") {
    np::row_init const init{np::row_init::kind::normal, 0.1f, 0};
    c.tables = {{"a", 4, init, 0.0f, 150}, {"b", 3, init, 0.0f, 150}, {"c", 17, init, 0.0f, 150}};
    c.features = {{"f0", "a", np::pooling::none}, {"f1", "b", np::pooling::mean}, {"f2", "a", np::pooling::sum}, {"f3", "c", np::pooling::none}, {"f4", "b", np::pooling::none}};
  }
  return c;
}

template <class Trainer, class Comm>
outcome train(Trainer& trainer, Comm& comm) {
  auto const fitted = trainer.fit(stream());
  outcome o{trainer.parameters_digest().text(), 0, fitted.steps, fitted.samples, fitted.loss};
  auto const rows = trainer.engine().rows().rows();
  std::vector<std::uint64_t> all(comm.size());
  trainer.engine().control().all_gather(std::as_bytes(std::span{&rows, 1}), std::as_writable_bytes(std::span{all}), {"test", 0});
  for (auto const n : all) o.rows += n;
  return o;
}

outcome run(setup const& s) {
  outcome result;
  np::comm::threads::run(s.shape.ranks, [&](np::comm::threads& comm) {
    using trainer_type = np::trainer<models, stores, np::comm::threads, schedules, optimizers, np::optimizer::adam, executors>;
    typename trainer_type::policies p;
    p.model = all_models[s.model].second;
    p.schedule = all_schedules[s.schedule].second;
    p.row_optimizer = all_optimizers[s.optimizer].rows;
    p.dense_optimizer.rate = 0.01;
    if (s.dense_storage) p.storage = np::storage::dense{};
    trainer_type trainer{config_for(s), comm, p};
    auto const hook = s.delays == 0 ? std::function<void(np::exec::op const&)>{} : np::test::random_delays(np::mix64(s.delays, comm.rank()), 8);
    if (s.threads) {
      trainer.executor().template choose<thread_lanes>().hook = hook;
    } else {
      trainer.executor().template choose<inline_lanes>().hook = hook;
    }
    outcome const mine = train(trainer, comm);
    if (comm.rank() == 0) result = mine;
  });
  return result;
}

std::string text(setup const& s) {
  return all_models[s.model].first + ", " + all_optimizers[s.optimizer].name + ", " + all_schedules[s.schedule].first + ", " + std::to_string(s.shape.ranks) + " x " +
         std::to_string(s.shape.micro_batches) + (s.threads ? ", threads" : ", inline") + (s.dense_storage ? ", dense" : ", hashed");
}

// Sanitizers run a sample of the combinations that still meets every schedule, layout and model.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::size_t one_in = 5;
#else
constexpr std::size_t one_in = 1;
#endif

bool full() { return std::getenv("NESTPIPE_TEST_FULL") != nullptr; }

void check_all(std::vector<layout> const& layouts) {
  std::map<std::pair<std::size_t, std::size_t>, outcome> references;
  for (std::size_t m = 0; m < all_models.size(); ++m) {
    for (std::size_t o = 0; o < all_optimizers.size(); ++o) references[{m, o}] = run({m, o, 0, layouts[0], false, false, 0});
  }
  std::size_t turn = 0, runs = 0;
  for (std::size_t m = 0; m < all_models.size(); ++m) {
    for (std::size_t s = 0; s < all_schedules.size(); ++s) {
      for (layout const& shape : layouts) {
        for (bool const threads : {false, true}) {
          std::size_t const optimizer = turn % all_optimizers.size();
          bool const dense = (turn / all_optimizers.size()) % 2 == 1;
          turn += 1;
          if (!full() && turn % one_in != 0) continue;
          for (std::size_t o = 0; o < all_optimizers.size(); ++o) {
            for (bool const d : {false, true}) {
              if (!full() && (o != optimizer || d != dense)) continue;
              setup const now{m, o, s, shape, threads, d, 1 + turn};
              INFO(text(now));
              CHECK(run(now) == references[{m, o}]);
              ++runs;
            }
          }
        }
      }
    }
  }
  MESSAGE(runs << " runs equal to the plain loop on one rank");
}

}  // namespace

TEST_CASE("eight micro-batches: one digest for every way to train") { check_all(eight); }
TEST_CASE("six micro-batches, also on three ranks: one digest for every way to train") { check_all(six); }

TEST_CASE("what must change the bits does so: the digest sees data order, micro-batches and seeds") {
  outcome const a = run({2, 0, 0, {1, 8}, false, false, 0});
  CHECK(run({2, 0, 0, {1, 8}, false, false, 0}) == a);  // two runs of one command
  CHECK(run({2, 0, 0, {1, 6}, false, false, 0}).digest != a.digest);
  CHECK(run({2, 1, 0, {1, 8}, false, false, 0}).digest != a.digest);
  CHECK(run({1, 0, 0, {1, 8}, false, false, 0}).digest != a.digest);
  CHECK(a.samples == 2 * stream().good_rows());
  CHECK(a.steps == 2 * 6);  // of seven batches one has malformed rows only
}

TEST_CASE("types named at compile time train the same bits as any_of") {
  using trainer_type = np::trainer<np::model::dlrm<float, plain>, np::storage::hashed<>, np::comm::threads, np::schedule::nested, np::optimizer::rowwise_adagrad,
                                   np::optimizer::adam>;
  setup const s{2, 1, 4, {2, 4}, true, false, 0};
  outcome result;
  np::comm::threads::run(2, [&](np::comm::threads& comm) {
    typename trainer_type::policies p;
    p.model = np::model::dlrm<float, plain>{{{12}, {10}, 0.05f}};
    p.row_optimizer.rate = 0.05;
    p.dense_optimizer.rate = 0.01;
    trainer_type trainer{config_for(s), comm, p};
    outcome const mine = train(trainer, comm);
    if (comm.rank() == 0) result = mine;
  });
  CHECK(result == run(s));
}
