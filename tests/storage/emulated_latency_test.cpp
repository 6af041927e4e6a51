#include "storage_conformance.hpp"

#include <nestpipe/storage/audited.hpp>
#include <nestpipe/storage/dense.hpp>
#include <nestpipe/storage/emulated_latency.hpp>
#include <nestpipe/storage/hashed.hpp>

#include <chrono>

namespace s = nestpipe::storage;
namespace c = storage_conformance;
using nestpipe::key_type;
using slow_hashed = s::emulated_latency<s::hashed<>>;

static_assert(s::storage<slow_hashed> && s::audit<slow_hashed>());
static_assert(s::storage<s::audited<slow_hashed>>);

TEST_CASE("a slow store is a store") {
  c::check_storage(slow_hashed{s::hashed<>{}, {0, 1e12, 0, 1e12}}, {.growth_rows = 50000});
  c::check_storage(s::emulated_latency<s::dense>{s::dense{}, {}}, {.key_limit = 1 << 19, .growth_rows = 50000});
}

TEST_CASE("reads and writes take their time a batch and a byte; what is not there costs nothing") {
  slow_hashed store{s::hashed<>{}, {5e-3, 1e6, 2e-3, 2e6}};
  store.open(c::spec(25, {}));  // 100 bytes a row
  std::vector<key_type> keys;
  for (key_type k = 0; k < 100; ++k) keys.push_back(k);
  std::vector<s::row_handle> handles(keys.size());
  std::vector<float> rows(keys.size() * 25);
  auto const seconds = [](auto call) {
    auto const begin = std::chrono::steady_clock::now();
    call();
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  };
  double least = 1;  // of several: other programs use the cores too
  for (int i = 0; i < 20; ++i) least = std::min(least, seconds([&] { store.read(keys, handles, rows.data()); }));
  CHECK(least < 2e-3);  // no row exists
  double const write = seconds([&] { store.write(keys, handles, rows.data()); });
  CHECK(write >= 2e-3 + 10000 / 2e6);
  double const read = seconds([&] { store.read(keys, handles, rows.data()); });
  CHECK(read >= 5e-3 + 10000 / 1e6);
  least = 1;
  for (int i = 0; i < 10; ++i) least = std::min(least, seconds([&] { store.read(keys, handles, rows.data()); }));
  CHECK(least < 2 * (5e-3 + 10000 / 1e6));
  CHECK(store.label() == "emulated storage, reads 5000 us a batch and 1000 kB/s, writes 2000 us a batch and 2000 kB/s");
  CHECK(slow_hashed{}.label() == "no emulated storage latency");
  CHECK_THROWS_AS((slow_hashed{s::hashed<>{}, {-1.0}}), nestpipe::config_error);
  CHECK_THROWS_AS((slow_hashed{s::hashed<>{}, {0.0, 0.0}}), nestpipe::config_error);
}
