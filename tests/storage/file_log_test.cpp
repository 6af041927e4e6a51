#include "small_disk.hpp"
#include "storage_conformance.hpp"

#include <nestpipe/storage/file_log.hpp>

#include <algorithm>
#include <filesystem>
#include <string>

#include <fcntl.h>

namespace s = nestpipe::storage;
namespace c = storage_conformance;
namespace fs = std::filesystem;
using nestpipe::key_type;

namespace {
s::file_log_options tiny(std::string path = {}) {
  s::file_log_options o;
  o.path = std::move(path);
  o.extent_bytes = 65536;
  return o;
}

std::vector<key_type> range(key_type begin, key_type end) {
  std::vector<key_type> keys;
  for (key_type k = begin; k < end; ++k) keys.push_back(k);
  return keys;
}

/// Hashes that leave the index nothing to tell keys apart with: one value, or four entries for all keys of a partition.
struct constant_hash {
  std::uint64_t operator()(key_type) const { return 0; }
};
struct four_entries {
  std::uint64_t operator()(key_type key) const { return (nestpipe::mix64(key) & ~((std::uint64_t{1} << 44) - 1)) | (nestpipe::mix64(key) & 3); }
};
}  // namespace

TEST_CASE("file_log meets the contract of a store") { c::check_storage(s::file_log<>{}, {.growth_rows = 200000, .memory_swing = 8 << 20}); }

TEST_CASE("so it does with threads in place of io_uring, and with small extents that are cleaned and split all the time") {
  s::file_log_options o = tiny();
  o.ring = false;
  o.queue_depth = 3;
  c::check_storage(s::file_log<>{o}, {.growth_rows = 30000, .memory_swing = 1 << 18});
}

TEST_CASE_TEMPLATE("a hash that does not mix costs time, nothing else", Hash, constant_hash, four_entries) {
  s::file_log<Hash> const policy{tiny()};
  c::check_growth(policy, {.growth_rows = 600});
  c::check_extreme_keys(policy, {});
  c::check_against_model(policy, {}, 3, 300, 60);
  c::check_against_model(policy, {}, 4, 40, 500);
}

TEST_CASE("an erased row stays erased, though its record is on disk in a block that another key's entry leads to") {
  constexpr std::size_t w = 120;   // eight rows a block
  s::file_log<constant_hash> store{tiny()};
  store.open(c::spec(w, {}));
  c::put(store, w, range(0, 16), 1);
  std::vector<key_type> const gone{1, 3, 9}, left{0, 2, 4, 5, 6, 7, 8, 10, 11, 12, 13, 14, 15};
  store.erase(gone);
  for (int round = 0; round < 2; ++round) {
    CHECK(store.size() == 13);
    for (s::row_handle const h : c::handles_of(store, w, gone)) CHECK(h == s::no_row);
    CHECK(c::holds(store, w, left, 1));
    std::vector<key_type> seen;
    s::for_each(store, [&](key_type key, std::span<float const>) { seen.push_back(key); });
    std::sort(seen.begin(), seen.end());
    CHECK(seen == left);
    // And after cleaning, which copies what looks like a row.
    std::uint64_t const before = store.log_counters().extents_rewritten;
    while (store.log_counters().extents_rewritten < before + 3) c::put(store, w, {0}, 1), c::put(store, w, {2, 4, 5, 6, 7, 8, 10, 11}, 1);
  }
}

TEST_CASE("every row outlives its extents, and the file stays within bounds") {
  constexpr std::size_t w = 17;
  constexpr key_type n = 20000;
  std::uint64_t disk[2];
  for (double const most_live : {0.35, 0.9}) {
    s::file_log_options o = tiny();
    o.most_live = most_live;
    s::file_log<> store{o};
    store.open(c::spec(w, {}));
    c::put(store, w, range(0, n), 0);
    std::vector<std::uint64_t> version(n, 0);
    nestpipe::counter_random const random{1, 2, 3};
    for (std::uint64_t round = 1; round <= 60; ++round) {
      key_type const at = random.below(round, n - 2000);
      c::put(store, w, range(at, at + 2000), round);
      for (key_type k = at; k < at + 2000; ++k) version[k] = round;
    }
    auto const counted = store.log_counters();
    CHECK(counted.extents_rewritten > counted.partitions + 20);
    CHECK(counted.partitions > 20);
    CHECK(store.size() == n);
    bool good = true;
    std::vector<float> wanted;
    std::vector<key_type> const keys = range(0, n);
    std::vector<s::row_handle> handles(n);
    std::vector<float> rows(n * w);
    store.read(keys, handles, rows.data());
    for (key_type k = 0; k < n; ++k) {
      c::fill(wanted, w, {k}, version[k]);
      good = good && handles[k] != s::no_row && c::same_bits(rows.data() + k * w, wanted.data(), w);
    }
    CHECK(good);
    disk[most_live > 0.5] = counted.disk_bytes;
  }
  CHECK(disk[1] < 3 * n * 76);
  CHECK(disk[1] < disk[0]);
}

