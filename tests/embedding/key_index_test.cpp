#include <doctest/doctest.h>

#include <nestpipe/embedding/key_index.hpp>

#include <unordered_map>
#include <vector>

namespace np = nestpipe;

TEST_CASE("key_index numbers keys by first appearance, like a map") {
  np::embedding::key_index index;
  np::counter_random const random{1, 2, 3};
  std::uint64_t draw = 0;
  for (std::size_t const n : {1U, 5U, 1000U, 20'000U, 17U, 0U, 300U}) {  // growing and shrinking
    for (std::uint64_t const range : {std::uint64_t{1}, std::uint64_t{10}, std::uint64_t{5000}, ~std::uint64_t{0}}) {
      index.reset(n);
      std::unordered_map<np::key_type, std::uint32_t> reference;
      std::vector<np::key_type> order;
      bool same = true;
      for (std::size_t i = 0; i < n; ++i) {
        np::key_type key = random.below(draw++, range);
        if (i % 11 == 0) key = ~np::key_type{0};
        if (i % 13 == 0) key = 0;
        auto const [at, fresh] = reference.emplace(key, static_cast<std::uint32_t>(reference.size()));
        if (fresh) order.push_back(key);
        same = same && index.insert(key) == at->second && index.find(key) == at->second && index.size() == reference.size();
      }
      CHECK(same);
      CHECK(std::vector<np::key_type>(index.keys().begin(), index.keys().end()) == order);
      for (np::key_type key = 100; key < 200; ++key) {
        auto const at = reference.find(key);
        CHECK(index.find(key) == (at == reference.end() ? index.size() : at->second));
      }
    }
  }
}

TEST_CASE("key_index takes a million copies of one key, and keys that differ in high bits only") {
  np::embedding::key_index index;
  index.reset(1'000'000);
  bool always = true;
  for (int i = 0; i < 1'000'000; ++i) always = always && index.insert(42) == 0;
  CHECK(always);
  CHECK(index.size() == 1);
  index.reset(4096);
  for (std::uint64_t i = 0; i < 4096; ++i) CHECK(index.insert(i << 52) == i);
  CHECK(index.size() == 4096);
}

TEST_CASE("key_index: a batch is as its keys one by one, whatever its length") {
  np::counter_random const random{4, 5, 6};
  std::uint64_t draw = 0;
  np::embedding::key_index single, batched;
  for (std::size_t const n : {0U, 1U, 31U, 32U, 33U, 64U, 65U, 97U, 1000U, 70'000U}) {
    for (std::uint64_t const range : {std::uint64_t{1}, std::uint64_t{40}, std::uint64_t{30'000}, ~std::uint64_t{0}}) {
      std::vector<np::key_type> keys(n);
      for (auto& key : keys) key = random.below(draw++, range);
      single.reset(2 * n);
      batched.reset(2 * n);
      std::vector<std::uint32_t> one(n), many(n), found(n);
      for (int round = 0; round < 2; ++round) {   // the second finds what the first left there, and adds to it
        for (std::size_t i = 0; i < n; ++i) one[i] = single.insert(keys[i]);
        batched.insert(keys, many.data());
        CHECK(one == many);
        CHECK(std::vector(single.keys().begin(), single.keys().end()) == std::vector(batched.keys().begin(), batched.keys().end()));
        batched.find(keys, found.data());
        CHECK(found == many);
        for (std::size_t i = 0; i < n; i += 3) keys[i] = ~keys[i];
        batched.find(keys, found.data());
        bool same = true;
        for (std::size_t i = 0; i < n; ++i) same = same && found[i] == single.find(keys[i]);
        CHECK(same);
      }
    }
  }
}
