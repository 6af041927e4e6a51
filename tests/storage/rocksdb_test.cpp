#include "small_disk.hpp"
#include "storage_conformance.hpp"

#include <nestpipe/storage/rocksdb.hpp>

#include <filesystem>
#include <fstream>
#include <string>

#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

namespace s = nestpipe::storage;
namespace c = storage_conformance;
namespace fs = std::filesystem;
using nestpipe::key_type;

namespace {
/// A folder that goes away with the test.
struct folder {
  fs::path path = fs::temp_directory_path() / ("nestpipe-rocksdb-test-" + std::to_string(::getpid()));
  folder() { fs::create_directories(path); }
  ~folder() { fs::remove_all(path); }
  folder(folder const&) = delete;
  folder& operator=(folder const&) = delete;
  std::size_t entries() const { return static_cast<std::size_t>(std::distance(fs::directory_iterator{path}, fs::directory_iterator{})); }
};

s::rocksdb_options small(std::string path) {
  s::rocksdb_options o;
  o.path = std::move(path);
  o.block_cache_bytes = 1 << 18;
  o.write_buffer_bytes = 1 << 18;
  return o;
}

std::vector<key_type> range(key_type begin, key_type end) {
  std::vector<key_type> keys;
  for (key_type k = begin; k < end; ++k) keys.push_back(k);
  return keys;
}
}  // namespace

TEST_CASE("rocksdb meets the contract of a store") { c::check_storage(s::rocksdb{small({})}, {.growth_rows = 30000, .memory_swing = 1 << 20}); }

TEST_CASE("tables and ranks share a database, which goes away with the last of them") {
  folder const place;
  s::rocksdb const policy{small(place.path.string())};
  CHECK(place.entries() == 0);  // a description makes nothing
  {
    auto spec = c::spec(2, {});
    s::rocksdb first = policy;
    first.open(spec);
    {
      s::rocksdb second = policy, third = policy;
      second.open(spec);
      spec.rank = 1;
      third.open(spec);
      CHECK(place.entries() == 1);
      c::put(first, 2, {1, 2, 3}, 1);
      c::put(second, 2, {1}, 2);
      CHECK(second.size() == 1);
      CHECK(third.size() == 0);
    }
    CHECK(place.entries() == 1);
    CHECK(c::holds(first, 2, {1, 2, 3}, 1));
    s::rocksdb const elsewhere{small(place.path.string())};
    s::rocksdb other = elsewhere;
    other.open(spec);
    CHECK(place.entries() == 2);
  }
  CHECK(place.entries() == 0);
}

TEST_CASE("rows lie in the order of their keys") {
  s::rocksdb store{small({})};
  store.open(c::spec(1, {}));
  std::vector<key_type> const keys{~key_type{0}, 256, 0, 1, 255, key_type{1} << 63, (key_type{1} << 63) - 1};
  c::put(store, 1, keys, 1);
  std::vector<key_type> seen, sorted = keys;
  std::sort(sorted.begin(), sorted.end());
  s::for_each(store, [&](key_type key, std::span<float const>) { seen.push_back(key); });
  CHECK(seen == sorted);
}

TEST_CASE("kept rows are there again, whether the store was closed or the process died") {
  folder const place;
  auto options = small(place.path.string());
  options.keep = true;
  auto const keys = range(0, 5000);
  {
    s::rocksdb store{options};
    store.open(c::spec(3, {}));
    CHECK(store.size() == 0);
    c::put(store, 3, keys, 1);
    s::rocksdb again = store;
    CHECK_THROWS_WITH_AS(again.open(c::spec(3, {})), doctest::Contains("open already"), nestpipe::config_error);
    s::rocksdb elsewhere{options};
    CHECK_THROWS_WITH_AS(elsewhere.open(c::spec(3, {})), doctest::Contains(place.path.c_str()), nestpipe::error);
  }
  for (int round = 0; round < 2; ++round) {
    s::rocksdb store{options};
    store.open(c::spec(3, {}));
    CHECK(store.size() == keys.size() + 3 * static_cast<std::size_t>(round));
    CHECK(c::holds(store, 3, keys, 1));
    key_type const next = 10000 + 3 * static_cast<key_type>(round);
    c::put(store, 3, {next, next + 1, next + 2}, 1);
  }
  // What a killed process leaves: a copy of the files of an open database. Compaction may remove a file while they are copied, which
  // no crash does: then once more.
  fs::path const copy = place.path.string() + "-copy";
  auto killed = options;
  killed.path = copy.string();
  {
    s::rocksdb live{options};
    live.open(c::spec(3, {}));
    live.erase(keys);
    c::put(live, 3, {1, 2}, 2);
    s::rocksdb store;
    for (int tries = 0;; ++tries) {
      fs::remove_all(copy);
      std::error_code moved;
      fs::copy(place.path, copy, fs::copy_options::recursive, moved);
      try {
        store = s::rocksdb{killed};
        store.open(c::spec(3, {}));
        break;
      } catch (nestpipe::error const&) {
        if (tries == 20) throw;
      }
    }
    std::uint64_t rows = 0;
    s::for_each(store, [&](key_type, std::span<float const>) { ++rows; });
    CHECK(store.size() == rows);  // counted anew: what was in memory is gone, the old count with it
    CHECK(store.size() != 8);
  }
  fs::remove_all(copy);
  s::rocksdb wide{options};
  wide.open(c::spec(4, {}));
  CHECK_THROWS_WITH_AS(c::handles_of(wide, 4, {1}), doctest::Contains("a stored row has 12 bytes, the table's have 16"), nestpipe::error);
}

