#include "storage_conformance.hpp"

#include <nestpipe/data/zipf.hpp>
#include <nestpipe/storage/any_of.hpp>
#include <nestpipe/storage/audited.hpp>
#include <nestpipe/storage/dense.hpp>
#include <nestpipe/storage/emulated_latency.hpp>
#include <nestpipe/storage/eviction/lru.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/storage/tiered.hpp>

#include <memory>
#include <set>

namespace s = nestpipe::storage;
namespace c = storage_conformance;
using nestpipe::key_type;

using over_hashed = s::tiered<s::fast_memory, s::hashed<>>;
using over_dense = s::tiered<s::fast_memory, s::dense, s::eviction::lfu>;
using with_lru = s::tiered<s::fast_memory, s::hashed<>, s::eviction::lru>;

static_assert(s::storage<over_hashed> && s::audit<over_hashed>());
static_assert(s::storage<s::audited<over_hashed>>);
static_assert(s::looks_ahead<over_hashed> && !s::looks_ahead<with_lru> && !s::looks_ahead<s::hashed<>>);
static_assert(s::looks_ahead<s::any_of<s::hashed<>, over_hashed>> && !s::looks_ahead<s::any_of<s::hashed<>, with_lru>>);
static_assert(s::looks_ahead<s::audited<over_hashed>> && s::looks_ahead<s::emulated_latency<over_hashed>>);

namespace {

// Every read and write as a training step makes them: pinned, so that rows move up. Writes are released at once; reads stay
// pinned until the next call when `lingering`, as a window in flight.
template <class S>
class stepping {
 public:
  stepping(S inner = {}, bool lingering = false) : inner_{std::move(inner)}, lingering_{lingering} {}
  void open(s::storage_spec const& spec) { inner_.open(spec); }
  void read(std::span<key_type const> keys, std::span<s::row_handle> handles, float* rows) {
    settle();
    inner_.pin(keys);
    inner_.read(keys, handles, rows);
    held_.assign(keys.begin(), keys.end());
    if (!lingering_) settle();
  }
  void write(std::span<key_type const> keys, std::span<s::row_handle const> handles, float const* rows) {
    inner_.pin(keys);
    inner_.write(keys, handles, rows);
    inner_.release(keys);
    settle();
  }
  std::uint64_t epoch() const { return inner_.epoch(); }
  void pin(std::span<key_type const> keys) { inner_.pin(keys); }
  void release(std::span<key_type const> keys) { inner_.release(keys); }
  void erase(std::span<key_type const> keys) { inner_.erase(keys); }
  std::uint64_t size() const { return inner_.size(); }
  template <class F>
  void scan(s::scan_cursor& at, F&& f) const {
    inner_.scan(at, f);
  }
  bool passed(s::scan_cursor const& at, key_type key) const { return inner_.passed(at, key); }
  s::storage_counters counters() const { return inner_.counters(); }
  S const& inner() const { return inner_; }

 private:
  void settle() {
    inner_.release(held_);
    held_.clear();
  }
  S inner_;
  bool lingering_;
  std::vector<key_type> held_;
};

s::tier_options rows(std::uint64_t n) { return {.rows = n}; }

std::vector<key_type> range(key_type first, key_type last) {
  std::vector<key_type> keys;
  for (key_type k = first; k < last; ++k) keys.push_back(k);
  return keys;
}

// One training step on the keys: pinned, read, written, released.
template <class S>
void step(S& store, std::vector<key_type> const& keys, std::uint64_t version) {
  std::vector<s::row_handle> handles(keys.size());
  std::vector<float> buffer(keys.size() * 4);
  store.pin(keys);
  store.read(keys, handles, buffer.data());
  c::fill(buffer, 4, keys, version);
  store.write(keys, std::span<s::row_handle const>{handles}, buffer.data());
  store.release(keys);
}

// Which keys would come from the fast tier: asked of a store without changing it.
template <class S>
bool is_up(S& store, key_type key) {
  auto const before = store.tiers();
  std::vector<s::row_handle> handle(1);
  std::vector<float> row(4);
  store.read(std::span<key_type const>{&key, 1}, handle, row.data());
  return store.tiers().hits > before.hits;
}

}  // namespace

