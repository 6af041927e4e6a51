#include <doctest/doctest.h>

#include <nestpipe/core/random.hpp>
#include <nestpipe/exec/algorithms.hpp>

#if defined(NESTPIPE_TEST_WITH_THRUST)  // as reference, where the toolkit's headers are at hand
#include <thrust/gather.h>
#include <thrust/reduce.h>
#include <thrust/scan.h>
#include <thrust/sort.h>
#include <thrust/system/cpp/execution_policy.h>
#include <thrust/unique.h>
#endif

#include <algorithm>
#include <numeric>
#include <vector>

namespace np = nestpipe;
using np::key_type;
constexpr np::exec::host host{};

namespace {

std::vector<key_type> random_keys(std::size_t n, std::uint64_t range) {
  np::counter_random const random{n, range, 1};
  std::vector<key_type> keys(n);
  for (std::size_t i = 0; i < n; ++i) keys[i] = i % 17 == 3 ? ~key_type{0} : random.below(i, range);
  return keys;
}

std::size_t const sizes[] = {0, 1, 2, 63, 64, 65, 1000, 30'000};
std::uint64_t const ranges[] = {1, 2, 300, 1ULL << 40, ~0ULL};

}  // namespace

TEST_CASE("sort and stable sort by key against the standard library") {
  np::exec::sort_space space;
  for (std::size_t const n : sizes) {
    for (std::uint64_t const range : ranges) {
      CAPTURE(n);
      CAPTURE(range);
      std::vector<key_type> const keys = random_keys(n, range);
      std::vector<key_type> ours = keys, theirs = keys;
      np::exec::sort(host, ours, space);
      std::sort(theirs.begin(), theirs.end());
      CHECK(ours == theirs);

      std::vector<std::uint32_t> values(n), order(n);
      std::iota(values.begin(), values.end(), 0U);
      std::iota(order.begin(), order.end(), 0U);
      ours = keys;
      np::exec::sort_by_key(host, ours, values, space);
      std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) { return keys[a] < keys[b]; });
      CHECK(values == order);
      CHECK(ours == theirs);
    }
  }
}

TEST_CASE("unique, runs and scan against the standard library") {
  for (std::size_t const n : sizes) {
    for (std::uint64_t const range : ranges) {
      std::vector<key_type> sorted = random_keys(n, range);
      std::sort(sorted.begin(), sorted.end());
      std::vector<std::uint32_t> offsets(n + 1);
      std::size_t const runs = np::exec::runs(host, std::span<key_type const>{sorted}, offsets);
      std::vector<key_type> ours = sorted, theirs = sorted;
      theirs.erase(std::unique(theirs.begin(), theirs.end()), theirs.end());
      ours.resize(np::exec::unique(host, std::span{ours}));
      CHECK(ours == theirs);
      REQUIRE(runs == theirs.size());
      CHECK(offsets[runs] == n);
      bool fits = true;
      for (std::size_t r = 0; r < runs; ++r) {
        for (std::uint32_t i = offsets[r]; i < offsets[r + 1]; ++i) fits = fits && sorted[i] == theirs[r];
      }
      CHECK(fits);
    }
    std::vector<std::uint32_t> in(n), expected(n);
    for (std::size_t i = 0; i < n; ++i) in[i] = static_cast<std::uint32_t>(np::mix64(i) % 1000);
    std::exclusive_scan(in.begin(), in.end(), expected.begin(), 0U);
    std::uint32_t const total = std::accumulate(in.begin(), in.end(), 0U);
    CHECK(np::exec::exclusive_scan<std::uint32_t>(host, in, in) == total);  // in place
    CHECK(in == expected);
  }
}

TEST_CASE("gather and segmented sum, in blocks of 64 whatever the width") {
  np::counter_random const random{1, 1, 1};
  for (std::size_t const width : {1U, 3U, 16U, 17U, 64U}) {
    std::vector<float> rows(500 * width);
    for (std::size_t i = 0; i < rows.size(); ++i) rows[i] = random.normal(i);
    std::vector<std::uint32_t> const indices{499, 0, 7, 7, 250};
    std::vector<float> gathered(indices.size() * width);
    np::exec::gather(host, rows.data(), width, indices, gathered.data());
    for (std::size_t i = 0; i < indices.size(); ++i) {
      for (std::size_t k = 0; k < width; ++k) CHECK(gathered[i * width + k] == rows[indices[i] * width + k]);
    }
    std::vector<std::uint32_t> const offsets{0, 0, 1, 64, 129, 129, 130, 500};
    std::vector<float> sums((offsets.size() - 1) * width, 77.0f);
    np::exec::segmented_sum(host, rows.data(), width, offsets, sums.data());
    bool order_matters = false;
    for (std::size_t s = 0; s + 1 < offsets.size(); ++s) {
      for (std::size_t k = 0; k < width; ++k) {
        float total = 0, plain = 0;
        for (std::size_t from = offsets[s]; from < offsets[s + 1]; from += 64) {
          float block = 0;
          for (std::size_t r = from; r < std::min<std::size_t>(from + 64, offsets[s + 1]); ++r) {
            block += rows[r * width + k];
            plain += rows[r * width + k];
          }
          total += block;
        }
        CHECK(sums[s * width + k] == total);
        order_matters = order_matters || plain != total;
      }
    }
    if (width > 3) CHECK(order_matters);
  }
}

#if defined(NESTPIPE_TEST_WITH_THRUST)
TEST_CASE("Thrust on the host agrees") {
  auto const policy = thrust::cpp::par;
  np::exec::sort_space space;
  for (std::size_t const n : sizes) {
    std::vector<key_type> const keys = random_keys(n, 500);
    std::vector<key_type> ours = keys, theirs = keys;
    std::vector<std::uint32_t> values(n), their_values(n);
    std::iota(values.begin(), values.end(), 0U);
    their_values = values;
    np::exec::sort_by_key(host, ours, values, space);
    thrust::stable_sort_by_key(policy, theirs.data(), theirs.data() + n, their_values.data());
    CHECK(ours == theirs);
    CHECK(values == their_values);
    std::vector<std::uint32_t> offsets(n + 1);
    std::size_t const runs = np::exec::runs(host, std::span<key_type const>{ours}, offsets);
    CHECK(static_cast<std::ptrdiff_t>(runs) == thrust::unique(policy, theirs.data(), theirs.data() + n) - theirs.data());

    // Whole numbers: their sums have the same bits in any order.
    std::vector<float> numbers(n);
    for (std::size_t i = 0; i < n; ++i) numbers[i] = static_cast<float>(values[i] % 7);
    std::vector<float> sums(runs), their_sums(n);
    std::vector<key_type> their_keys(n);
    np::exec::segmented_sum(host, numbers.data(), 1, std::span{offsets}.first(runs + 1), sums.data());
    auto const end = thrust::reduce_by_key(policy, ours.data(), ours.data() + n, numbers.data(), their_keys.data(), their_sums.data());
    their_sums.resize(static_cast<std::size_t>(end.second - their_sums.data()));
    CHECK(sums == their_sums);
    std::vector<float> gathered(n), their_gathered(n);
    np::exec::gather(host, numbers.data(), 1, values, gathered.data());
    thrust::gather(policy, values.data(), values.data() + n, numbers.data(), their_gathered.data());
    CHECK(gathered == their_gathered);
  }
}
#else
TEST_CASE("Thrust on the host agrees") { MESSAGE("left out: no CCCL headers"); }
#endif
