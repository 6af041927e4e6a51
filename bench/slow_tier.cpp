// Rows a second of the stores on disk, beside what the disk itself can do, measured in the same run.
//
//   bench.slow_tier [--store all|file_log|rocksdb] [--rows N] [--dim N] [--batch N] [--seconds S] [--depth N] [--direct 0|1] [--ring 0|1] [--path FOLDER]
//                   [--cache-mb N]
//
// Fills a table of --rows rows of dim floats and one of state with new keys, then reads, and rewrites with the handles of a read, batches of
// distinct keys: drawn uniformly, or zipf-distributed with exponent 1.05 and scattered. --cache-mb is RocksDB's block cache.

#include "limits/disk.hpp"

#include <nestpipe/data/zipf.hpp>
#include <nestpipe/storage/file_log.hpp>
#if __has_include(<rocksdb/db.h>) && defined(NESTPIPE_WITH_ROCKSDB)
#include <nestpipe/storage/rocksdb.hpp>
#endif

#include <cstdio>
#include <cstdlib>
#include <string>
#include <unordered_set>
#include <vector>

namespace {

namespace np = nestpipe;
using np::key_type;

struct arguments {
  std::string store = "all", path;
  std::uint64_t rows = 4000000, cache_mb = 128;
  std::size_t dim = 16, batch = 65536;
  double seconds = 2;
  unsigned depth = 32;
  bool direct = true, ring = true;
};

arguments parse(int argc, char** argv) {
  arguments a;
  for (int i = 1; i < argc; ++i) {
    std::string const flag = argv[i];
    np::require(i + 1 < argc, flag + " needs a value");
    std::string const value = argv[++i];
    if (flag == "--store") a.store = value;
    else if (flag == "--path") a.path = value;
    else if (flag == "--rows") a.rows = std::stoull(value);
    else if (flag == "--cache-mb") a.cache_mb = std::stoull(value);
    else if (flag == "--dim") a.dim = std::stoull(value);
    else if (flag == "--batch") a.batch = std::stoull(value);
    else if (flag == "--seconds") a.seconds = std::stod(value);
    else if (flag == "--depth") a.depth = static_cast<unsigned>(std::stoul(value));
    else if (flag == "--direct") a.direct = value != "0";
    else if (flag == "--ring") a.ring = value != "0";
    else throw np::config_error{"unknown flag " + flag, {}, "see the head of bench/slow_tier.cpp"};
  }
  return a;
}

/// Batches of distinct keys below `rows`.
class batches {
 public:
  batches(std::uint64_t rows, std::size_t size, bool skewed) : rows_{rows}, size_{size}, skewed_{skewed}, zipf_{rows, 1.05} {}
  std::vector<key_type> next() {
    std::vector<key_type> keys;
    std::unordered_set<key_type> seen;
    while (keys.size() < size_) {
      np::counter_random const random{1, skewed_ ? 1U : 0U, drawn_++};
      key_type const key = skewed_ ? np::mix64(zipf_(random, 0)) % rows_ : random.below(0, rows_);
      if (seen.insert(key).second) keys.push_back(key);
    }
    return keys;
  }