TEST_CASE("two tiers are a store, used without pins") {
  c::check_storage(over_hashed{rows(100)}, {.growth_rows = 20000});
  c::check_storage(over_dense{rows(1000)}, {.key_limit = 1 << 16, .growth_rows = 20000});
}

TEST_CASE("two tiers are a store while rows move up and down all the time") {
  for (std::uint64_t const n : {1, 50, 1000, 100000}) {
    CAPTURE(n);
    c::check_storage(stepping{over_hashed{rows(n)}}, {.growth_rows = 20000});
    c::check_storage(stepping{with_lru{rows(n)}, true}, {.growth_rows = 20000});
  }
  c::check_storage(stepping{over_dense{rows(300)}, true}, {.key_limit = 1 << 16, .growth_rows = 20000});
  using three = s::tiered<s::fast_memory, over_hashed>;
  c::check_storage(stepping{three{rows(100), over_hashed{rows(400)}}}, {.growth_rows = 20000});
}

TEST_CASE("the fast tier stays within its bound, moves rows in batches, and counts what it does") {
  over_hashed store{rows(1000)};
  store.open(c::spec(4, {}));
  for (key_type first = 0; first < 10000; first += 100) step(store, range(first, first + 100), 1);
  auto t = store.tiers();
  CHECK(store.size() == 10000);
  CHECK(t.capacity == 1000);
  CHECK(t.rows <= 1000);
  CHECK(t.most_beyond == 0);
  CHECK(t.hits == 0);
  CHECK(t.misses == 0);  // nothing was anywhere
  CHECK(t.rows_down >= 9000);
  CHECK(t.rows_down == 10000 - t.rows);
  CHECK(t.rows_dropped == 0);
  CHECK(t.bytes_down == t.rows_down * 16);
  CHECK(t.slow_writes <= 91);  // at least a batch's need at once
  std::uint64_t const reads = t.slow_reads;
  step(store, range(0, 100), 2);
  t = store.tiers();
  CHECK(t.slow_reads == reads + 1);
  CHECK(t.misses == 100);
  CHECK(t.rows_up == 100);
  CHECK(t.bytes_up == 1600);
  step(store, range(0, 100), 3);
  t = store.tiers();
  CHECK(t.hits == 100);
  CHECK(t.slow_reads == reads + 1);
  CHECK(t.hit_rate() == doctest::Approx(0.5));
  CHECK(c::holds(store, 4, range(0, 100), 3));
  CHECK(c::holds(store, 4, range(100, 10000), 1));
  CHECK(store.size() == 10000);
}

TEST_CASE("several per cent go down at once, so that slow writes are few") {
  over_hashed store{{.rows = 1000, .evict_share = 0.1}};
  store.open(c::spec(4, {}));
  for (key_type k = 0; k < 5000; ++k) step(store, {k}, 1);
  CHECK(store.tiers().slow_writes == 40);  // one hundred rows each, not one
  CHECK(store.tiers().rows_down == 4000);
}

TEST_CASE("unchanged rows are dropped, changed ones are written: bits survive either") {
  over_hashed store{rows(100)};
  store.open(c::spec(4, {}));
  step(store, range(0, 100), 1);
  step(store, range(100, 200), 1);  // 0..99 go down
  std::vector<s::row_handle> handles(100);
  std::vector<float> buffer(400);
  auto const first = range(0, 100);
  for (int i = 0; i < 2; ++i) {  // up again, only read
    store.pin(first);
    store.read(first, handles, buffer.data());
    store.release(first);
  }
  auto const before = store.tiers();
  step(store, range(100, 200), 2);
  CHECK(store.tiers().rows_dropped == before.rows_dropped + 100);
  CHECK(store.tiers().rows_down == before.rows_down);
  CHECK(c::holds(store, 4, range(0, 100), 1));
  CHECK(c::holds(store, 4, range(100, 200), 2));
}

