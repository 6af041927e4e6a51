// How often a needed row is in the fast tier: eviction policies beside the optimum for the same capacity.
//
//   bench.eviction [--data FOLDER] [--quick]
//
// FOLDER holds the two logs of kuairand-pure-slice (default ../shared/data/kuairand-pure-slice; left out when it is not there).
// A stream is a list of batches of distinct keys. Each batch is pinned, read, written and released, as a step does it, on the
// store itself, storage::tiered over storage::hashed; rates are hits over reads of rows that exist. "belady" brings up the same
// rows and lets go of those needed farthest in the future, one by one, with the whole future known: no policy can beat it. The
// store sends 1/32 of its rows down at once, which costs it a little; look_ahead N knows the next N batches. Exit status 1 when
// look_ahead with 16 batches is anywhere below lru or lfu by more than a thousandth.

#include <nestpipe/data/open_stream.hpp>
#include <nestpipe/data/zipf.hpp>
#include <nestpipe/storage/eviction/lru.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/storage/tiered.hpp>

#include <cstdio>
#include <filesystem>
#include <queue>
#include <string>
#include <unordered_map>
#include <unordered_set>

namespace {

namespace np = nestpipe;
namespace st = np::storage;
using np::key_type;

struct stream {
  std::string name;
  std::vector<std::vector<key_type>> batches;
  std::uint64_t distinct = 0;
};

// Ids in the order of a log, cut into batches without doubles.
class collector {
 public:
  collector(std::string name, std::size_t batch_ids) : ids_{batch_ids} { out_.name = std::move(name); }
  void add(key_type key) {
    if (seen_ == 0) out_.batches.emplace_back();
    if (now_.insert(key).second) out_.batches.back().push_back(key);
    all_.insert(key);
    if (++seen_ < ids_) return;
    seen_ = 0;
    now_.clear();
  }
  stream done() {
    out_.distinct = all_.size();
    return std::move(out_);
  }

 private:
  std::size_t ids_, seen_ = 0;
  std::unordered_set<key_type> now_, all_;
  stream out_;
};

stream zipf(double exponent, std::uint64_t draws) {
  char name[32];
  std::snprintf(name, sizeof name, "zipf %.2f", exponent);
  collector c{name, 512};
  np::data::zipf const popular{200000, exponent};
  np::counter_random const random{1, 2, 3};
  for (std::uint64_t i = 0; i < draws; ++i) c.add(np::mix64(popular(random, 64 * i)));
  return c.done();
}

// User and video of every line, in the order of time: one table for both.
void add_log(collector& c, std::string const& path) {
  auto const file = np::data::open_stream(path);
  std::string text;
  std::vector<char> buffer(1 << 16);
  for (std::size_t n; (n = file->read(buffer.data(), buffer.size())) != 0;) text.append(buffer.data(), n);
  for (std::size_t at = text.find('\n') + 1; at < text.size(); at = text.find('\n', at) + 1) {
    char* end = nullptr;
    c.add(np::mix64(std::strtoull(text.c_str() + at, &end, 10)));
    c.add(np::mix64(std::strtoull(end + 1, &end, 10), 1));
    if (text.find('\n', at) == std::string::npos) break;
  }
}

double belady(stream const& s, std::uint64_t capacity) {
  constexpr std::uint64_t never = ~std::uint64_t{0};
  // Batch of the next use of every key of every batch.
  std::vector<std::vector<std::uint64_t>> next(s.batches.size());
  std::unordered_map<key_type, std::uint64_t> coming;
  for (std::size_t b = s.batches.size(); b-- > 0;) {
    for (key_type const key : s.batches[b]) {
      auto const [at, fresh] = coming.try_emplace(key, never);
      next[b].push_back(at->second);
      at->second = b;
    }
  }
  std::unordered_map<key_type, std::uint64_t> up;  // its next use
  std::unordered_set<key_type> known;
  std::priority_queue<std::pair<std::uint64_t, key_type>> farthest;
  std::uint64_t hits = 0, reads = 0;
  for (std::size_t b = 0; b < s.batches.size(); ++b) {
    std::uint64_t missing = 0;
    for (key_type const key : s.batches[b]) {
      bool const here = up.contains(key);
      missing += here ? 0 : 1;
      if (known.insert(key).second) continue;
      ++reads;
      hits += here ? 1 : 0;
    }
    // The farthest make room for the missing ones; rows of this batch, the nearest, stay.
    while (up.size() + missing > capacity && !farthest.empty() && farthest.top().first != b) {
      auto const [use, key] = farthest.top();
      farthest.pop();
      if (auto const at = up.find(key); at != up.end() && at->second == use) up.erase(at);
    }
    for (std::size_t i = 0; i < s.batches[b].size(); ++i) {
      up[s.batches[b][i]] = next[b][i];
      farthest.emplace(next[b][i], s.batches[b][i]);
    }
  }
  return static_cast<double>(hits) / static_cast<double>(reads);
}

template <class Eviction>
double measure(stream const& s, std::uint64_t capacity, std::size_t depth, Eviction eviction = {}) {
  st::tiered<st::fast_memory, st::hashed<>, Eviction> store{{.rows = capacity}, {}, eviction};
  st::storage_spec spec;
  spec.table_name = "bench";
  spec.dim = spec.row_floats = 1;
  store.open(spec);
  std::vector<st::row_handle> handles;
  std::vector<float> rows;
  std::size_t announced = 1;
  for (std::size_t b = 0; b < s.batches.size(); ++b) {
    if constexpr (st::eviction::needs_due<Eviction>()) {
      for (; announced <= b + depth && announced < s.batches.size(); ++announced) store.expect(announced, s.batches[announced]);
      store.reached(b);
    }
    auto const& keys = s.batches[b];
    handles.resize(keys.size());
    rows.resize(keys.size());
    store.pin(keys);
    store.read(keys, handles, rows.data());
    store.write(keys, std::span<st::row_handle const>{handles}, rows.data());
    store.release(keys);
  }
  return store.tiers().hit_rate();
}

}  // namespace

