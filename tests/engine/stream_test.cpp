// Every sample exactly once, whatever the stream looks like and however it is cut.
#include <doctest/doctest.h>

#include <nestpipe/comm/threads.hpp>
#include <nestpipe/exec/any_of.hpp>
#include <nestpipe/exec/inline_lanes.hpp>
#include <nestpipe/optimizer/adagrad.hpp>
#include <nestpipe/optimizer/sgd.hpp>
#include <nestpipe/schedule/any_of.hpp>
#include <nestpipe/schedule/nested.hpp>
#include <nestpipe/schedule/prefetch.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/trainer.hpp>

#include <support/click_stream.hpp>
#include <support/ledger_model.hpp>

#include <map>
#include <string>
#include <vector>

namespace np = nestpipe;
using np::test::stream_options;

namespace {

using schedules = np::schedule::any_of<np::schedule::sequential, np::schedule::prefetch, np::schedule::nested>;
using executors = np::exec::any_of<np::exec::thread_lanes, np::exec::inline_lanes>;
using trainer_type = np::trainer<np::test::ledger_model, np::storage::hashed<>, np::comm::threads, schedules, np::optimizer::adagrad, np::optimizer::sgd, executors>;

struct cut {
  std::size_t ranks, micro_batches;
};
std::vector<cut> const cuts{{1, 4}, {2, 2}, {4, 1}, {1, 1}, {3, 2}, {5, 1}};

struct outcome {
  std::vector<float> trained;
  np::fit_result fitted;
  std::string digest;
  float bias = 0;
  std::uint64_t rows = 0;
  std::uint64_t evaluated = 0;
};

outcome run(stream_options o, np::trainer_config const& c, cut const& shape, schedules schedule, bool threads) {
  o.label = [](std::uint64_t row) { return static_cast<float>(row); };
  np::test::click_stream const data{o};
  outcome all;
  auto const book = std::make_shared<np::test::ledger>();
  std::mutex mutex;
  np::comm::threads::run(shape.ranks, [&](np::comm::threads& comm) {
    np::trainer_config mine = c;
    mine.micro_batches = shape.micro_batches;
    mine.dim = 3;
    typename trainer_type::policies p;
    p.model.book = book;
    p.schedule = schedule;
    p.dense_optimizer.rate = 0.5;
    trainer_type t{mine, comm, p};
    if (!threads) t.executor().template choose<np::exec::inline_lanes>();
    auto const fitted = t.fit(data);
    std::string const digest = t.parameters_digest().text();
    auto const evaluated = t.evaluate(data);
    CHECK(t.parameters_digest().text() == digest);  // evaluation changes nothing
    std::lock_guard lock{mutex};
    all.rows += t.engine().rows().rows();
    if (comm.rank() != 0) return;
    all.fitted = fitted;
    all.digest = digest;
    all.bias = t.engine().dense().values()[0];
    all.evaluated = evaluated.samples;
  });
  all.trained = book->sorted();
  return all;
}

/// All cuts, schedules and executors: the good rows of every epoch, each once; equal bits for equal numbers of micro-batches.
void check_stream(std::string const& what, stream_options const& o, std::size_t batch_size, std::uint64_t epochs = 2) {
  np::test::click_stream const data{o};
  std::vector<float> expected;
  std::uint64_t steps = 0;
  for (std::uint64_t r = 0; r < o.rows; ++r) {
    if (r % batch_size == 0) {
      bool any = false;
      for (std::uint64_t k = r; k < std::min<std::uint64_t>(o.rows, r + batch_size); ++k) any = any || !data.is_malformed(k);
      steps += any ? epochs : 0;
    }
    for (std::uint64_t e = 0; e < epochs && !data.is_malformed(r); ++e) expected.push_back(static_cast<float>(r));
  }
  np::trainer_config c;
  c.batch_size = batch_size;
  c.epochs = epochs;
  std::map<std::size_t, outcome> first;
  for (cut const& shape : cuts) {
    for (std::size_t s = 0; s < 3; ++s) {
      schedules const schedule = s == 0 ? schedules{np::schedule::sequential{}} : s == 1 ? schedules{np::schedule::prefetch{}} : schedules{np::schedule::nested{}};
      outcome const now = run(o, c, shape, schedule, (s + shape.ranks) % 2 == 0);
      INFO(what << ", " << shape.ranks << " x " << shape.micro_batches << ", schedule " << s);
      CHECK(now.trained == expected);
      CHECK(now.fitted.samples == expected.size());
      CHECK(now.fitted.steps == steps);
      CHECK(now.evaluated == data.good_rows());
      // The gradient of the bias is the mean over the samples of 1.
      CHECK(static_cast<double>(now.bias) == doctest::Approx(-0.5 * static_cast<double>(steps)).epsilon(1e-5));
      auto const [reference, fresh] = first.emplace(shape.ranks * shape.micro_batches, now);
      if (!fresh) {
        CHECK(now.digest == reference->second.digest);
        CHECK(now.rows == reference->second.rows);
      }
    }
  }
}

stream_options rows(std::size_t n) {
  stream_options o;
  o.rows = n;
  return o;
}

}  // namespace

