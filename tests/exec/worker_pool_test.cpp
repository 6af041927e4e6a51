#include <doctest/doctest.h>

#include <nestpipe/exec/worker_pool.hpp>

#include <atomic>
#include <chrono>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

namespace np = nestpipe;

TEST_CASE("every part runs once, whatever the numbers of threads and parts") {
  for (std::size_t const threads : {0U, 1U, 2U, 3U, 5U}) {
    np::exec::worker_pool pool{threads};
    CHECK(pool.threads() == std::max<std::size_t>(1, threads));
    for (std::size_t const parts : {0U, 1U, 2U, 3U, 64U}) {
      std::vector<int> runs(parts, 0);  // one element a part: no two threads touch the same
      for (int round = 0; round < 20; ++round) pool.run(parts, [&](std::size_t p) { ++runs[p]; });
      for (int const n : runs) CHECK(n == 20);
    }
  }
}

TEST_CASE("ranges partition, and are not cut below the grain") {
  np::exec::worker_pool pool{3};
  for (std::size_t const n : {0U, 1U, 2U, 9U, 10U, 1000U}) {
    for (std::size_t const grain : {0U, 1U, 5U, 4096U}) {
      std::vector<int> seen(n, 0);
      std::atomic<std::size_t> parts{0};
      pool.ranges(n, grain, [&](std::size_t first, std::size_t last) {
        ++parts;
        for (std::size_t i = first; i < last; ++i) ++seen[i];
      });
      for (int const s : seen) CHECK(s == 1);
      CHECK(parts.load() <= 3);
      if (grain > 0) CHECK(parts.load() <= std::max<std::size_t>(1, n / grain));
    }
  }
}

TEST_CASE("parts run at the same time") {
  np::exec::worker_pool pool{2};
  std::atomic<int> inside{0};
  // Each part waits until the other has begun: one thread alone would not get through.
  pool.run(2, [&](std::size_t) {
    ++inside;
    auto const end = std::chrono::steady_clock::now() + std::chrono::seconds{20};
    while (inside.load() < 2 && std::chrono::steady_clock::now() < end) std::this_thread::yield();
  });
  CHECK(inside.load() == 2);
}

TEST_CASE("several callers at once, each with its own job") {
  np::exec::worker_pool pool{2};
  std::vector<std::thread> callers;
  std::vector<std::uint64_t> sums(3, 0);
  for (std::size_t c = 0; c < sums.size(); ++c) {
    callers.emplace_back([&, c] {
      std::vector<std::uint64_t> part(7);
      for (std::uint64_t round = 0; round < 300; ++round) {
        pool.run(part.size(), [&](std::size_t p) { part[p] = round * p; });
        for (std::uint64_t const v : part) sums[c] += v;
      }
    });
  }
  for (auto& c : callers) c.join();
  for (std::uint64_t const s : sums) CHECK(s == 299 * 300 / 2 * 21);
}

TEST_CASE("an exception reaches the caller, who can go on") {
  for (std::size_t const threads : {1U, 3U}) {
    np::exec::worker_pool pool{threads};
    for (int round = 0; round < 50; ++round) {
      CHECK_THROWS_WITH_AS(pool.run(8, [](std::size_t p) {
        if (p == 2) throw std::runtime_error{"part two"};
      }), "part two", std::runtime_error);
      std::atomic<int> ran{0};
      pool.run(8, [&](std::size_t) { ++ran; });
      CHECK(ran.load() == 8);
    }
  }
}
