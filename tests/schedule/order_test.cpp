// What every schedule owes the engine, checked on a clock with random durations: lanes in order, ops behind what they wait
// for. An order that only holds by luck of timing breaks in one of the draws.
#include <doctest/doctest.h>

#include <nestpipe/core/random.hpp>
#include <nestpipe/schedule/any_of.hpp>
#include <nestpipe/schedule/nested.hpp>
#include <nestpipe/schedule/prefetch.hpp>
#include <nestpipe/schedule/sequential.hpp>

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <vector>

namespace np = nestpipe;
using np::exec::event;
using np::exec::op;
using np::exec::portion;
using np::exec::stage;

namespace {

struct shape {
  std::uint32_t micro_batches = 1, buckets = 1;
  std::uint64_t slots = 6, first = 0, batches = 8;  ///< the last batch is the boundary
  std::uint64_t empty_mask = 0;                     ///< bit t: batch first + t has no samples
};

/// A pipeline that only keeps time.
class clock_pipeline {
 public:
  struct span {
    op what;
    double begin = 0, end = 0;
  };
  struct info {
    std::uint64_t samples = 0;
    bool boundary = false;
  };

  clock_pipeline(shape const& s, std::uint64_t seed) : shape_{s}, random_{seed, 1, 2} {}

  template <class... Events>
  event issue(op const& o, Events... after) {
    auto const where = np::exec::lane_of(o.what);
    auto& lane = lanes_[static_cast<std::size_t>(where)];
    double begin = std::max(host_, lane.empty() ? 0.0 : lane.back());
    for (event const e : std::array<event, sizeof...(after)>{after...}) {
      if (e.ticket == 0) continue;
      auto const& other = lanes_[static_cast<std::size_t>(e.where)];
      REQUIRE(e.ticket <= other.size());  // issued before
      begin = std::max(begin, other[e.ticket - 1]);
    }
    // Now and then one op takes very long.
    std::uint64_t const draw = random_.below(ops.size(), 20);
    double const length = draw == 0 ? 50.0 : random_.uniform_double(100'000 + ops.size());
    lane.push_back(begin + length);
    ops.push_back({o, begin, begin + length});
    return {where, lane.size()};
  }
  info agreed(std::uint64_t t) {
    REQUIRE(count(stage::route, t) == 1);
    host_ = std::max(host_, end(stage::route, t));  // the issuing thread waits here
    return {empty(t) ? 0U : 10U, t + 1 == shape_.first + shape_.batches};
  }
  std::uint64_t first_batch() const { return shape_.first; }
  std::uint32_t micro_batches() const { return shape_.micro_batches; }
  std::uint64_t slots() const { return shape_.slots; }
  std::uint32_t buckets() const { return shape_.buckets; }
  void drain() { ++drains; }

  bool empty(std::uint64_t t) const { return (shape_.empty_mask >> (t - shape_.first) & 1) != 0; }
  std::size_t count(stage s, std::uint64_t t) const {
    return static_cast<std::size_t>(std::count_if(ops.begin(), ops.end(), [&](span const& x) { return x.what.what == s && x.what.batch == t; }));
  }
  /// First begin and last end of a stage of a batch.
  double begin(stage s, std::uint64_t t, std::uint32_t part = ~0U) const { return extreme(s, t, part, true); }
  double end(stage s, std::uint64_t t, std::uint32_t part = ~0U) const { return extreme(s, t, part, false); }

  std::vector<span> ops;
  int drains = 0;

 private:
  double extreme(stage s, std::uint64_t t, std::uint32_t part, bool first) const {
    double at = first ? 1e300 : -1e300;
    for (auto const& x : ops) {
      if (x.what.what != s || x.what.batch != t || (part != ~0U && x.what.part != part)) continue;
      at = first ? std::min(at, x.begin) : std::max(at, x.end);
    }
    return at;
  }

  double host_ = 0;
  shape shape_;
  np::counter_random random_;
  std::array<std::vector<double>, np::exec::lane_count> lanes_;  // ends
};

int bucket_overlaps = 0;  // batches in which a bucket was reduced while a later one was computed

template <class Schedule>
void check_order(Schedule const& schedule, shape const& s, std::uint64_t seed) {
  clock_pipeline p{s, seed};
  schedule.run(p);
  CHECK(p.drains > 0);
  CHECK(p.ops.empty() == false);
  std::uint64_t const last = s.first + s.batches - 1;
  std::vector<std::uint64_t> trained;
  for (std::uint64_t t = s.first; t <= last; ++t) {
    CAPTURE(t);
    CHECK(p.count(stage::read, t) == 1);
    CHECK(p.count(stage::stage, t) == 1);
    CHECK(p.count(stage::route, t) == 1);
    CHECK(p.end(stage::read, t) <= p.begin(stage::stage, t));
    CHECK(p.end(stage::stage, t) <= p.begin(stage::route, t));
    if (p.empty(t)) {
      for (stage const none : {stage::retrieve, stage::exchange_rows, stage::forward_backward, stage::update_rows, stage::update_dense, stage::write_back}) CHECK(p.count(none, t) == 0);
      continue;
    }
    trained.push_back(t);
    CHECK(p.count(stage::retrieve, t) == 1);
    CHECK(p.count(stage::write_back, t) == 1);
    CHECK(p.count(stage::update_dense, t) == 1);
    CHECK(p.count(stage::forward_backward, t) == s.micro_batches);
    CHECK(p.count(stage::weight_gradients, t) == s.micro_batches - 1 + s.buckets);
    CHECK(p.count(stage::exchange_gradients, t) == s.micro_batches);
    CHECK(p.count(stage::reduce_dense, t) == s.buckets);
    CHECK(p.end(stage::route, t) <= p.begin(stage::retrieve, t));
    CHECK(p.end(stage::retrieve, t) <= p.begin(stage::exchange_rows, t));
    for (std::uint32_t m = 0; m < s.micro_batches; ++m) {
      CHECK(p.end(stage::exchange_rows, t, m) <= p.begin(stage::forward_backward, t, m));
      CHECK(p.end(stage::forward_backward, t, m) <= p.begin(stage::weight_gradients, t, m));
      CHECK(p.end(stage::forward_backward, t, m) <= p.begin(stage::exchange_gradients, t, m));
      if (m > 0) CHECK(p.end(stage::exchange_gradients, t, m - 1) <= p.begin(stage::exchange_gradients, t, m));  // folds ascend
      if (m > 1) CHECK(p.end(stage::forward_backward, t, m - 2) <= p.begin(stage::exchange_rows, t, m));        // two landing buffers
      if (m > 1) CHECK(p.end(stage::exchange_gradients, t, m - 2) <= p.begin(stage::forward_backward, t, m));   // two gradient buffers
      if (m > 1) CHECK(p.end(stage::weight_gradients, t, m - 2) <= p.begin(stage::forward_backward, t, m));     // two workspaces
    }
    // Whole gradients, then those of the last micro-batch in buckets, each reduced behind its own and not behind the next.
    std::uint32_t whole = 0, parts = 0;
    for (auto const& x : p.ops) {
      if (x.what.batch != t || x.what.what != stage::weight_gradients) continue;
      if (x.what.part + 1 < s.micro_batches) {
        CHECK((x.what.bucket == 0 && x.what.buckets == 1));
        CHECK(x.end <= p.begin(stage::reduce_dense, t));
        ++whole;
        continue;
      }
      CHECK((x.what.bucket == parts && x.what.buckets == s.buckets));
      CHECK(x.end <= p.begin(stage::reduce_dense, t, parts));
      ++parts;
    }
    CHECK(whole == s.micro_batches - 1);
    CHECK(parts == s.buckets);
    if (s.buckets > 1) bucket_overlaps += p.begin(stage::reduce_dense, t, 0) < p.end(stage::weight_gradients, t) ? 1 : 0;
    CHECK(p.end(stage::reduce_dense, t) <= p.begin(stage::update_dense, t));
    CHECK(p.end(stage::exchange_gradients, t) <= p.begin(stage::update_rows, t));
    CHECK(p.end(stage::update_rows, t) <= p.begin(stage::write_back, t));
    // The whole batch is done before its slot is used again.
    if (t + s.slots <= last) {
      for (auto const& x : p.ops) {
        if (x.what.batch == t) CHECK(x.end <= p.begin(stage::read, t + s.slots));
      }
    }
  }
  // Nothing of a batch past the boundary is routed.
  for (auto const& x : p.ops) CHECK((x.what.batch <= last || x.what.what == stage::read || x.what.what == stage::stage));

  for (std::size_t i = 0; i + 1 < trained.size(); ++i) {
    std::uint64_t const now = trained[i], next = trained[i + 1];
    CAPTURE(now);
    CAPTURE(next);
    CHECK(p.end(stage::update_dense, now) <= p.begin(stage::forward_backward, next));
    CHECK(p.end(stage::weight_gradients, now) <= p.begin(stage::weight_gradients, next));
    CHECK(p.end(stage::update_dense, now) <= p.begin(stage::weight_gradients, next));  // the leaves of the reduction
    bool const refreshed = p.count(stage::refresh, next) != 0;
    if (!refreshed) {
      CHECK(p.end(stage::write_back, now) <= p.begin(stage::retrieve, next));
    } else {
      CHECK(schedule.windows() == 2);
      CHECK(p.end(stage::retrieve, next) <= p.begin(stage::refresh, next));
      // Shared rows are updated, then copied, then sent or stored over.
      double shared = -1;
      for (auto const& x : p.ops) {
        if (x.what.what == stage::update_rows && x.what.batch == now && x.what.rows != portion::early) shared = x.end;
      }
      CHECK(shared > 0);
      CHECK(shared <= p.begin(stage::refresh, next));
      for (auto const& x : p.ops) {
        if (x.what.what == stage::exchange_rows && x.what.batch == next && x.what.rows != portion::early) CHECK(p.end(stage::refresh, next) <= x.begin);
      }
    }
    if (schedule.windows() == 2 && i + 2 < trained.size()) {  // the window, and rows in t and t + 2 but not in t + 1
      CHECK(p.end(stage::write_back, now) <= p.begin(stage::retrieve, trained[i + 2]));
      if (refreshed) CHECK(p.end(stage::refresh, next) <= p.begin(stage::retrieve, trained[i + 2]));
    }
  }
}

template <class Schedule>
void check_schedule(std::string const& name, Schedule const& schedule) {
  static_assert(np::schedule::audit<Schedule>() && np::schedule::exact_schedule<Schedule>);
  bucket_overlaps = 0;
  std::uint64_t seed = 1;
  for (std::uint32_t const micro : {1U, 2U, 3U, 4U, 7U}) {
    for (std::uint64_t const slots : {4U, 6U, 9U}) {
      for (std::uint64_t const mask : {0x00U, 0x08U, 0x01U, 0x80U, 0x7eU, 0x55U, 0xffU}) {
        for (int draw = 0; draw < 4; ++draw) {
          INFO(name << ", " << micro << " micro-batches, " << slots << " slots, empty batches " << mask << ", draw " << draw);
          check_order(schedule, {micro, 1U + micro % 3, slots, 100, draw == 3 ? 1U : 8U, mask}, seed++);
        }
      }
    }
  }
  CHECK(bucket_overlaps > 0);
}

template <class S>
S without_early_rows() {
  S s{};
  s.early = false;
  s.shared_first = false;
  return s;
}

}  // namespace

TEST_CASE("sequential") { check_schedule("sequential", np::schedule::sequential{}); }
TEST_CASE("prefetch") {
  for (std::uint64_t const ahead : {0U, 1U, 2U, 50U}) check_schedule("prefetch", np::schedule::prefetch{.ahead = ahead});
}
TEST_CASE("frozen_window") {
  check_schedule("frozen_window", np::schedule::frozen_window{});
  check_schedule("frozen_window, whole backward", np::schedule::frozen_window{.split_backward = false});
}
TEST_CASE("dual_buffer") {
  check_schedule("dual_buffer", np::schedule::dual_buffer<>{});
  check_schedule("dual_buffer, nothing early", without_early_rows<np::schedule::dual_buffer<>>());
}
TEST_CASE("nested") {
  check_schedule("nested", np::schedule::nested{});
  check_schedule("nested, nothing early", without_early_rows<np::schedule::nested>());
}
TEST_CASE("any_of is as good as what it holds") {
  using any = np::schedule::any_of<np::schedule::sequential, np::schedule::nested>;
  check_schedule("any_of sequential", any{});
  check_schedule("any_of nested", any{np::schedule::nested{}});
  CHECK(np::schedule::early_rows(any{np::schedule::nested{}}));
  CHECK_FALSE(np::schedule::early_rows(any{}));
}
