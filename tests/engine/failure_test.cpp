// One rank of four fails: the others end soon, with a line that says where they were, which rank failed, and why. Nothing hangs.
#include <doctest/doctest.h>

#include <nestpipe/comm/threads.hpp>
#include <nestpipe/exec/any_of.hpp>
#include <nestpipe/exec/inline_lanes.hpp>
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/logistic.hpp>
#include <nestpipe/optimizer/rowwise_adagrad.hpp>
#include <nestpipe/optimizer/sgd.hpp>
#include <nestpipe/schedule/any_of.hpp>
#include <nestpipe/schedule/nested.hpp>
#include <nestpipe/schedule/prefetch.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/trainer.hpp>

#include <support/click_stream.hpp>
#include <support/hooked_lanes.hpp>

#include <chrono>
#include <limits>
#include <string>
#include <vector>

namespace np = nestpipe;
using np::exec::stage;
using namespace std::chrono_literals;

namespace {

/// A logistic model that throws in its n-th forward pass on one rank.
struct fragile : np::model::logistic<float, np::math::plain> {
  fragile() : np::model::logistic<float, np::math::plain>{np::model::logistic_options{}} {}
  void forward(float const* p, np::model::model_batch<float> const& batch, workspace& ws, float* logits) const {
    if (--*remaining == 0) throw np::error{"the network fell over"};
    np::model::logistic<float, np::math::plain>::forward(p, batch, ws, logits);
  }
  std::shared_ptr<std::atomic<int>> remaining = std::make_shared<std::atomic<int>>(std::numeric_limits<int>::max());
};

using schedules = np::schedule::any_of<np::schedule::sequential, np::schedule::prefetch, np::schedule::nested>;
using inline_lanes = np::test::hooked<np::exec::inline_lanes>;
using thread_lanes = np::test::hooked<np::exec::thread_lanes>;
using executors = np::exec::any_of<thread_lanes, inline_lanes>;
using trainer_type = np::trainer<fragile, np::storage::hashed<>, np::comm::threads, schedules, np::optimizer::rowwise_adagrad, np::optimizer::sgd, executors>;

np::test::click_stream stream(std::function<float(std::uint64_t)> label = {}) {
  np::test::stream_options o;
  o.rows = 64 * 12;
  o.label = std::move(label);
  return np::test::click_stream{o};
}

np::trainer_config config() {
  np::trainer_config c;
  c.batch_size = 64;
  c.micro_batches = 2;
  return c;
}

struct report {
  std::vector<std::string> heard;  ///< per rank; empty: ended well
  std::string thrown;              ///< by comm::threads::run
  double seconds = 0;
};

/// Calls `f(comm, trainer)` on every rank, with the executor and schedule asked for.
template <class F>
report run(std::size_t ranks, std::size_t schedule, bool threads, F f, np::comm::threads::options options = {}) {
  report r;
  r.heard.resize(ranks);
  auto const begin = std::chrono::steady_clock::now();
  try {
    np::comm::threads::run(
        ranks,
        [&](np::comm::threads& comm) {
          typename trainer_type::policies p;
          if (schedule == 1) p.schedule = np::schedule::prefetch{};
          if (schedule == 2) p.schedule = np::schedule::nested{};
          trainer_type t{config(), comm, p};
          if (!threads) t.executor().template choose<inline_lanes>();
          try {
            f(comm, t);
          } catch (std::exception const& e) {
            r.heard[comm.rank()] = e.what();
            throw;
          }
        },
        options);
  } catch (std::exception const& e) {
    r.thrown = e.what();
  }
  r.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  return r;
}

bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

void set_hook(executors& e, bool threads, std::function<void(np::exec::op const&)> hook) {
  if (threads) {
    e.choose<thread_lanes>().hook = std::move(hook);
  } else {
    e.choose<inline_lanes>().hook = std::move(hook);
  }
}

}  // namespace

TEST_CASE("a failure in any stage of one of four ranks ends all of them, with the cause and the place") {
  for (std::size_t s = 0; s < np::exec::stage_count; ++s) {
    stage const where = static_cast<stage>(s);
    for (bool const threads : {false, true}) {
      std::size_t const schedule = (s + (threads ? 1 : 0)) % 3;
      if (where == stage::refresh && schedule != 2) continue;  // one window has nothing to refresh
      report const r = run(4, schedule, threads, [&](np::comm::threads& comm, trainer_type& t) {
        auto const count = std::make_shared<int>(0);
        if (comm.rank() == 2) {
          set_hook(t.executor(), threads, [count, where](np::exec::op const& o) {
            if (o.what == where && ++*count == 4) throw np::error{"rank two gives up in " + std::string{np::exec::name(where)}};
          });
        }
        t.fit(stream());
      });
      CAPTURE(np::exec::name(where));
      CAPTURE(threads);
      CHECK(r.seconds < 10);
      CHECK(r.thrown == "rank two gives up in " + std::string{np::exec::name(where)});
      CHECK(r.heard[2] == r.thrown);
      for (std::size_t const other : {0U, 1U, 3U}) {
        CHECK(has(r.heard[other], "rank 2 failed: rank two gives up in"));
        CHECK(has(r.heard[other], "step "));
        CHECK(has(r.heard[other], "rank " + std::to_string(other) + " was in "));
      }
    }
  }
}

