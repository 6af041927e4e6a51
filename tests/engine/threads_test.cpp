// A rank may use several threads: the bits are those of one, under schedules that overlap and those that do not, whether the
// micro-batches divide by the threads or are fewer.
#include <doctest/doctest.h>

#include <nestpipe/comm/threads.hpp>
#include <nestpipe/data/synthetic.hpp>
#include <nestpipe/exec/any_of.hpp>
#include <nestpipe/exec/inline_lanes.hpp>
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/dlrm.hpp>
#include <nestpipe/optimizer/adagrad.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/schedule/any_of.hpp>
#include <nestpipe/schedule/nested.hpp>
#include <nestpipe/schedule/sequential.hpp>
#include <nestpipe/storage/audited.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/trainer.hpp>

#include <string>

namespace np = nestpipe;

namespace {

using schedules = np::schedule::any_of<np::schedule::sequential, np::schedule::nested>;
using store = np::storage::audited<np::storage::hashed<>>;
using trainer_type = np::trainer<np::model::dlrm<float, np::math::plain>, store, np::comm::threads, schedules, np::optimizer::adagrad, np::optimizer::adam>;

struct setup {
  schedules schedule;
  std::size_t ranks = 1, micro_batches = 6, threads = 1;
  bool reuse_rows = false, buckets = true;
  std::uint64_t seed = 3;
};

struct outcome {
  std::string digest;
  double loss = 0;
  bool operator==(outcome const&) const = default;
};

/// So many keys a batch, and so many parameters, that every stage has parts worth sharing.
outcome train(setup const& s) {
  outcome result;
  np::comm::threads::run(s.ranks, [&](np::comm::threads& comm) {
    np::data::synthetic_options o;
    o.rows = 1200 * 3 + 100;
    o.features = 10;
    o.dense = 3;
    o.vocabulary = 20'000;
    o.exponent = 0.3;
    np::trainer_config c;
    c.dim = 8;
    c.batch_size = 1200;
    c.micro_batches = s.micro_batches;
    c.threads = s.threads;
    c.reuse_rows = s.reuse_rows;
    c.dense_buckets = s.buckets;
    c.row_clip_norm = 0.01f;
    c.dense_clip_norm = 0.5f;
    c.seed = s.seed;
    trainer_type::policies p;
    p.model = np::model::dlrm<float, np::math::plain>{{{16}, {224, 224}, 0.05f}};
    p.schedule = s.schedule;
    p.row_optimizer = np::optimizer::adagrad{.rate = 0.05};
    trainer_type trainer{c, comm, p};
    auto const fitted = trainer.fit(np::data::synthetic{o});
    auto const digest = trainer.parameters_digest();
    CHECK(trainer.engine().audit_results().stale_reads == 0);
    if (comm.rank() == 0) result = {digest.text(), fitted.loss};
  });
  return result;
}

}  // namespace

TEST_CASE("threads of a rank give the bits of one") {
  outcome const truth = train({np::schedule::sequential{}});
  REQUIRE(!(train({.schedule = np::schedule::sequential{}, .seed = 4}) == truth));  // the digest does tell runs apart
  for (schedules const& schedule : {schedules{np::schedule::sequential{}}, schedules{np::schedule::nested{}}}) {
    for (std::size_t const threads : {1U, 2U, 3U, 4U}) {
      CAPTURE(schedule.index());
      CAPTURE(threads);
      CHECK(train({.schedule = schedule, .threads = threads}) == truth);
    }
  }
  CHECK(train({.schedule = np::schedule::nested{}, .threads = 2, .reuse_rows = true}) == truth);
  CHECK(train({.schedule = np::schedule::nested{}, .threads = 4, .buckets = false}) == truth);
  CHECK(train({.schedule = np::schedule::nested{}, .ranks = 2, .micro_batches = 3, .threads = 2}) == truth);
  CHECK(train({.schedule = np::schedule::nested{}, .ranks = 3, .micro_batches = 2, .threads = 3}) == truth);
}

TEST_CASE("more threads than micro-batches") {
  outcome const truth = train({.schedule = np::schedule::sequential{}, .micro_batches = 1});
  CHECK(train({.schedule = np::schedule::sequential{}, .micro_batches = 1, .threads = 3}) == truth);
  CHECK(train({.schedule = np::schedule::nested{}, .micro_batches = 1, .threads = 2}) == truth);
}

TEST_CASE("a number of threads that makes no sense is refused") {
  CHECK_THROWS_AS(train({.schedule = np::schedule::sequential{}, .threads = 0}), np::config_error);
}