int main(int argc, char** argv) {
  try {
    std::string folder = "../shared/data/kuairand-pure-slice";
    bool quick = false;
    for (int i = 1; i < argc; ++i) {
      std::string const flag = argv[i];
      if (flag == "--quick") quick = true;
      else if (flag == "--data" && i + 1 < argc) folder = argv[++i];
      else throw np::config_error{"unknown flag " + flag, {}, "see the head of bench/eviction.cpp"};
    }
    std::vector<stream> streams;
    if (std::filesystem::exists(folder + "/log_20220501_20220508.csv.gz")) {
      collector c{"kuairand", 256};  // 128 lines a batch, so that a batch fits in one per cent of the rows
      add_log(c, folder + "/log_20220425_20220430.csv.gz");
      add_log(c, folder + "/log_20220501_20220508.csv.gz");
      streams.push_back(c.done());
    } else {
      std::printf("no kuairand log at %s: left out\n", folder.c_str());
    }
    for (double const exponent : {0.8, 1.05}) streams.push_back(zipf(exponent, quick ? 200000 : 1000000));

    bool good = true;
    std::printf("%-10s %8s %7s %9s %9s | %7s %7s | %-31s | %7s\n", "", "", "", "", "", "", "", "look_ahead<lfu>, batches known", "");
    std::printf("%-10s %8s %7s %9s %9s | %7s %7s | %7s %7s %7s %7s | %7s | %12s\n", "stream", "batches", "share", "rows", "capacity", "lru", "lfu", "1", "4", "16", "64",
                "belady", "<lru>, 16");
    for (stream const& s : streams) {
      for (double const share : {0.01, 0.05, 0.10, 0.25}) {
        auto const capacity = static_cast<std::uint64_t>(share * static_cast<double>(s.distinct));
        double const lru = measure<st::eviction::lru>(s, capacity, 0), lfu = measure<st::eviction::lfu>(s, capacity, 0);
        double ahead[4];
        std::size_t const depth[4] = {1, 4, 16, 64};
        for (int d = 0; d < 4; ++d) ahead[d] = measure<st::eviction::look_ahead<>>(s, capacity, depth[d]);
        double const over_lru = measure<st::eviction::look_ahead<st::eviction::lru>>(s, capacity, 16);
        double const best = belady(s, capacity);
        std::printf("%-10s %8zu %6.0f%% %9llu %9llu | %7.4f %7.4f | %7.4f %7.4f %7.4f %7.4f | %7.4f | %12.4f\n", s.name.c_str(), s.batches.size(), 100 * share,
                    static_cast<unsigned long long>(s.distinct), static_cast<unsigned long long>(capacity), lru, lfu, ahead[0], ahead[1], ahead[2], ahead[3], best, over_lru);
        std::fflush(stdout);
        good = good && ahead[2] >= std::max(lru, lfu) - 0.001 && best >= ahead[3];
      }
    }
    return good ? 0 : 1;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "bench.eviction: %s\n", e.what());
    return 1;
  }
}