TEST_CASE("what a policy throws is told to the other ranks with the stage and step it happened in") {
  for (bool const threads : {false, true}) {
    report const r = run(4, 2, threads, [&](np::comm::threads& comm, trainer_type& t) {
      if (comm.rank() == 1) {
        t.attach(stream().schema());
        *t.engine().model().remaining = 5;  // two micro-batches a step: the fifth is the first of step 3
      }
      t.fit(stream());
    });
    CHECK(r.thrown == "the network fell over");
    for (std::size_t const other : {0U, 2U, 3U}) CHECK(has(r.heard[other], "rank 1 failed: the network fell over (in forward_backward, step 3)"));
    CHECK(r.seconds < 10);
  }
}

TEST_CASE("a loss that is not finite names the step and a tensor, on every rank") {
  report const r = run(3, 2, true, [&](np::comm::threads&, trainer_type& t) {
    t.fit(stream([](std::uint64_t row) { return row == 64 * 4 + 9 ? std::numeric_limits<float>::infinity() : 1.0f; }));
  });
  CHECK(has(r.thrown, "the loss is not finite (step 5, "));
  int first_hand = 0;
  for (auto const& line : r.heard) {
    CHECK(has(line, "the loss is not finite (step 5, "));
    CHECK((has(line, "table f") || has(line, "dense parameter")));
    first_hand += line.rfind("the loss", 0) == 0 ? 1 : 0;
  }
  CHECK(first_hand > 0);
}

TEST_CASE("a rank that is late beyond the deadline is named by those who wait") {
  report const r = run(
      4, 1, true,
      [&](np::comm::threads& comm, trainer_type& t) {
        if (comm.rank() == 3) {
          set_hook(t.executor(), true, [](np::exec::op const& o) {
            if (o.what == stage::exchange_gradients && o.batch == 5) std::this_thread::sleep_for(1500ms);
          });
        }
        t.fit(stream());
      },
      {.deadline = 300ms});
  CHECK(r.seconds < 10);
  CHECK(has(r.thrown, "did not end within 0.3 s"));
  CHECK(has(r.thrown, "exchange_gradients, step 6"));
  CHECK(has(r.thrown, "still waiting for rank 3"));
}

TEST_CASE("exceptions on the caller's side: callbacks, datasets, evaluation") {
  report r = run(4, 2, true, [&](np::comm::threads& comm, trainer_type& t) {
    t.fit(stream(), [&](std::uint64_t, np::fit_result const&) -> bool {
      if (comm.rank() == 1) throw np::error{"disk full"};
      return t.evaluate(stream()).samples != 0;
    });
  });
  CHECK(r.thrown == "disk full");
  for (std::size_t const other : {0U, 2U, 3U}) CHECK(has(r.heard[other], "rank 1 failed: disk full"));

  r = run(2, 2, true, [&](np::comm::threads&, trainer_type& t) {
    t.evaluate(stream([&](std::uint64_t row) -> float {
      if (row == 301) throw np::data_error{"bad line", "file.tsv:301"};
      return 1.0f;
    }));
  });
  CHECK(r.thrown == "bad line (file.tsv:301)");
  CHECK((r.heard[0] == r.thrown) != (r.heard[1] == r.thrown));
  CHECK((has(r.heard[0], "failed: bad line") || has(r.heard[1], "failed: bad line")));
  CHECK(r.seconds < 10);
}

TEST_CASE("a trainer that has failed says so again and does not hang; a new one works") {
  for (bool const threads : {false, true}) {
    report const r = run(1, 2, threads, [&](np::comm::threads&, trainer_type& t) {
      t.attach(stream().schema());
      *t.engine().model().remaining = 3;
      CHECK_THROWS_WITH(t.fit(stream()), "the network fell over");
      CHECK_THROWS_AS(t.fit(stream()), np::comm_error);  // this communicator has been aborted
      CHECK_THROWS_AS(t.evaluate(stream()), np::comm_error);
    });
    CHECK(r.seconds < 10);
    report const again = run(1, 2, threads, [&](np::comm::threads&, trainer_type& t) { CHECK(t.fit(stream()).steps == 12); });
    CHECK(again.thrown.empty());
  }
}

#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
constexpr std::uint64_t repetitions = 50;
#else
constexpr std::uint64_t repetitions = 200;
#endif

TEST_CASE("many failures in random stages, ranks and moments: no hang, and always the first cause") {
  np::counter_random const random{2026, 1, 1};
  auto const begin = std::chrono::steady_clock::now();
  for (std::uint64_t i = 0; i < repetitions; ++i) {
    std::size_t const culprit = random.below(8 * i, 4);
    std::uint64_t const moment = 1 + random.below(8 * i + 1, 120);  // of the ops of that rank
    std::size_t const schedule = random.below(8 * i + 2, 3);
    bool const threads = random.below(8 * i + 3, 4) != 0;
    report const r = run(4, schedule, threads, [&](np::comm::threads& comm, trainer_type& t) {
      auto const count = std::make_shared<std::atomic<std::uint64_t>>(0);
      auto const delays = np::test::random_delays(np::mix64(i, comm.rank()), 16, 100us);
      bool const guilty = comm.rank() == culprit;
      set_hook(t.executor(), threads, [count, delays, guilty, moment](np::exec::op const& o) {
        delays(o);
        if (guilty && ++*count == moment) throw np::error{"planted"};
      });
      t.fit(stream());
    });
    INFO("repetition " << i << ", rank " << culprit << ", op " << moment << ", schedule " << schedule << (threads ? ", threads" : ", inline"));
    CHECK(r.thrown == "planted");
    CHECK(r.heard[culprit] == "planted");
    for (std::size_t other = 0; other < 4; ++other) {
      if (other != culprit) CHECK(has(r.heard[other], "rank " + std::to_string(culprit) + " failed: planted"));
    }
    CHECK(r.seconds < 10);
  }
  MESSAGE(repetitions << " failures in " << std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count() << " s");
}