 private:
  std::uint64_t rows_;
  std::size_t size_;
  bool skewed_;
  np::data::zipf zipf_;
  std::uint64_t drawn_ = 0;
};

template <class S>
void measure(char const* name, S store, arguments const& a) {
  std::size_t const w = a.dim + 1;
  double const row_bytes = static_cast<double>(w * sizeof(float));
  np::storage::storage_spec spec;
  spec.table_name = "bench";
  spec.dim = a.dim;
  spec.row_floats = w;
  store.open(spec);
  std::vector<float> rows(a.batch * w, 0.5f);
  std::vector<np::storage::row_handle> handles(a.batch, np::storage::no_row);
  std::vector<key_type> keys(a.batch);
  double slowest = 0;
  double const filling = np::bench::seconds_of([&] {
    for (key_type k = 0; k < a.rows; k += a.batch) {
      for (std::size_t i = 0; i < a.batch; ++i) keys[i] = k + i;
      slowest = std::max(slowest, np::bench::seconds_of([&] { store.write(keys, handles, rows.data()); }));
    }
  });
  auto const line = [&](char const* what, std::size_t batch, double rate) {
    std::printf("%-9s %-24s %7zu %10.0f rows/s %8.1f MB/s\n", name, what, batch, rate, rate * row_bytes / 1e6);
    std::fflush(stdout);
  };
  line("new keys", a.batch, static_cast<double>(store.size()) / filling);
  std::printf("%-9s slowest of these batches %.0f ms, mean %.0f ms\n", name, 1e3 * slowest, 1e3 * filling * static_cast<double>(a.batch) / static_cast<double>(a.rows));
  for (bool const skewed : {false, true}) {
    for (std::size_t const batch : {std::size_t{4096}, a.batch}) {
      batches source{a.rows, batch, skewed};
      std::vector<std::vector<key_type>> drawn;
      for (int i = 0; i < (batch == 4096 ? 60 : 12); ++i) drawn.push_back(source.next());
      double reading = 0, writing = 0, done = 0;
      for (std::size_t i = 0; reading + writing < a.seconds; ++i) {
        std::vector<key_type> const& now = drawn[i % drawn.size()];
        std::span<np::storage::row_handle> const h{handles.data(), batch};
        reading += np::bench::seconds_of([&] { store.read(now, h, rows.data()); });
        writing += np::bench::seconds_of([&] { store.write(now, h, rows.data()); });
        done += static_cast<double>(batch);
      }
      line(skewed ? "read, zipf" : "read, uniform", batch, done / reading);
      line(skewed ? "write again, zipf" : "write again, uniform", batch, done / writing);
    }
  }
  std::printf("%-9s memory %.1f bytes a row\n", name, static_cast<double>(store.counters().bytes) / static_cast<double>(store.size()));
  if constexpr (requires { store.log_counters(); }) {
    auto const c = store.log_counters();
    std::printf("%-9s index %.2f bytes a row, file %.2f times the rows, blocks written %llu and again %llu, %llu partitions\n", name,
                static_cast<double>(c.index_bytes) / static_cast<double>(store.size()),
                static_cast<double>(c.disk_bytes) / (static_cast<double>(store.size()) * (row_bytes + 8)), static_cast<unsigned long long>(c.blocks_written),
                static_cast<unsigned long long>(c.blocks_rewritten), static_cast<unsigned long long>(c.partitions));
  }
}

void run(arguments const& a) {
  auto const d = np::bench::measure_disk(a.path, std::uint64_t{1} << 30, 1);
  std::printf("disk      1 MiB blocks: write %.0f MB/s, read %.0f MB/s; 4 KiB random reads a second: %.0f at depth 1, %.0f at 16, %.0f at 64\n",
              d.write_bytes / 1e6, d.read_bytes / 1e6, d.reads_1, d.reads_16, d.reads_64);
  std::fflush(stdout);
  if (a.store == "all" || a.store == "file_log") {
    np::storage::file_log_options o;
    o.path = a.path;
    o.queue_depth = a.depth;
    o.direct_io = a.direct;
    o.ring = a.ring;
    measure("file_log", np::storage::file_log<>{o}, a);
  }
#if __has_include(<rocksdb/db.h>) && defined(NESTPIPE_WITH_ROCKSDB)
  if (a.store == "all" || a.store == "rocksdb") {
    np::storage::rocksdb_options o;
    o.path = a.path;
    o.read_threads = a.depth;
    o.direct_io = a.direct;
    o.block_cache_bytes = a.cache_mb << 20;
    measure("rocksdb", np::storage::rocksdb{o}, a);
  }
#endif
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse(argc, argv));
  } catch (std::exception const& e) {
    std::fprintf(stderr, "bench.slow_tier: %s\n", e.what());
    return 1;
  }
}