TEST_CASE("batches that do not divide by micro-batches, short last batches, streams shorter than a batch") {
  check_stream("short last batch", rows(333), 50);
  check_stream("whole batches only", rows(150), 50);
  check_stream("less than one batch", rows(31), 50);
  check_stream("one row", rows(2), 50);  // of which one may be malformed
  check_stream("no rows", rows(0), 50);
}

TEST_CASE("batches without samples: at the start, in the middle, in a row, at the end") {
  stream_options o = rows(40 * 9);
  o.malformed = [](std::uint64_t r) { return r / 40 == 0; };
  check_stream("first", o, 40);
  o.malformed = [](std::uint64_t r) { return r / 40 == 3 || r / 40 == 4; };
  check_stream("middle", o, 40);
  o.malformed = [](std::uint64_t r) { return r / 40 >= 2 && r / 40 <= 7; };
  check_stream("six in a row", o, 40);
  o.malformed = [](std::uint64_t r) { return r / 40 == 8; };
  check_stream("last", o, 40);
  o.malformed = [](std::uint64_t r) { return r / 40 % 2 == 0; };
  check_stream("every other", o, 40);
}

TEST_CASE("fewer rows in a batch than ranks: some ranks have nothing to do") {
  check_stream("three rows a batch", rows(20), 3);
  check_stream("one row a batch", rows(9), 1);
}

TEST_CASE("features without ids") {
  stream_options o = rows(120);
  o.bag = [](std::size_t f, std::uint64_t row, std::size_t n) { return f == 2 || (f == 1 && row / 40 == 1) ? 0 : n; };
  check_stream("one never, one not in the second batch", o, 40);
  o.bag = [](std::size_t, std::uint64_t, std::size_t) { return std::size_t{0}; };
  check_stream("none anywhere", o, 40);
}

TEST_CASE("keys: one everywhere, all new, the smallest and the largest") {
  stream_options o = rows(120);
  o.key = [](std::size_t, std::uint64_t, np::key_type) { return np::key_type{7}; };
  check_stream("one key", o, 40);
  o.key = [](std::size_t f, std::uint64_t row, np::key_type k) { return np::mix64(row * 8 + f, k); };
  check_stream("new keys", o, 40);
  o.key = [](std::size_t, std::uint64_t row, np::key_type k) { return (row + k) % 2 == 0 ? np::key_type{0} : ~np::key_type{0}; };
  check_stream("0 and ~0", o, 40);
  o.bag = [](std::size_t, std::uint64_t, std::size_t n) { return 40 * n; };
  check_stream("long bags of equal ids", o, 40);
}

TEST_CASE("no features, no dense columns, neither") {
  stream_options o = rows(120);
  o.features = 0;
  check_stream("no features", o, 40);
  o.dense = 0;
  check_stream("labels only", o, 40);
  o.features = 5;
  check_stream("no dense columns", o, 40);
}

TEST_CASE("nothing but malformed rows is an error that all ranks report") {
  for (std::size_t const ranks : {1U, 3U}) {
    stream_options o = rows(90);
    o.malformed = [](std::uint64_t) { return true; };
    np::trainer_config c;
    c.batch_size = 40;
    std::string heard;
    try {
      run(o, c, {ranks, 1}, np::schedule::nested{}, true);
    } catch (np::data_error const& e) {
      heard = e.what();
    }
    CHECK(heard.find("no usable line among the first 90") != std::string::npos);
  }
}

TEST_CASE("training goes on where it was left: by steps, by a stop, by an epoch's end") {
  stream_options o = rows(400);
  np::test::click_stream data = [&] {
    o.label = [](std::uint64_t row) { return static_cast<float>(row); };
    return np::test::click_stream{o};
  }();
  std::vector<float> expected;
  for (std::uint64_t r = 0; r < o.rows; ++r) {
    if (!data.is_malformed(r)) expected.insert(expected.end(), 2, static_cast<float>(r));
  }
  for (std::size_t const ranks : {1U, 3U}) {
    for (int const way : {0, 1}) {
      auto const book = std::make_shared<np::test::ledger>();
      np::trainer_config c;
      c.batch_size = 32;
      c.epochs = 2;
      c.dim = 2;
      np::comm::threads::run(ranks, [&](np::comm::threads& comm) {
        np::trainer_config mine = c;
        trainer_type* self = nullptr;
        if (way == 1) {  // one rank asks to stop after every third step
          mine.on_step = [&self, &comm](np::progress const& now) {
            if (comm.rank() == 0 && now.step % 3 == 0) self->request_stop();
          };
        }
        typename trainer_type::policies p;
        p.model.book = book;
        p.schedule = np::schedule::nested{};
        trainer_type t{mine, comm, p};
        self = &t;
        std::uint64_t calls = 0;
        while (t.position().epoch < 2 && calls < 100) {
          auto const r = t.fit(data, [&](std::uint64_t, np::fit_result const&) { return way == 1; });  // way 0: one epoch a call
          ++calls;
          if (way == 1) CHECK((r.stopped || t.position().epoch == 2));
        }
        CHECK(calls > 1);
        CHECK(calls < 100);
      });
      CHECK(book->sorted() == expected);
    }
  }
}
