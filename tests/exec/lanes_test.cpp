#include <doctest/doctest.h>

#include <nestpipe/core/random.hpp>
#include <nestpipe/exec/any_of.hpp>
#include <nestpipe/exec/inline_lanes.hpp>
#include <nestpipe/exec/thread_lanes.hpp>

#include <support/hooked_lanes.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <string>
#include <thread>
#include <vector>

namespace np = nestpipe;
using np::exec::event;
using np::exec::lane;
using np::exec::op;
using np::exec::stage;
using namespace std::chrono_literals;

namespace {

/// A handler that calls functions.
struct recorder {
  std::function<void(op const&)> on_execute;
  std::atomic<int> failures{0};
  std::exception_ptr cause;

  void execute(op const& o) {
    if (on_execute) on_execute(o);
  }
  void failed(std::exception_ptr e) noexcept {
    cause = std::move(e);
    ++failures;
  }
};

stage stage_of(std::uint64_t i) { return static_cast<stage>(i % np::exec::stage_count); }

template <class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (std::exception const& e) {
    return e.what();
  }
  return {};
}

std::string text(std::exception_ptr const& e) {
  return message_of([&] { std::rethrow_exception(e); });
}

/// A door that ops wait at.
class gate {
 public:
  void open() {
    {
      std::lock_guard lock{mutex_};
      open_ = true;
    }
    changed_.notify_all();
  }
  void pass() {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return open_; });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool open_ = false;
};

}  // namespace

TEST_CASE_TEMPLATE("a lane runs its ops in the order of issue, and no op before those it waits for", E, np::exec::inline_lanes, np::exec::thread_lanes,
                   np::test::hooked<np::exec::thread_lanes>, np::exec::any_of<np::exec::thread_lanes, np::exec::inline_lanes>) {
  static_assert(np::exec::executor<E> && np::exec::audit<E>());
  constexpr std::size_t ops = 3000;
  std::vector<std::atomic<bool>> done(ops);
  std::vector<std::vector<std::uint64_t>> needs(ops);
  std::array<std::vector<std::uint64_t>, np::exec::lane_count> order;  // written by one lane each
  std::atomic<int> early{0};
  recorder r;
  r.on_execute = [&](op const& o) {
    for (std::uint64_t const n : needs[o.batch]) early += done[n].load() ? 0 : 1;
    order[static_cast<std::size_t>(np::exec::lane_of(o.what))].push_back(o.batch);
    if (np::mix64(o.batch) % 97 == 0) std::this_thread::sleep_for(100us);
    done[o.batch] = true;
  };
  E e;
  e.start(np::exec::work::of(r));
  std::vector<event> events(ops);
  np::counter_random const random{5, 6, 7};
  for (std::uint64_t i = 0; i < ops; ++i) {
    std::vector<event> after;
    std::uint64_t const count = i == 0 ? 0 : random.below(2 * i, np::exec::max_dependencies + 1);
    for (std::uint64_t k = 0; k < count; ++k) {
      std::uint64_t const back = 1 + random.below((i << 8) + k + 1'000'000, std::min<std::uint64_t>(i, 40));
      needs[i].push_back(i - back);
      after.push_back(events[i - back]);
    }
    op const o{stage_of(random.bits(2 * i + 1)), i};
    events[i] = e.issue(o, after);
    CHECK(events[i].where == np::exec::lane_of(o.what));
    if (i % 500 == 499) {
      e.wait(events[i - 100]);
      CHECK(done[i - 100]);
    }
  }
  e.drain();
  CHECK(early == 0);
  std::size_t total = 0;
  for (auto const& l : order) {
    CHECK(std::is_sorted(l.begin(), l.end()));
    total += l.size();
  }
  CHECK(total == ops);
  CHECK(r.failures == 0);
  e.stop();
}

TEST_CASE_TEMPLATE("the first failure cancels what has not started and reaches wait, issue, drain and the handler", E, np::exec::inline_lanes,
                   np::exec::thread_lanes, np::test::hooked<np::exec::thread_lanes>, np::exec::any_of<np::exec::thread_lanes, np::exec::inline_lanes>) {
  std::atomic<int> after_failure{0};
  recorder r;
  r.on_execute = [&](op const& o) {
    if (o.batch == 3) {
      std::this_thread::sleep_for(5ms);  // so that the others are queued
      throw np::error{"compute broke"};
    }
    if (o.batch > 3) ++after_failure;
  };
  E e;
  e.start(np::exec::work::of(r));
  std::string const heard = message_of([&] {
    event last{};
    for (std::uint64_t t = 0; t < 5; ++t) last = e.issue({stage::forward_backward, t}, {});
    event const dependent = e.issue({stage::exchange_gradients, 9}, std::span{&last, 1});
    e.wait(dependent);
  });
  CHECK(heard == "compute broke");
  CHECK(r.failures == 1);  // known before any caller may leave
  CHECK(text(r.cause) == "compute broke");
  CHECK(message_of([&] { e.issue({stage::read, 10}, {}); }) == "compute broke");
  CHECK(message_of([&] { e.wait({lane::input, 1}); }) == "compute broke");
  CHECK(message_of([&] { e.drain(); }) == "compute broke");
  e.stop();
  CHECK(after_failure == 0);
  CHECK(r.failures == 1);

  r.on_execute = {};
  e.start(np::exec::work::of(r));  // as good as new
  e.wait(e.issue({stage::read, 0}, {}));
  e.drain();
  e.stop();
}

