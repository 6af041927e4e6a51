// The dense gradients in buckets: the same bits as in one piece, for every schedule and number of ranks, whatever the timing.
#include <doctest/doctest.h>

#include <nestpipe/comm/threads.hpp>
#include <nestpipe/exec/thread_lanes.hpp>
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/any_of.hpp>
#include <nestpipe/model/deepfm.hpp>
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

#include <atomic>
#include <string>
#include <vector>

namespace np = nestpipe;
using np::exec::stage;
using np::math::plain;

namespace {

using deepfm = np::model::deepfm<float, plain>;
using dlrm = np::model::dlrm<float, plain>;

/// dlrm with a hole in its buckets, to be refused.
struct torn : dlrm {
  using dlrm::dlrm;
  np::model::parameter_range bucket_range(std::size_t b) const {
    auto r = dlrm::bucket_range(b);
    if (b == 1) ++r.first;
    return r;
  }
};

using models = np::model::any_of<deepfm, dlrm, torn>;
using schedules = np::schedule::any_of<np::schedule::sequential, np::schedule::frozen_window, np::schedule::dual_buffer<>, np::schedule::nested>;

struct outcome {
  std::string digest;
  double loss = 0;
  std::size_t buckets = 0;   ///< parts of the reduction, in the engine
  std::size_t reduced = 0;   ///< reduce_dense ops of rank 0
  std::size_t steps = 0;
};

outcome run(models const& model, schedules const& schedule, std::size_t ranks, bool buckets, std::uint64_t delays) {
  outcome out;
  np::comm::threads::run(ranks, [&](np::comm::threads& comm) {
    using trainer_type = np::trainer<models, np::storage::hashed<>, np::comm::threads, schedules, np::optimizer::adagrad, np::optimizer::adam, np::test::hooked<np::exec::thread_lanes>>;
    np::trainer_config c;
    c.batch_size = 36;
    c.micro_batches = 6 / ranks;
    c.seed = 5;
    c.dim = 4;
    c.dense_buckets = buckets;
    typename trainer_type::policies p;
    p.model = model;
    p.schedule = schedule;
    trainer_type trainer{c, comm, p};
    std::atomic<std::size_t> reduced{0};
    trainer.executor().hook = [&reduced, delay = np::test::random_delays(np::mix64(delays, comm.rank()), 3)](np::exec::op const& o) {
      if (o.what == stage::reduce_dense) ++reduced;
      delay(o);
    };
    np::test::stream_options o;
    o.rows = 36 * 8 + 5;
    o.malformed_in = 0;
    auto const fitted = trainer.fit(np::test::click_stream{o});
    std::string const digest = trainer.parameters_digest().text();
    if (comm.rank() == 0) out = {digest, fitted.loss, trainer.engine().buckets().size(), reduced.load(), fitted.steps};
  });
  return out;
}

// Slow: a sample that still meets every schedule and both ways to reduce.
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr bool sanitized = true;
#else
constexpr bool sanitized = false;
#endif

}  // namespace

TEST_CASE("buckets do not change a bit") {
  std::vector<std::pair<models, std::size_t>> const all{{deepfm{{.hidden = {300, 300, 300}}}, 2}, {dlrm{{.bottom = {300, 300}, .top = {300, 300, 300}}}, 3}};
  for (auto const& [model, expected] : all) {
    outcome const whole = run(model, np::schedule::sequential{}, 1, false, 1);
    CHECK(whole.buckets == 1);
    CHECK(whole.reduced == whole.steps);
    np::schedule::frozen_window late;
    late.split_backward = false;
    std::uint64_t seed = 2;
    for (schedules const& schedule : std::vector<schedules>{np::schedule::sequential{}, np::schedule::frozen_window{}, late, np::schedule::dual_buffer<>{}, np::schedule::nested{}}) {
      for (std::size_t const ranks : {1U, 2U, 3U, 6U}) {  // 3 and 6: every leaf travels; 6: one micro-batch a rank
        if (sanitized && (ranks == 1 || ranks == 6 || expected == 2)) continue;
        INFO(ranks << " ranks, delays " << seed);
        outcome const parts = run(model, schedule, ranks, true, seed++);
        CHECK(parts.buckets == expected);
        CHECK(parts.reduced == expected * parts.steps);
        CHECK(parts.digest == whole.digest);
        CHECK(parts.loss == whole.loss);
      }
    }
  }
}

TEST_CASE("buckets that leave a parameter out are refused") {
  models const model{torn{np::model::dlrm_options{.bottom = {300, 300}, .top = {300, 300, 300}}}};
  CHECK_THROWS_WITH_AS(run(model, np::schedule::nested{}, 1, true, 1), doctest::Contains("do not partition its parameters"), np::config_error);
  CHECK(run(model, np::schedule::nested{}, 1, false, 1).buckets == 1);
}