TEST_CASE("pinned rows stay, beyond the bound if need be") {
  over_hashed store{rows(50)};
  store.open(c::spec(4, {}));
  auto const window = range(0, 80);
  std::vector<s::row_handle> handles(80), again(80);
  std::vector<float> buffer(320);
  step(store, window, 1);
  store.pin(window);
  store.pin(window);  // counts
  store.read(window, handles, buffer.data());
  for (key_type first = 100; first < 1000; first += 30) step(store, range(first, first + 30), 1);
  store.release(window);
  for (key_type first = 100; first < 1000; first += 30) step(store, range(first, first + 30), 2);
  auto const reads = store.tiers().slow_reads;
  store.read(window, again, buffer.data());
  CHECK(again == handles);  // the same places, nothing asked of the slow tier
  CHECK(store.tiers().slow_reads == reads);
  CHECK(store.tiers().most_beyond == 60);  // 80 + 30 - 50
  store.release(window);
  for (key_type first = 100; first < 1000; first += 30) step(store, range(first, first + 30), 3);
  CHECK(store.tiers().rows <= 50);
  CHECK(c::holds(store, 4, window, 1));
  CHECK(c::holds(store, 4, range(100, 1000), 3));
}

TEST_CASE("a key pinned, read as missing and written has a row; one that is not written leaves nothing behind") {
  over_hashed store{rows(10)};
  store.open(c::spec(4, {}));
  step(store, {7}, 1);
  std::vector<key_type> const keys{7, 8, 9};
  std::vector<s::row_handle> handles(3);
  std::vector<float> buffer(12);
  store.pin(keys);
  CHECK(store.size() == 1);
  store.read(keys, handles, buffer.data());
  CHECK(handles[0] != s::no_row);
  CHECK(handles[1] == s::no_row);
  auto const reads = store.tiers().slow_reads;
  store.read(keys, handles, buffer.data());
  CHECK(store.tiers().slow_reads == reads);  // known to be absent
  CHECK(store.size() == 1);
  c::put(store, 4, {8}, 5);
  CHECK(store.size() == 2);
  store.erase(std::vector<key_type>{8});
  CHECK(store.size() == 1);
  c::put(store, 4, {8}, 6);
  store.release(keys);
  CHECK(store.size() == 2);
  CHECK(store.tiers().rows == 2);
  CHECK(c::holds(store, 4, {8}, 6));
}

TEST_CASE("a row written under a pin before it was read counts once") {
  over_hashed store{rows(4)};
  store.open(c::spec(4, {}));
  for (key_type k = 0; k < 20; ++k) step(store, {k}, 1);
  std::vector<key_type> const keys{3, 19, 100};  // below, up, nowhere
  store.pin(keys);
  c::put(store, 4, keys, 2);
  store.release(keys);
  CHECK(store.size() == 21);
  CHECK(c::holds(store, 4, keys, 2));
}

TEST_CASE("what is read or written without a pin passes by") {
  over_hashed store{rows(10)};
  store.open(c::spec(4, {}));
  c::put(store, 4, range(0, 100), 1);
  CHECK(store.tiers().rows == 0);
  CHECK(store.tiers().rows_through == 100);
  CHECK(c::holds(store, 4, range(0, 100), 1));
  CHECK(store.tiers().rows == 0);
  step(store, {5}, 2);
  CHECK(store.tiers().rows == 1);
  c::put(store, 4, range(0, 10), 3);  // 5 is up: the newer bits must win later
  CHECK(c::holds(store, 4, range(0, 10), 3));
  CHECK(store.size() == 100);
}

TEST_CASE("lru lets go of what was used longest ago, lfu of what was used least, and remembers") {
  with_lru recent{{.rows = 100, .evict_share = 0.5}};
  s::tiered<s::fast_memory, s::hashed<>, s::eviction::lfu> frequent{{.rows = 100, .evict_share = 0.5}};
  auto const play = [](auto& store) {
    store.open(c::spec(4, {}));
    for (int i = 0; i < 10; ++i) step(store, range(0, 50), 1);   // popular
    step(store, range(50, 100), 1);                               // once, later
    step(store, range(1000, 1050), 1);                            // no room for these
  };
  play(recent);
  CHECK(!is_up(recent, 0));
  CHECK(is_up(recent, 50));
  play(frequent);
  CHECK(is_up(frequent, 0));
  CHECK(!is_up(frequent, 50));
  // A popular row that had to leave is popular when it comes back.
  auto const flood = range(2000, 2100);
  frequent.pin(flood);
  CHECK(!is_up(frequent, 0));
  frequent.release(flood);
  step(frequent, range(0, 50), 2);
  step(frequent, range(3000, 3050), 1);
  step(frequent, range(4000, 4050), 1);
  CHECK(is_up(frequent, 0));
}

