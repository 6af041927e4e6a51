// Counting sketches, the rule of admission, and the decorator as a store.
#include "storage_conformance.hpp"

#include <nestpipe/storage/admitting.hpp>
#include <nestpipe/storage/audited.hpp>
#include <nestpipe/storage/hashed.hpp>

#include <cmath>

namespace s = nestpipe::storage;
namespace c = storage_conformance;
using nestpipe::key_type;

namespace {

s::count_sketches opened(s::sketch_size size, std::uint32_t shards = 8) {
  s::count_sketches counts;
  counts.open(3, shards, size);
  return counts;
}

}  // namespace

TEST_CASE("estimates are never too low, and too high as seldom as stated") {
  auto counts = opened({256, 3}, 4);
  std::uint64_t of_shard[4] = {};
  auto const times = [](key_type k) { return static_cast<std::uint32_t>(1 + k % 5); };
  for (key_type k = 0; k < 4000; ++k) {
    counts.add(k, times(k));
    of_shard[nestpipe::shard_of(3, k, 4)] += times(k);
  }
  int high = 0;
  bool low = false;
  for (key_type k = 0; k < 4000; ++k) {
    std::uint32_t const estimate = counts.estimate(k);
    low = low || estimate < times(k);
    double const bound = std::exp(1.0) / 256 * static_cast<double>(of_shard[nestpipe::shard_of(3, k, 4)]);
    high += static_cast<double>(estimate - times(k)) > bound ? 1 : 0;
  }
  CHECK(!low);
  CHECK(high <= 4000 * std::exp(-3.0));
  auto wide = opened({1U << 15, 4}, 4);
  for (key_type k = 0; k < 200; ++k) wide.add(k, times(k));
  bool exact = true;
  for (key_type k = 0; k < 400; ++k) exact = exact && wide.estimate(k) == (k < 200 ? times(k) : 0);
  CHECK(exact);
}

TEST_CASE("sketches are linear: shard by shard they add, subtract and move") {
  auto a = opened({32, 2}), b = opened({32, 2}), both = opened({32, 2});
  for (key_type k = 0; k < 500; ++k) {
    a.add(k * 7, 2);
    both.add(k * 7, 2);
    b.add(k * 3, 1);
    both.add(k * 3, 1);
  }
  auto sum = opened({32, 2});
  for (std::uint32_t shard = 0; shard < 8; ++shard) {
    sum.add_to_shard(shard, a.of_shard(shard));
    sum.add_to_shard(shard, b.of_shard(shard));
    CHECK(std::equal(sum.of_shard(shard).begin(), sum.of_shard(shard).end(), both.of_shard(shard).begin(), both.of_shard(shard).end()));
    sum.subtract_from_shard(shard, b.of_shard(shard));
    CHECK(std::equal(sum.of_shard(shard).begin(), sum.of_shard(shard).end(), a.of_shard(shard).begin(), a.of_shard(shard).end()));
  }
  for (key_type k = 0; k < 500; ++k) both.subtract(k * 3, 1);
  CHECK(both.estimate(7) == a.estimate(7));
  CHECK_THROWS_AS(sum.add_to_shard(0, std::vector<std::uint32_t>(7)), nestpipe::config_error);
  CHECK_THROWS_AS(opened({0, 4}), nestpipe::config_error);
}

TEST_CASE("with a probability, each occurrence is a chance") {
  s::admission_rule const rule{3, 0.25};
  double sum = 0;
  int at_once = 0;
  constexpr int keys = 20000;
  for (key_type k = 0; k < keys; ++k) {
    std::uint64_t const needed = rule.needed(1, 2, k);
    CHECK(needed >= 3);
    sum += static_cast<double>(needed - 3);
    at_once += needed == 3 ? 1 : 0;
  }
  CHECK(at_once / double{keys} == doctest::Approx(0.25).epsilon(0.05));
  CHECK(sum / keys == doctest::Approx(3.0).epsilon(0.05));  // failures before the first success: (1 - p) / p
  CHECK(rule.needed(1, 2, 5) == rule.needed(1, 2, 5));
  CHECK(s::admission_rule{7, 1.0}.needed(1, 2, 5) == 7);
  CHECK_THROWS_AS((s::admitting<s::hashed<>>{{}, {1, 0.0}}), nestpipe::config_error);
}

TEST_CASE("the decorator is a store, and its rule is found under others") {
  c::check_storage(s::admitting<s::hashed<>>{{}, {5, 1.0}}, {.growth_rows = 20000});
  static_assert(s::may_refuse<s::audited<s::admitting<s::hashed<>>>>);
  static_assert(!s::may_refuse<s::audited<s::hashed<>>>);
  CHECK(!s::admission_of(s::admitting<s::hashed<>>{}));
  s::audited<s::admitting<s::hashed<>>> const store{s::admitting<s::hashed<>>{{}, {5, 1.0}, {64, 2}}};
  REQUIRE(s::admission_of(store));
  CHECK(s::admission_of(store).needed(1, 2, 3) == 5);
  CHECK(s::admission_of(store).size.width == 64);
}