TEST_CASE("a full disk is told with path and remedy, and what was written before is still read") {
  small_disk const disk{std::size_t{2} << 20};
  s::rocksdb store{small(disk.path())};
  auto const before = range(0, 100);
  std::string message;
  try {
    store.open(c::spec(16, {}));
    c::put(store, 16, before, 1);
    for (key_type i = 1; i < 200; ++i) c::put(store, 16, range(i * 1000, (i + 1) * 1000), 1);
  } catch (nestpipe::error const& e) {
    message = e.what();
  }
  CAPTURE(message);
  CHECK(message.find(disk.path()) != std::string::npos);
  CHECK(message.find("table suite") != std::string::npos);
  CHECK(message.find("free space there, or name another path") != std::string::npos);
  CHECK(c::holds(store, 16, before, 1));
}

namespace {
struct table_files {
  std::uintmax_t bytes = 0;
  std::size_t cached_pages = 0;   ///< of them in the page cache
};

/// What a closed store has left on disk.
table_files written(s::rocksdb_options options, std::string const& path) {
  options.path = path;
  options.keep = true;
  {
    s::rocksdb store{options};
    store.open(c::spec(64, {}));
    std::vector<key_type> const keys = range(0, 4000);
    std::vector<s::row_handle> const unknown(keys.size(), s::no_row);
    std::vector<float> const rows(keys.size() * 64, 1.5f);
    store.write(keys, unknown, rows.data());
  }
  table_files all;
  for (auto const& entry : fs::recursive_directory_iterator{path}) {
    if (entry.path().extension() != ".sst") continue;
    all.bytes += entry.file_size();
    std::size_t const pages = (entry.file_size() + 4095) / 4096;
    int const file = ::open(entry.path().c_str(), O_RDONLY);
    void* const memory = ::mmap(nullptr, pages * 4096, PROT_READ, MAP_SHARED, file, 0);
    std::vector<unsigned char> cached(pages);
    CHECK(::mincore(memory, pages * 4096, cached.data()) == 0);
    for (unsigned char const page : cached) all.cached_pages += page & 1U;
    ::munmap(memory, pages * 4096);
    ::close(file);
  }
  return all;
}
}  // namespace

TEST_CASE("options do what they say") {
  folder const place;
  auto const plain = written(small({}), place.path / "plain");
  CHECK(plain.bytes > 4000 * 256);
  CHECK(plain.cached_pages > 200);
  auto options = small({});
  options.compress = true;
  CHECK(written(options, place.path / "compressed").bytes < plain.bytes / 2);
  options = small({});
  options.bloom_bits = 0;
  CHECK(written(options, place.path / "unfiltered").bytes < plain.bytes - 4000);
  options = small({});
  options.block_bytes = 65536;
  CHECK(written(options, place.path / "large blocks").bytes < plain.bytes - 1000);  // a smaller index
  options = small({});
  options.direct_io = true;
  try {
    CHECK(written(options, place.path / "direct").cached_pages < plain.cached_pages / 4);
  } catch (nestpipe::error const& e) {
    MESSAGE("no direct I/O here: " << std::string{e.what()});
  }
  options = small({});
  options.read_threads = 1;
  s::rocksdb store{options};
  store.open(c::spec(2, {}));
  c::put(store, 2, range(0, 3000), 1);
  CHECK(c::holds(store, 2, range(0, 3000), 1));
}

TEST_CASE("wrong use is refused") {
  CHECK_THROWS_AS(s::rocksdb{}.open(c::spec(0, {})), nestpipe::config_error);
  s::rocksdb twice;
  twice.open(c::spec(1, {}));
  CHECK_THROWS_WITH_AS(twice.open(c::spec(1, {})), doctest::Contains("table suite"), nestpipe::config_error);
  s::rocksdb nowhere{[] {
    s::rocksdb_options o;
    o.keep = true;
    return o;
  }()};
  CHECK_THROWS_WITH_AS(nowhere.open(c::spec(1, {})), doctest::Contains("set path"), nestpipe::config_error);
  folder const place;
  fs::path const file = place.path / "file";
  std::ofstream{file} << "not a directory";
  s::rocksdb blocked{small(file.string())};
  CHECK_THROWS_WITH_AS(blocked.open(c::spec(1, {})), doctest::Contains(file.c_str()), nestpipe::error);
}
