// Clustering on the input lane: with equal cluster groups one digest for every number of ranks, schedule and executor.
#include <doctest/doctest.h>

#include <nestpipe/comm/threads.hpp>
#include <nestpipe/exec/any_of.hpp>
#include <nestpipe/exec/inline_lanes.hpp>
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/dlrm.hpp>
#include <nestpipe/optimizer/adagrad.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/schedule/any_of.hpp>
#include <nestpipe/schedule/nested.hpp>
#include <nestpipe/schedule/sequential.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/trainer.hpp>

#include <support/click_stream.hpp>
#include <support/hooked_lanes.hpp>

#include <string>

namespace np = nestpipe;
using np::embedding::clustering;

namespace {

using inline_lanes = np::test::hooked<np::exec::inline_lanes>;
using thread_lanes = np::test::hooked<np::exec::thread_lanes>;
using schedules = np::schedule::any_of<np::schedule::sequential, np::schedule::nested>;

struct setup {
  std::size_t ranks = 1, micro_batches = 8;
  clustering cluster = clustering::exact;
  std::uint32_t groups = 0;
  bool nested = false;  ///< on threads, with random delays
  bool reuse_rows = false;
};

struct outcome {
  std::string digest;
  std::uint64_t steps = 0, samples = 0, malformed = 0;
  std::uint64_t before = 0, after = 0;  ///< of clustering, over all ranks
  double first_loss = 0;
  bool operator==(outcome const&) const = default;
};

outcome run(setup const& s) {
  outcome result;
  np::comm::threads::run(s.ranks, [&](np::comm::threads& comm) {
    using trainer_type = np::trainer<np::model::dlrm<float, np::math::plain>, np::storage::hashed<>, np::comm::threads, schedules, np::optimizer::adagrad,
                                     np::optimizer::adam, np::exec::any_of<inline_lanes, thread_lanes>>;
    np::trainer_config c;
    c.batch_size = 97;  // not divisible: micro-batches of two sizes, one batch incomplete, and malformed lines
    c.micro_batches = s.micro_batches;
    c.epochs = 2;
    c.dim = 8;
    c.cluster = s.cluster;
    c.cluster_groups = s.groups;
    c.reuse_rows = s.reuse_rows;
    double first_loss = 0;
    c.on_step = [&](np::progress const& p) {
      if (p.step == 1) first_loss = p.loss;
    };
    typename trainer_type::policies p;
    p.model = np::model::dlrm<float, np::math::plain>{{{12}, {10}, 0.05f}};
    p.row_optimizer.rate = 0.05;
    p.dense_optimizer.rate = 0.01;
    if (s.nested) p.schedule = np::schedule::nested{};
    trainer_type trainer{c, comm, p};
    if (s.nested) {
      trainer.executor().template choose<thread_lanes>().hook = np::test::random_delays(np::mix64(7, comm.rank()), 8);
    } else {
      trainer.executor().template choose<inline_lanes>();
    }
    np::test::stream_options o;
    o.rows = 97 * 5 + 40;
    auto const fitted = trainer.fit(np::test::click_stream{o});
    auto const mine = trainer.engine().clustered();
    auto const bytes = trainer.engine().exchanged();
    std::array<std::uint64_t, 4> const numbers{mine.before, mine.after, bytes.rows, bytes.gradients};
    std::vector<std::array<std::uint64_t, 4>> all(comm.size());
    trainer.engine().control().all_gather(std::as_bytes(std::span{numbers}), std::as_writable_bytes(std::span{all}), {"test", 0});
    std::string const digest = trainer.parameters_digest().text();
    if (comm.rank() != 0) return;
    result = {digest, fitted.steps, fitted.samples, trainer.engine().malformed(), 0, 0, first_loss};
    std::uint64_t rows = 0, gradients = 0;
    for (auto const& r : all) {
      result.before += r[0];
      result.after += r[1];
      rows += r[2];
      gradients += r[3];
    }
    if (s.cluster == clustering::off) return;
    // What clustering says it saves is what the exchanges then move: 8 floats for every distinct key of a micro-batch.
    CHECK(gradients == result.after * 8 * sizeof(float));
    if (!s.reuse_rows) CHECK(rows == gradients);
  });
  return result;
}

}  // namespace

TEST_CASE("equal cluster groups, equal bits: any number of ranks, schedule and executor") {
  for (auto const how : {clustering::fast, clustering::exact}) {
    for (std::uint32_t const groups : {1U, 2U, 4U}) {
      outcome const reference = run({1, 8, how, groups, false, false});
      CHECK(reference.after < reference.before);
      for (std::size_t ranks = 1; ranks <= groups; ranks *= 2) {
        for (bool const nested : {false, true}) {
          INFO(np::embedding::name(how) << ", " << groups << " groups, " << ranks << " ranks" << (nested ? ", nested on threads" : ""));
          CHECK(run({ranks, 8 / ranks, how, groups, nested, nested && ranks == 2}) == reference);
        }
      }
    }
  }
}

TEST_CASE("without a number every rank is a group") {
  CHECK(run({1, 8, clustering::fast, 0, false, false}) == run({1, 8, clustering::fast, 1, false, false}));
  CHECK(run({2, 4, clustering::fast, 0, false, false}) == run({1, 8, clustering::fast, 2, false, false}));
  CHECK(run({4, 2, clustering::fast, 0, true, false}) == run({1, 8, clustering::fast, 4, false, false}));
}

TEST_CASE("the batch stays the same batch, in other micro-batches") {
  outcome const off = run({1, 8, clustering::off, 0, false, false});
  CHECK(off.before == 0);
  outcome const one_per_group = run({1, 8, clustering::exact, 8, false, false});
  CHECK(one_per_group.digest == off.digest);  // nowhere to go
  CHECK(one_per_group.after == one_per_group.before);
  for (auto const how : {clustering::fast, clustering::exact}) {
    outcome const on = run({1, 8, how, 1, false, false});
    CHECK(on.digest != off.digest);
    CHECK(on.digest != run({1, 8, how, 2, false, false}).digest);
    CHECK(on.steps == off.steps);
    CHECK(on.samples == off.samples);
    CHECK(on.malformed == off.malformed);
    CHECK(on.first_loss == doctest::Approx(off.first_loss).epsilon(1e-6));
  }
}

TEST_CASE("cluster groups that do not fit are refused") {
  auto const refused = [](std::size_t ranks, std::size_t micro_batches, std::uint32_t groups, std::string const& numbers) {
    std::string const text = "cluster groups must be a multiple of the ranks and divide the micro-batches of all ranks (cluster groups " + numbers +
                             "); set cluster_groups to such a number, or to 0 for one group a rank";
    CHECK_THROWS_WITH_AS(run({ranks, micro_batches, clustering::fast, groups, false, false}), text.c_str(), np::config_error);
  };
  refused(2, 4, 3, "3, ranks 2, micro-batches 8");
  refused(2, 4, 1, "1, ranks 2, micro-batches 8");
  refused(1, 8, 16, "16, ranks 1, micro-batches 8");
}