TEST_CASE("old counts fade") {
  s::tiered<s::fast_memory, s::hashed<>, s::eviction::lfu> store{{.rows = 100, .evict_share = 0.5}, {}, s::eviction::lfu{2}};
  store.open(c::spec(4, {}));
  for (int i = 0; i < 8; ++i) step(store, range(0, 50), 1);
  for (int i = 0; i < 40; ++i) step(store, range(50 + 50 * (i % 2), 100 + 50 * (i % 2)), 1);  // a new fashion
  CHECK(!is_up(store, 0));
  CHECK_THROWS_AS(s::eviction::lfu{0}, nestpipe::config_error);
}

TEST_CASE("look-ahead keeps what is due, and lets go of the farthest first") {
  using due = s::tiered<s::fast_memory, s::hashed<>, s::eviction::look_ahead<s::eviction::lru>>;
  due store{{.rows = 100, .evict_share = 0.25}};
  store.open(c::spec(4, {}));
  auto const run = [&](std::uint64_t batch, std::vector<key_type> const& keys) {
    store.reached(batch);
    step(store, keys, batch);
  };
  for (key_type k = 0; k < 4; ++k) run(k, range(25 * k, 25 * k + 25));  // 0..24 are the oldest
  store.expect(4, range(1000, 1025));
  store.expect(5, range(0, 25));
  store.expect(6, range(25, 75));
  run(4, range(1000, 1025));
  CHECK(is_up(store, 0));       // due, though the oldest
  CHECK(is_up(store, 25));
  CHECK(!is_up(store, 80));     // nobody has asked for 75..99
  store.expect(7, range(5000, 5060));
  store.expect(8, range(25, 75));
  store.reached(5);
  auto const window = range(1000, 1025);
  store.pin(window);            // held, so something due must go
  step(store, range(2000, 2025), 5);
  CHECK(is_up(store, 25));      // 0..24 are not known to come again
  CHECK(!is_up(store, 0));
  store.reached(6);
  auto const far = range(3000, 3040);
  store.expect(9, far);
  store.expect(10, range(2000, 2025));
  step(store, range(4000, 4025), 6);  // 25..74 are due in 2 batches, 2000..2024 in 4
  CHECK(is_up(store, 25));
  CHECK(is_up(store, 74));
  CHECK(!is_up(store, 2000));
  store.release(window);
}

TEST_CASE("a budget that tables share goes where it is needed, and no table is left without") {
  auto const budget = std::make_shared<s::memory_budget>(200000);
  over_hashed policy{{.shared = budget}};
  over_hashed small = policy, large = policy, late = policy;
  for (auto* const store : {&small, &large, &late}) store->open(c::spec(4, {}));
  for (int round = 0; round < 3; ++round) {
    step(small, range(0, 20), 1);
    for (key_type first = 0; first < 10000; first += 100) step(large, range(first, first + 100), 1);
  }
  for (key_type first = 0; first < 1000; first += 50) step(late, range(first, first + 50), 1);
  CHECK(small.tiers().misses == 0);
  CHECK(large.tiers().rows > 1000);
  CHECK(late.tiers().capacity >= 64);
  CHECK(late.tiers().most_beyond == 0);
  CHECK(small.tiers().capacity * 88 + large.tiers().capacity * 88 + late.tiers().capacity * 88 <= 200000);
  CHECK(c::holds(large, 4, range(0, 10000), 1));
}

