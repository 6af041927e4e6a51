// Training with windows and embedding arithmetic on the device gives the bits of the host: schedules, numbers of ranks, models with every
// pooling, rows that come early or are used again. On the emulated device work runs late, early and at random moments.
#include <doctest/doctest.h>

#include <nestpipe/comm/threads.hpp>
#include <nestpipe/cuda.cuh>
#include <nestpipe/exec/inline_lanes.hpp>
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/any_of.hpp>
#include <nestpipe/model/dlrm.hpp>
#include <nestpipe/model/fm.hpp>
#include <nestpipe/optimizer/adagrad.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/optimizer/any_of.hpp>
#include <nestpipe/optimizer/rowwise_adagrad.hpp>
#include <nestpipe/schedule/any_of.hpp>
#include <nestpipe/schedule/nested.hpp>
#include <nestpipe/schedule/prefetch.hpp>
#include <nestpipe/schedule/sequential.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/trainer.hpp>

#include <support/click_stream.hpp>
#include <support/device_orders.hpp>
#include <support/sequence_model.hpp>

#include <string>
#include <vector>

namespace device_training {

namespace np = nestpipe;
using np::math::plain;

using models = np::model::any_of<np::model::fm<float, plain>, np::model::dlrm<float, plain>, np::test::sequence_model<float>>;
using optimizers = np::optimizer::any_of<np::optimizer::adagrad, np::optimizer::rowwise_adagrad, np::optimizer::adam>;
using schedules = np::schedule::any_of<np::schedule::sequential, np::schedule::prefetch, np::schedule::dual_buffer<>, np::schedule::frozen_window, np::schedule::nested>;

struct setup {
  std::size_t model = 0;
  std::size_t schedule = 0;
  std::size_t ranks = 1, micro_batches = 4;
  std::size_t threads = 1;
  bool reuse = false;
};

struct outcome {
  std::string digest;
  std::uint64_t rows = 0, steps = 0, samples = 0;
  double loss = 0, scored = 0;
  bool operator==(outcome const&) const = default;
};

models model(std::size_t m) {
  if (m == 0) return np::model::fm<float, plain>{};
  if (m == 1) return np::model::dlrm<float, plain>{{{12}, {10}, 0.05f}};
  return np::test::sequence_model<float>{};
}
optimizers row_optimizer(std::size_t m) {
  if (m == 0) return np::optimizer::adam{.rate = 0.02};
  if (m == 1) return np::optimizer::rowwise_adagrad{.rate = 0.05};
  return np::optimizer::adagrad{.rate = 0.05};
}
schedules schedule(std::size_t s) {
  switch (s) {
    case 0: return np::schedule::sequential{};
    case 1: return np::schedule::prefetch{};
    case 2: return np::schedule::dual_buffer<>{};
    case 3: return np::schedule::frozen_window{};
    default: return np::schedule::nested{};
  }
}

np::test::click_stream stream() {
  np::test::stream_options o;
  o.rows = 40 * 5 + 17;
  o.weighted = true;
  o.malformed = [](std::uint64_t row) { return row / 40 == 2; };
  return np::test::click_stream{o};
}

np::trainer_config config_for(setup const& s) {
  np::trainer_config c;
  c.batch_size = 40;
  c.micro_batches = s.micro_batches;
  c.threads = s.threads;
  c.epochs = 1;
  c.seed = 9;
  c.dim = 8;
  c.reuse_rows = s.reuse;
  if (s.model == 2) {
    np::row_init const init{np::row_init::kind::normal, 0.1f, 0};
    c.tables = {{"a", 4, init, 0.0f, 150}, {"b", 3, init, 0.0f, 150}, {"c", 17, init, 0.0f, 150}};
    c.features = {{"f0", "a", np::pooling::none}, {"f1", "b", np::pooling::mean}, {"f2", "a", np::pooling::sum}, {"f3", "c", np::pooling::none}, {"f4", "b", np::pooling::none}};
  }
  return c;
}

template <class Executor>
outcome run(setup const& s) {
  outcome result;
  np::comm::threads::run(s.ranks, [&](np::comm::threads& comm) {
    using trainer_type = np::trainer<models, np::storage::hashed<>, np::comm::threads, schedules, optimizers, np::optimizer::adam, Executor>;
    typename trainer_type::policies p;
    p.model = model(s.model);
    p.schedule = schedule(s.schedule);
    p.row_optimizer = row_optimizer(s.model);
    p.dense_optimizer.rate = 0.01;
    trainer_type trainer{config_for(s), comm, p};
    auto const fitted = trainer.fit(stream());
    outcome mine{trainer.parameters_digest().text(), 0, fitted.steps, fitted.samples, fitted.loss, 0};
    auto const rows = trainer.engine().rows().rows();
    std::vector<std::uint64_t> all(comm.size());
    trainer.engine().control().all_gather(std::as_bytes(std::span{&rows, 1}), std::as_writable_bytes(std::span{all}), {"test", 0});
    for (auto const n : all) mine.rows += n;
    mine.scored = trainer.evaluate(stream()).log_loss;
    if (comm.rank() == 0) result = mine;
  });
  return result;
}

}  // namespace device_training

TEST_CASE("training on the device has the host's bits: schedules, ranks and models") {
  using namespace device_training;
  std::vector<outcome> references;
  for (std::size_t m = 0; m < 3; ++m) references.push_back(run<np::exec::inline_lanes>({m, 0, 1, 4, 1, false}));
  std::size_t turn = 0;
  np::test::in_every_order([&] {
    for (std::size_t s = 0; s < 5; ++s) {
      for (std::size_t const ranks : {1U, 2U, 4U}) {
        std::size_t const m = turn++ % 3;
        setup const now{m, s, ranks, 4 / ranks, ranks == 1 ? 1 + turn % 2 : 1, turn % 2 == 0};
        INFO("model " << m << ", schedule " << s << ", ranks " << ranks << ", threads " << now.threads << ", reuse " << now.reuse);
        CHECK(run<np::exec::cuda_lanes>(now) == references[m]);
      }
    }
  });
}

#if defined(NESTPIPE_EMULATED_DEVICE)
TEST_CASE("in the second pass over the same batches nothing is allocated, and nobody ever waits for the whole device") {
  using namespace device_training;
  np::comm::threads::run(2, [&](np::comm::threads& comm) {
    using trainer_type = np::trainer<models, np::storage::hashed<>, np::comm::threads, schedules, optimizers, np::optimizer::adam, np::exec::cuda_lanes>;
    typename trainer_type::policies p;
    p.model = model(1);
    p.schedule = np::schedule::nested{};
    p.row_optimizer = row_optimizer(1);
    auto c = config_for({1, 4, 2, 2, 1, false});
    c.epochs = 2;
    emulation::counters warm{}, last{};
    std::uint64_t steps = 0;
    c.on_step = [&](auto const&) {
      last = emulation::count();
      if (++steps == 24) warm = last;
    };
    trainer_type trainer{c, comm, p};
    np::test::stream_options o;
    o.rows = 40 * 20;
    trainer.fit(np::test::click_stream{o});
    if (comm.rank() == 0) {
      CHECK(steps == 40);
      CHECK(last.allocations == warm.allocations);
      CHECK(last.device_waits == warm.device_waits);
      CHECK(last.launches > warm.launches);
    }
  });
}
#endif
