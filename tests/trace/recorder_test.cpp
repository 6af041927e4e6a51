// Attribution of idle compute time on intervals made by hand, whose answer is known.
#include <doctest/doctest.h>

#include <nestpipe/trace/exposure.hpp>

#include <sstream>

namespace np = nestpipe;
namespace exec = np::exec;
using exec::stage;
using np::trace::interval;
using np::trace::recorder;

namespace {

// Ops in the order of their ends, as an executor reports them; times in seconds.
class story {
 public:
  explicit story(recorder& r) : recorder_{r} {}
  exec::event add(stage s, double begin, double end, std::initializer_list<exec::event> after = {}, std::uint64_t batch = 0) {
    interval i{{s, batch}, {exec::lane_of(s), ++tickets_[static_cast<std::size_t>(exec::lane_of(s))]}, begin, end, {}, after.size()};
    std::copy(after.begin(), after.end(), i.after.begin());
    recorder_.add(i);
    return i.self;
  }

 private:
  recorder& recorder_;
  std::array<std::uint64_t, exec::lane_count> tickets_{};
};

double exposed(recorder const& r, stage s) { return r.times().exposed[static_cast<std::size_t>(s)]; }
double total(recorder const& r, stage s) { return r.times().total[static_cast<std::size_t>(s)]; }

}  // namespace

TEST_CASE("a gap belongs to the op that the compute lane waited for") {
  recorder r;
  story s{r};
  auto const first = s.add(stage::forward_backward, 0, 1);
  auto const e = s.add(stage::exchange_rows, 0.5, 3, {first});
  s.add(stage::forward_backward, 3, 4, {e});
  CHECK(exposed(r, stage::exchange_rows) == doctest::Approx(2));
  CHECK(total(r, stage::exchange_rows) == doctest::Approx(2.5));
  CHECK(r.times().compute == doctest::Approx(2));
  CHECK(r.times().idle() == doctest::Approx(2));
  CHECK(r.times().unattributed == 0);
}

TEST_CASE("a gap is shared out along the chain of what was waited for") {
  // compute idle 1..7: write_back until 2, retrieve 2..4, exchange 4..5.5, and 1.5 s until the exchange is heard of.
  recorder r;
  story s{r};
  s.add(stage::update_rows, 0, 1);
  auto const w = s.add(stage::write_back, 0.2, 2);
  auto const q = s.add(stage::retrieve, 2, 4, {w});
  auto const e = s.add(stage::exchange_rows, 4, 5.5, {q});
  s.add(stage::forward_backward, 7, 8, {e});
  CHECK(exposed(r, stage::write_back) == doctest::Approx(1));
  CHECK(exposed(r, stage::retrieve) == doctest::Approx(2));
  // Hand-over between lanes counts for the op that was waited for.
  CHECK(exposed(r, stage::exchange_rows) == doctest::Approx(3));
  CHECK(r.times().idle() == doctest::Approx(6));
}

TEST_CASE("of several causes the last to end counts, and the op before it in its lane") {
  recorder r;
  story s{r};
  s.add(stage::forward_backward, 0, 1);
  auto const early = s.add(stage::read, 0, 2);
  auto const g = s.add(stage::exchange_gradients, 1, 3);
  auto const e = s.add(stage::exchange_rows, 3, 5, {early});  // waits for its lane rather than for read
  auto const dense = s.add(stage::reduce_dense, 1, 4);
  s.add(stage::update_dense, 5, 6, {dense, e});
  CHECK(exposed(r, stage::exchange_rows) == doctest::Approx(2));
  CHECK(exposed(r, stage::exchange_gradients) == doctest::Approx(2));
  CHECK(exposed(r, stage::read) == 0);
  CHECK(exposed(r, stage::reduce_dense) == 0);
  (void)g;
}

TEST_CASE("a gap that nothing explains is the issuing thread's, and pauses are no gaps") {
  recorder r;
  story s{r};
  s.add(stage::forward_backward, 0, 1);
  s.add(stage::weight_gradients, 2, 3);
  CHECK(r.times().unattributed == doctest::Approx(1));
  r.pause();
  s.add(stage::forward_backward, 10, 11);
  CHECK(r.times().idle() == doctest::Approx(1));
  r.reset_times();
  CHECK(r.times().idle() == 0);
  CHECK(r.times().compute == 0);
  CHECK(r.intervals().size() == 3);
}

TEST_CASE("old intervals go, sums stay; an op that is gone explains nothing") {
  recorder r{256};
  story s{r};
  exec::event first{};
  for (int i = 0; i < 1000; ++i) {
    auto const e = s.add(stage::read, i, i + 0.5);
    if (i == 0) first = e;
  }
  CHECK(r.intervals().size() == 256);
  CHECK(total(r, stage::read) == doctest::Approx(500));
  s.add(stage::forward_backward, 1000, 1001);
  s.add(stage::forward_backward, 1002, 1003, {first});
  CHECK(r.times().unattributed == doctest::Approx(1));
}

TEST_CASE("sums of chosen steps: only what lies between two updates, whatever was kept") {
  recorder r;
  story s{r};
  double t = 0;
  for (std::uint64_t b = 0; b < 300; ++b) {  // each step: 2 s of exchange exposed, 3 s of compute, 1 s of the input lane hidden
    auto const in = s.add(stage::read, t, t + 1, {}, b);
    auto const e = s.add(stage::exchange_rows, t, t + 2, {in}, b);
    auto const c = s.add(stage::forward_backward, t + 2, t + 4, {e}, b);
    s.add(stage::update_dense, t + 4, t + 5, {c}, b);
    t += 5;
  }
  std::uint64_t steps = 0;
  auto const times = np::trace::times_between(r.intervals(), 10, 20, steps);
  CHECK(steps == 10);
  auto const e = np::trace::summarize(times, steps);
  CHECK(e.rows.exposed == doctest::Approx(2));
  CHECK(e.rows.total == doctest::Approx(2));
  CHECK(e.input.total == doctest::Approx(1));
  CHECK(e.input.exposed == 0);
  CHECK(e.compute == doctest::Approx(3));
  CHECK(e.idle() == doctest::Approx(2));
  // Tickets that begin later than 1, as after a long run.
  auto kept = r.intervals();
  std::erase_if(kept, [](interval const& i) { return i.what.batch < 50; });
  auto const later = np::trace::summarize(np::trace::times_between(kept, 60, 61, steps), 1);
  CHECK(steps == 1);
  CHECK(later.rows.exposed == doctest::Approx(2));
  CHECK(later.compute == doctest::Approx(3));
  // Nothing before the window: it has no begin.
  np::trace::times_between(kept, 0, 40, steps);
  CHECK(steps == 0);
  np::trace::times_between({}, 0, 40, steps);
  CHECK(steps == 0);

  std::ostringstream text;
  np::trace::write_exposure(text, later, 5.0);
  CHECK(text.str().find("row exchange: 2000.00 ms, exposed 2000.00 ms (40.00 % of the step)") != std::string::npos);
  CHECK(text.str().find("all-reduce: 0.00 ms") != std::string::npos);
}