TEST_CASE("several lanes that fail at once report one cause") {
  for (int repetition = 0; repetition < 50; ++repetition) {
    recorder r;
    std::atomic<int> running{0};
    r.on_execute = [&](op const& o) {
      ++running;
      while (running < 3) std::this_thread::yield();
      throw np::error{std::string{np::exec::name(o.what)}};
    };
    np::exec::thread_lanes e;
    e.start(np::exec::work::of(r));
    std::string const at_wait = message_of([&] {
      event const a = e.issue({stage::read, 0}, {});
      e.issue({stage::route, 0}, {});
      e.issue({stage::update_rows, 0}, {});
      e.wait(a);
    });
    CHECK(r.failures == 1);
    CHECK(text(r.cause) == at_wait);
    CHECK(message_of([&] { e.drain(); }) == at_wait);
    e.stop();
  }
}

TEST_CASE("a full lane holds its issuer back, and the issuer alone") {
  recorder r;
  gate door;
  r.on_execute = [&](op const& o) {
    if (o.what == stage::read) door.pass();
  };
  np::exec::thread_lanes e{4};
  e.start(np::exec::work::of(r));
  std::atomic<int> issued{0};
  std::thread issuer{[&] {
    for (std::uint64_t t = 0; t < 20; ++t) {
      e.issue({stage::read, t}, {});
      ++issued;
    }
  }};
  for (int i = 0; i < 200 && issued < 4; ++i) std::this_thread::sleep_for(1ms);
  std::this_thread::sleep_for(30ms);
  CHECK(issued == 4);
  e.wait(e.issue({stage::route, 0}, {}));  // other lanes go on
  door.open();
  issuer.join();
  e.drain();
  CHECK(issued == 20);
  e.stop();
}

TEST_CASE("a failure wakes an issuer that a full lane holds back, and a waiter") {
  recorder r;
  gate door;
  r.on_execute = [&](op const& o) {
    if (o.what == stage::read) {
      door.pass();
      throw np::error{"disk gone"};
    }
  };
  np::exec::thread_lanes e{2};
  e.start(np::exec::work::of(r));
  std::string at_issue, at_wait;
  event const first = e.issue({stage::read, 0}, {});
  std::thread issuer{[&] { at_issue = message_of([&] { for (std::uint64_t t = 1; t < 9; ++t) e.issue({stage::read, t}, {}); }); }};
  std::thread waiter{[&] { at_wait = message_of([&] { e.wait(first); }); }};
  std::this_thread::sleep_for(10ms);
  door.open();
  issuer.join();
  waiter.join();
  CHECK(at_issue == "disk gone");
  CHECK(at_wait == "disk gone");
}

TEST_CASE("stop waits for what runs, cancels the rest, and may be called at any time") {
  recorder r;
  std::atomic<int> started{0}, ended{0};
  r.on_execute = [&](op const&) {
    ++started;
    std::this_thread::sleep_for(10ms);
    ++ended;
  };
  np::exec::thread_lanes e;
  e.stop();  // before any start
  e.start(np::exec::work::of(r));
  for (std::uint64_t t = 0; t < 10; ++t) e.issue({stage::forward_backward, t}, {});
  for (int i = 0; i < 1000 && started == 0; ++i) std::this_thread::sleep_for(1ms);
  e.stop();
  CHECK(started == ended);
  CHECK(started < 10);
  int const then = started;
  e.stop();
  std::this_thread::sleep_for(20ms);
  CHECK(started == then);
  e.start(np::exec::work::of(r));
  e.wait(e.issue({stage::forward_backward, 0}, {}));
  CHECK(ended == then + 1);
}

TEST_CASE("a caller cannot leave before the handler has heard of the failure") {
  for (int repetition = 0; repetition < 20; ++repetition) {
    struct slow_listener {
      void execute(op const&) { throw np::error{"cause"}; }
      void failed(std::exception_ptr) noexcept {
        std::this_thread::sleep_for(3ms);
        heard = true;
      }
      std::atomic<bool> heard{false};
    } r;
    np::exec::thread_lanes e;
    e.start(np::exec::work::of(r));
    CHECK_THROWS_AS(e.wait(e.issue({stage::read, 0}, {})), np::error);
    CHECK(r.heard);
  }
}

TEST_CASE("an op may wait for eight events of other lanes, not nine") {
  recorder r;
  gate door;
  r.on_execute = [&](op const& o) {
    if (o.what == stage::read) door.pass();
  };
  np::exec::thread_lanes e;
  e.start(np::exec::work::of(r));
  std::vector<event> nine;
  for (std::uint64_t t = 0; t < 9; ++t) nine.push_back(e.issue({stage::read, t}, {}));
  std::string const heard = message_of([&] { e.issue({stage::route, 0}, nine); });
  CHECK(heard.find("too many events") != std::string::npos);
  CHECK(heard.find("route") != std::string::npos);
  event const ok = e.issue({stage::route, 0}, std::span{nine}.first(8));
  door.open();
  e.wait(ok);
  e.drain();
}

TEST_CASE("stages and lanes have names, and every stage has a lane") {
  for (std::size_t s = 0; s < np::exec::stage_count; ++s) {
    CHECK_FALSE(np::exec::name(static_cast<stage>(s)).empty());
    CHECK(static_cast<std::size_t>(np::exec::lane_of(static_cast<stage>(s))) < np::exec::lane_count);
  }
  CHECK(np::exec::name(stage::write_back) == "write_back");
  CHECK(np::exec::lane_of(stage::write_back) == np::exec::lane_of(stage::retrieve));
  CHECK(np::exec::name(lane::reduce) == "reduce");
}
