// Trying the variants of a schedule and keeping the fastest: the same bits, and the same choice on every rank.
#include <doctest/doctest.h>

#include <nestpipe/comm/emulated_link.hpp>
#include <nestpipe/comm/threads.hpp>
#include <nestpipe/data/synthetic.hpp>
#include <nestpipe/math/default.hpp>
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/logistic.hpp>
#include <nestpipe/optimizer/adagrad.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/schedule/any_of.hpp>
#include <nestpipe/schedule/nested.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/trainer.hpp>

#include <string>
#include <vector>

namespace np = nestpipe;

namespace {

using link = np::comm::emulated_link<np::comm::threads>;
using trainer_type = np::trainer<np::model::logistic<float, np::math::plain>, np::storage::hashed<>, link, np::schedule::nested, np::optimizer::adagrad, np::optimizer::adam>;

struct outcome {
  std::string digest;
  std::vector<int> choices = std::vector<int>(2);
  std::uint64_t steps = 0;
};

outcome run(std::uint64_t tune_steps, double latency, std::uint64_t epochs) {
  outcome out;
  np::comm::threads::run(2, [&](np::comm::threads& inner) {
    link comm{inner, {latency, 1e9, {}}};
    trainer_type trainer{{.batch_size = 64, .micro_batches = 2, .epochs = epochs, .tune_steps = tune_steps}, comm};
    auto const fitted = trainer.fit(np::data::synthetic{{.rows = 64 * 30}});
    auto const digest = trainer.parameters_digest();
    auto const& s = trainer.schedule_in_use();
    out.choices[comm.rank()] = 4 * s.early + 2 * s.shared_first + s.inner.split_backward;
    if (comm.rank() == 0) {
      out.digest = digest.text();
      out.steps = fitted.steps;
    }
  });
  return out;
}

}  // namespace

TEST_CASE("variants are tried over several epochs, with the bits of the plain run and one choice for all ranks") {
  outcome const plain = run(0, 0, 2);
  outcome const tuned = run(5, 2e-4, 2);  // 9 tries of 5 steps: into the second epoch
  CHECK(plain.choices[0] == 7);
  CHECK(tuned.digest == plain.digest);
  CHECK(tuned.steps == plain.steps);
  CHECK(tuned.choices[0] == tuned.choices[1]);
}

TEST_CASE("nested has eight variants, itself first; any_of passes them on") {
  auto const all = np::schedule::variants(np::schedule::nested{});
  CHECK(all.size() == 8);
  CHECK(all.front().early);
  CHECK(all.front().inner.split_backward);
  CHECK(np::schedule::variants(np::schedule::any_of<np::schedule::sequential, np::schedule::nested>{np::schedule::nested{}}).size() == 8);
  CHECK(np::schedule::variants(np::schedule::sequential{}).size() == 1);
}

// The choice follows the trace: rank 0's fastest try wins, whatever the other ranks measured.
TEST_CASE("rank 0 decides") {
  std::vector<std::size_t> chosen(2);
  np::comm::threads::run(2, [&](np::comm::threads& comm) {
    auto control = comm.channel("control");
    np::schedule::nested const given{};
    np::engine::schedule_tuner tuner{given};
    std::size_t turn = 0;
    while (tuner.next(given, 3)) {
      np::trace::stage_times from{}, to{};
      bool const fast = turn == (comm.rank() == 0 ? 6U : 2U);  // try 6 is variant 5
      to.compute = fast ? 1.0 : 2.0;
      tuner.tried(from, to, 3, control, {"tune", 0});
      ++turn;
    }
    CHECK(turn == 9);
    auto const& s = tuner.active();
    auto const all = np::schedule::variants(given);
    for (std::size_t i = 0; i < all.size(); ++i) {
      if (all[i].early == s.early && all[i].shared_first == s.shared_first && all[i].inner.split_backward == s.inner.split_backward) chosen[comm.rank()] = i;
    }
  });
  CHECK(chosen[0] == 5);
  CHECK(chosen[1] == 5);
}