TEST_CASE("memory: an index of at most 6 bytes a row") {
  // dim 16 and one float of state; weighted by rows, as a job that grows steadily sees it.
  s::file_log<> store;
  store.open(c::spec(17, {}));
  std::vector<key_type> keys(5000);
  std::vector<s::row_handle> const unknown(keys.size(), s::no_row);
  std::vector<float> const rows(keys.size() * 17);
  double sum = 0, worst = 0;
  int batches = 0;
  for (key_type i = 0; i < 600000; i += keys.size()) {
    for (std::size_t k = 0; k < keys.size(); ++k) keys[k] = i + k;
    store.write(keys, unknown, rows.data());
    if (i < 100000) continue;
    double const bytes = static_cast<double>(store.log_counters().index_bytes) / static_cast<double>(store.size());
    sum += bytes;
    worst = std::max(worst, bytes);
    ++batches;
  }
  CHECK(sum / batches < 6.0);
  CHECK(worst < 6.5);
  CHECK(sum / batches > 4.0);
}

TEST_CASE("rows that were written with a handle, or are new, cost no read") {
  s::file_log<> store{tiny()};
  store.open(c::spec(16, {}));
  auto const keys = range(0, 5000);
  c::put(store, 16, keys, 1);
  CHECK(store.log_counters().blocks_read < 5);
  auto const handles = c::handles_of(store, 16, keys);
  std::uint64_t const read = store.log_counters().blocks_read;
  CHECK(read > 0);
  std::vector<float> rows;
  c::fill(rows, 16, keys, 2);
  store.write(keys, handles, rows.data());
  CHECK(store.log_counters().blocks_read < read + 20);
  CHECK(store.size() == 5000);
  CHECK(c::holds(store, 16, keys, 2));
}

TEST_CASE("a full disk is told with path and bytes; no row is lost and none half written") {
  small_disk const disk{std::size_t{3} << 20};
  s::file_log_options o = tiny(disk.path());
  o.direct_io = false;
  s::file_log<> store{o};
  store.open(c::spec(16, {}));
  std::string message;
  key_type written = 0, failed = 0;
  for (; message.empty() && written < 200000; written += 1000) {
    try {
      c::put(store, 16, range(written, written + 1000), 1);
    } catch (nestpipe::error const& e) {
      message = e.what();
      failed = written;
    }
  }
  CAPTURE(message);
  CHECK(message.find("no room on the disk for 65536 bytes more") != std::string::npos);
  CHECK(message.find("table suite, " + disk.path()) != std::string::npos);
  CHECK(failed >= 5000);
  CHECK(store.size() == failed);
  CHECK(c::holds(store, 16, range(0, failed), 1));
  for (s::row_handle const h : c::handles_of(store, 16, range(failed, failed + 1000))) CHECK(h == s::no_row);
  CHECK_THROWS_AS(c::put(store, 16, range(0, failed), 2), nestpipe::error);
  CHECK(c::holds(store, 16, range(0, failed), 1));
}

TEST_CASE("the file has no name and goes with the store; options reach it") {
  fs::path const place = fs::temp_directory_path() / ("nestpipe-file-log-test-" + std::to_string(::getpid()));
  for (bool const direct : {false, true}) {
    s::file_log_options o = tiny(place.string());
    o.direct_io = direct;
    o.ring = direct;
    s::file_log<> store{o};
    try {
      store.open(c::spec(2, {}));
    } catch (nestpipe::error const& e) {
      CHECK(direct);
      MESSAGE("no direct I/O here: " << std::string{e.what()});
      continue;
    }
    if (!direct) CHECK_FALSE(store.uses_ring());
    c::put(store, 2, range(0, 20000), 1);
    CHECK(store.log_counters().disk_bytes > 0);
    CHECK(fs::is_empty(place));
    bool seen = false;
    for (auto const& entry : fs::directory_iterator{"/proc/self/fd"}) {
      std::error_code gone;
      if (fs::read_symlink(entry.path(), gone).string().find(place.string()) != 0) continue;
      seen = true;
      int const flags = ::fcntl(std::stoi(entry.path().filename()), F_GETFL);
      CHECK(((flags & O_DIRECT) != 0) == direct);
    }
    CHECK(seen);
    s::file_log<> again = store;
    again.open(c::spec(2, {}));
    CHECK(again.size() == 0);
    CHECK(c::holds(store, 2, range(0, 20000), 1));
  }
  fs::remove_all(place);
}

TEST_CASE("wrong use is refused") {
  CHECK_THROWS_AS(s::file_log<>{}.open(c::spec(0, {})), nestpipe::config_error);
  s::file_log<> twice;
  twice.open(c::spec(1, {}));
  CHECK_THROWS_WITH_AS(twice.open(c::spec(1, {})), doctest::Contains("table suite"), nestpipe::config_error);
  s::file_log_options o;
  o.most_live = 1;
  CHECK_THROWS_AS(s::file_log<>{o}.open(c::spec(1, {})), nestpipe::config_error);
  o = {};
  o.queue_depth = 0;
  CHECK_THROWS_AS(s::file_log<>{o}.open(c::spec(1, {})), nestpipe::config_error);
  s::file_log<> nowhere{tiny("/proc/none")};
  CHECK_THROWS_WITH_AS(nowhere.open(c::spec(1, {})), doctest::Contains("/proc/none"), nestpipe::error);
}
