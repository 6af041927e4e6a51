#include "storage_conformance.hpp"

#include <nestpipe/storage/dense.hpp>

#include <string>

namespace s = nestpipe::storage;
namespace c = storage_conformance;
using nestpipe::key_type;

TEST_CASE("dense meets the contract of a store") { c::check_storage(s::dense{}, {.key_limit = 1 << 19}); }

TEST_CASE("so it does for the share of one rank of several") { c::check_storage(s::dense{}, {.key_limit = 1 << 19, .world_size = 3}); }

TEST_CASE("a key out of range is refused by name, and nothing changes") {
  for (std::uint32_t const world : {1U, 2U}) {
    s::dense store;
    store.open(c::spec(2, {.key_limit = 128, .world_size = world}));
    c::put(store, 2, {5}, 1);
    std::vector<key_type> const keys{6, 128, 7};
    std::vector<s::row_handle> handles(3, s::no_row);
    std::vector<float> rows(6);
    std::string const sentence = "key 128 is not below the cardinality 128 (table suite, position 1)";
    CHECK_THROWS_WITH_AS(store.write(keys, handles, rows.data()), doctest::Contains(sentence.c_str()), nestpipe::data_error);
    CHECK_THROWS_WITH_AS(store.read(keys, handles, rows.data()), doctest::Contains(sentence.c_str()), nestpipe::data_error);
    CHECK(store.size() == 1);
    std::vector<key_type> const extreme{~key_type{0}};
    CHECK_THROWS_AS(store.read(extreme, handles, rows.data()), nestpipe::data_error);
    store.erase(extreme);
    CHECK(store.size() == 1);
    CHECK(c::holds(store, 2, {5}, 1));
  }
}

TEST_CASE("a cardinality that is no multiple of 64") {
  for (std::uint32_t const world : {1U, 2U}) {
    for (key_type const cardinality : {1, 63, 65, 130}) {
      s::dense store;
      store.open(c::spec(1, {.key_limit = cardinality, .world_size = world}));
      c::put(store, 1, {cardinality - 1}, 1);
      std::vector<key_type> seen;
      s::for_each(store, [&](key_type key, std::span<float const>) { seen.push_back(key); });
      CHECK(seen == std::vector<key_type>{cardinality - 1});
    }
  }
}

TEST_CASE("rows never move") {
  s::dense store;
  store.open(c::spec(2, {.key_limit = 1 << 16, .world_size = 2}));
  std::vector<key_type> const first{3};
  c::put(store, 2, first, 1);
  std::vector<s::row_handle> const handle = c::handles_of(store, 2, first);
  std::uint64_t const epoch = store.epoch();
  std::vector<key_type> keys;
  for (key_type i = 0; i < 60000; ++i) keys.push_back(i);
  c::put(store, 2, keys, 1);
  CHECK(store.epoch() == epoch);
  CHECK(c::handles_of(store, 2, first) == handle);
}

TEST_CASE("wrong use is refused") {
  CHECK_THROWS_WITH_AS(s::dense{}.open(c::spec(1, {.key_limit = 0})), doctest::Contains("cardinality"), nestpipe::config_error);
  CHECK_THROWS_AS(s::dense{}.open(c::spec(0, {.key_limit = 4})), nestpipe::config_error);
  CHECK_THROWS_AS(s::dense{}.open(c::spec(1, {.key_limit = ~key_type{0}})), nestpipe::config_error);
  s::dense twice;
  twice.open(c::spec(1, {.key_limit = 4}));
  CHECK_THROWS_AS(twice.open(c::spec(1, {.key_limit = 4})), nestpipe::config_error);
}