TEST_CASE("a bound must be given, once") {
  auto const open = [](s::tier_options o) {
    over_hashed store{o};
    store.open(c::spec(4, {}));
  };
  CHECK_THROWS_AS(open({}), nestpipe::config_error);
  CHECK_THROWS_AS(open({.rows = 1, .bytes = 1000}), nestpipe::config_error);
  CHECK_THROWS_AS(open({.bytes = 10}), nestpipe::config_error);
  CHECK_THROWS_AS(open({.rows = 1, .evict_share = 0.0}), nestpipe::config_error);
  CHECK_NOTHROW(open({.bytes = 1000}));
}

TEST_CASE("waiting for the slow tier is counted") {
  using slow = s::emulated_latency<s::hashed<>>;
  s::tiered<s::fast_memory, slow> store{rows(10), slow{s::hashed<>{}, {2e-3, 1e9, 3e-3, 1e9}}};
  store.open(c::spec(4, {}));
  step(store, range(0, 10), 1);
  CHECK(store.tiers().write_seconds == 0);
  step(store, range(10, 20), 1);
  CHECK(store.tiers().write_seconds >= 3e-3);
  step(store, range(0, 10), 1);
  CHECK(store.tiers().read_seconds >= 2e-3);
}

// Rows of a random stream beside a plain map, with pins that overlap as two windows do, unpinned reads, erasures and scans.
TEST_CASE("any mixture of what a trainer does gives the bits of a map") {
  for (std::uint64_t const capacity : {20, 300, 5000}) {
    CAPTURE(capacity);
    over_hashed store{{.rows = capacity, .evict_share = 0.05}};
    store.open(c::spec(4, {}));
    std::unordered_map<key_type, std::uint64_t> model;
    nestpipe::counter_random const random{3, capacity, 1};
    nestpipe::data::zipf const popular{3000, 0.9};
    std::uint64_t counter = 0;
    std::vector<key_type> before;
    std::vector<s::row_handle> before_handles;
    bool good = true;
    for (std::uint64_t batch = 1; batch <= 400; ++batch) {
      std::set<key_type> distinct;
      for (int i = 0; i < 100; ++i) distinct.insert(popular(random, counter += 64));
      std::vector<key_type> keys(distinct.begin(), distinct.end());
      std::vector<s::row_handle> handles(keys.size());
      std::vector<float> got(keys.size() * 4), wanted;
      if (batch % 3 != 0) store.expect(batch + 1, keys);  // wrong as often as right: only a hint
      store.reached(batch);
      store.pin(keys);
      store.read(keys, handles, got.data());
      for (std::size_t i = 0; i < keys.size(); ++i) {
        auto const at = model.find(keys[i]);
        good = good && (handles[i] != s::no_row) == (at != model.end());
        if (at == model.end()) continue;
        c::fill(wanted, 4, {keys[i]}, at->second);
        good = good && c::same_bits(wanted.data(), got.data() + 4 * i, 4);
      }
      if (!before.empty()) {  // the window before goes back only now
        std::vector<float> rows_before;
        c::fill(rows_before, 4, before, batch);
        store.write(before, std::span<s::row_handle const>{before_handles}, rows_before.data());
        store.release(before);
        for (key_type const k : before) model[k] = batch;
      }
      before = keys;
      before_handles = handles;
      if (batch % 7 == 0) {
        std::vector<key_type> gone;
        for (int i = 0; i < 30; ++i) gone.push_back(random.below(++counter, 3000));
        std::erase_if(gone, [&](key_type k) { return distinct.contains(k); });
        store.erase(gone);
        for (key_type const k : gone) model.erase(k);
      }
      good = good && store.size() == model.size();
      if (batch % 20 != 0) continue;
      std::uint64_t met = 0;
      s::for_each(store, [&](key_type key, std::span<float const> row) {
        auto const at = model.find(key);
        good = good && at != model.end();
        if (at == model.end()) return;
        c::fill(wanted, 4, {key}, at->second);
        good = good && c::same_bits(wanted.data(), row.data(), 4);
        ++met;
      });
      good = good && met == model.size();
    }
    CHECK(good);
    CHECK((store.tiers().evicted > 0) == (capacity < 3000));
  }
}
