#pragma once
/// The suite that every storage policy passes, a user's own included: `check_storage(policy)`.

#include <doctest/doctest.h>

#include <nestpipe/core/random.hpp>
#include <nestpipe/storage/storage.hpp>

#include <bit>
#include <cstring>
#include <unordered_map>
#include <utility>
#include <vector>

namespace storage_conformance {

using nestpipe::key_type;
using nestpipe::mix64;
using nestpipe::storage::no_row;
using nestpipe::storage::row_handle;
using keys_of = std::span<key_type const>;

/// What the suite needs to know about the store under test.
struct traits {
  key_type key_limit = 0;            ///< keys are below this; 0: every 64-bit key
  std::size_t growth_rows = 300000;
  std::uint32_t world_size = 1;
  std::uint64_t memory_swing = 0;    ///< bytes that come and go with background work
};

inline nestpipe::storage::storage_spec spec(std::size_t row_floats, traits const& t) {
  nestpipe::storage::storage_spec s;
  s.table_name = "suite";
  s.dim = row_floats;
  s.row_floats = row_floats;
  s.cardinality = t.key_limit;
  s.world_size = t.world_size;
  return s;
}

/// The i-th of distinct keys, spread over what is legal.
inline key_type key_number(std::uint64_t i, traits const& t) {
  if (t.key_limit == 0) return mix64(i);
  // Odd multiplier and a power of two: a permutation; the suite's key limits are powers of two.
  return (i * 0x9e3779b97f4a7c15ULL) & (t.key_limit - 1);
}

/// Rows whose every float tells key, position and version, as any bit pattern (NaN included).
inline float element(key_type key, std::size_t i, std::uint64_t version) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(mix64(mix64(key, i), version)));
}
inline void fill(std::vector<float>& rows, std::size_t row_floats, std::vector<key_type> const& keys, std::uint64_t version) {
  rows.resize(keys.size() * row_floats);
  for (std::size_t k = 0; k < keys.size(); ++k) {
    for (std::size_t i = 0; i < row_floats; ++i) rows[k * row_floats + i] = element(keys[k], i, version);
  }
}
inline bool same_bits(float const* a, float const* b, std::size_t n) { return n == 0 || std::memcmp(a, b, n * sizeof(float)) == 0; }

template <class S>
S opened(S const& policy, std::size_t row_floats, traits const& t) {
  S store = policy;
  store.open(spec(row_floats, t));
  return store;
}

template <class S>
void put(S& store, std::size_t row_floats, std::vector<key_type> const& keys, std::uint64_t version) {
  std::vector<row_handle> const unknown(keys.size(), no_row);
  std::vector<float> rows;
  fill(rows, row_floats, keys, version);
  store.write(keys_of{keys}, std::span{unknown}, rows.data());
}

/// Handles of keys, rows aside.
template <class S>
std::vector<row_handle> handles_of(S& store, std::size_t row_floats, std::vector<key_type> const& keys) {
  std::vector<row_handle> handles(keys.size());
  std::vector<float> rows(keys.size() * row_floats);
  store.read(keys_of{keys}, std::span{handles}, rows.data());
  return handles;
}

/// All keys are there with the bits of `version`.
template <class S>
bool holds(S& store, std::size_t row_floats, std::vector<key_type> const& keys, std::uint64_t version) {
  std::vector<row_handle> handles(keys.size());
  std::vector<float> rows(keys.size() * row_floats), wanted;
  store.read(keys_of{keys}, std::span{handles}, rows.data());
  for (row_handle const h : handles) {
    if (h == no_row) return false;
  }
  fill(wanted, row_floats, keys, version);
  return same_bits(rows.data(), wanted.data(), wanted.size());
}

template <class S>
void check_round_trip(S const& policy, traits const& t) {
  for (std::size_t const row_floats : {1, 2, 3, 5, 8, 9, 16, 17, 19, 33, 64, 65, 129, 300}) {
    CAPTURE(row_floats);
    S store = opened(policy, row_floats, t);
    CHECK(store.size() == 0);
    std::vector<key_type> keys;
    for (std::uint64_t i = 0; i < 100; ++i) keys.push_back(key_number(i, t));
    for (row_handle const h : handles_of(store, row_floats, keys)) CHECK(h == no_row);
    CHECK(store.size() == 0);  // reading creates nothing
    put(store, row_floats, keys, 1);
    CHECK(store.size() == 100);
    CHECK(holds(store, row_floats, keys, 1));
    put(store, row_floats, keys, 2);
    CHECK(store.size() == 100);
    CHECK(holds(store, row_floats, keys, 2));
  }
}

template <class S>
void check_missing_and_doubled(S const& policy, traits const& t) {
  constexpr std::size_t w = 4;
  S store = opened(policy, w, t);
  std::vector<key_type> const there{key_number(1, t), key_number(2, t)};
  put(store, w, there, 1);
  // Keys doubled in one call, some missing: a missing one leaves the target as it is.
  std::vector<key_type> const asked{there[0], key_number(3, t), there[1], there[0], key_number(3, t), there[0]};
  std::vector<row_handle> handles(asked.size());
  std::vector<float> rows(asked.size() * w, -1.0f), wanted;
  store.read(keys_of{asked}, std::span{handles}, rows.data());
  CHECK(handles[0] == handles[3]);
  CHECK(handles[0] == handles[5]);
  CHECK(handles[1] == no_row);
  CHECK(handles[4] == no_row);
  fill(wanted, w, asked, 1);
  for (std::size_t k = 0; k < asked.size(); ++k) {
    if (k == 1 || k == 4) {
      for (std::size_t i = 0; i < w; ++i) CHECK(rows[k * w + i] == -1.0f);
    } else {
      CHECK(same_bits(&rows[k * w], &wanted[k * w], w));
    }
  }
  auto const c = store.counters();
  CHECK(c.rows == 2);
  CHECK(c.lookups == 6);
  CHECK(c.misses == 2);
  CHECK(c.evicted == 0);
  CHECK(c.bytes >= 2 * w * sizeof(float));
}

template <class S>
void check_empty(S const& policy, traits const& t) {
  S store = opened(policy, 3, t);
  store.read({}, {}, nullptr);
  store.write({}, {}, nullptr);
  store.pin({});
  store.release({});
  store.erase({});
  CHECK(store.size() == 0);
  std::size_t calls = 0;
  nestpipe::storage::for_each(store, [&](key_type, std::span<float const>) { ++calls; });
  CHECK(calls == 0);
}

template <class S>
void check_extreme_keys(S const& policy, traits const& t) {
  std::vector<key_type> keys{0, 1, 2, 63, 64, 65};
  if (t.key_limit == 0) {
    for (unsigned bit = 7; bit < 64; ++bit) keys.push_back(key_type{1} << bit);
    for (key_type const k : {~key_type{0}, ~key_type{0} - 1, key_type{0x8000000000000001ULL}, key_type{0xffffffffULL}}) keys.push_back(k);
  } else {
    keys.push_back(t.key_limit - 1);
  }
  S store = opened(policy, 5, t);
  put(store, 5, keys, 3);
  CHECK(store.size() == keys.size());
  CHECK(holds(store, 5, keys, 3));
}

/// Growth from one row on, in batches of many sizes; every row is verified several times on the way.
template <class S>
void check_growth(S const& policy, traits const& t) {
  constexpr std::size_t w = 3;
  S store = opened(policy, w, t);
  std::vector<key_type> all, batch;
  std::size_t size = 1, verify_at = 1;
  while (all.size() < t.growth_rows) {
    batch.clear();
    for (std::size_t i = 0; i < size && all.size() + batch.size() < t.growth_rows; ++i) batch.push_back(key_number(all.size() + batch.size(), t));
    put(store, w, batch, 1);
    all.insert(all.end(), batch.begin(), batch.end());
    size = size * 3 % 20011 + 1;
    REQUIRE(store.size() == all.size());
    if (all.size() >= verify_at) {
      REQUIRE(holds(store, w, all, 1));
      verify_at = all.size() * 2;
    }
  }
  CHECK(holds(store, w, all, 1));
}

template <class S>
void check_scan(S const& policy, traits const& t) {
  constexpr std::size_t w = 6;
  S store = opened(policy, w, t);
  std::vector<key_type> keys;
  for (std::uint64_t i = 0; i < 5000; ++i) keys.push_back(key_number(i, t));
  put(store, w, keys, 4);
  std::unordered_map<key_type, int> seen;
  bool bits = true;
  std::vector<float> wanted;
  nestpipe::storage::for_each(store, [&](key_type key, std::span<float const> row) {
    ++seen[key];
    fill(wanted, w, {key}, 4);
    bits = bits && row.size() == w && same_bits(row.data(), wanted.data(), w);
  });
  CHECK(bits);
  CHECK(seen.size() == keys.size());
  bool once = true;
  for (key_type const key : keys) once = once && seen[key] == 1;
  CHECK(once);
}

/// Between portions rows are written, created and erased: those that are there all along are met once, and `passed` tells which.
template <class S>
void check_scan_while_rows_change(S const& policy, traits const& t) {
  constexpr std::size_t w = 2;
  constexpr std::uint64_t n = 40000;
  S store = opened(policy, w, t);
  std::vector<key_type> staying, leaving;
  for (std::uint64_t i = 0; i < n; ++i) (i % 4 == 0 ? leaving : staying).push_back(key_number(i, t));
  put(store, w, staying, 1);
  put(store, w, leaving, 1);
  std::unordered_map<key_type, int> met;
  std::uint64_t fresh = n, portions = 0;
  bool agreed = true;
  for (nestpipe::storage::scan_cursor at; !at.done; ++portions) {
    std::vector<key_type> portion;
    store.scan(at, [&](key_type key, std::span<float const>) { portion.push_back(key); });
    for (key_type const key : portion) {
      ++met[key];
      agreed = agreed && store.passed(at, key);
    }
    for (std::size_t i = 0; i < staying.size(); i += 997) agreed = agreed && store.passed(at, staying[i]) == met.contains(staying[i]);
    if (portions >= 40) continue;  // enough growth
    std::vector<key_type> some(staying.begin(), staying.begin() + 500), created;
    put(store, w, some, portions + 2);
    for (int i = 0; i < 200; ++i) created.push_back(key_number(fresh++, t));
    put(store, w, created, 1);
    if (!leaving.empty()) {
      std::vector<key_type> const gone(leaving.end() - static_cast<std::ptrdiff_t>(std::min<std::size_t>(300, leaving.size())), leaving.end());
      store.erase(keys_of{gone});
      leaving.resize(leaving.size() - gone.size());
    }
  }
  bool once = true;
  for (key_type const key : staying) once = once && met[key] == 1;
  for (auto const& [key, times] : met) once = once && times == 1;
  CHECK(once);
  CHECK(agreed);
}

/// Random operations beside std::unordered_map; handles are kept and used for as long as the epoch stands.
template <class S>
void check_against_model(S const& policy, traits const& t, std::uint64_t seed, std::size_t universe, int rounds) {
  constexpr std::size_t w = 2;
  S store = opened(policy, w, t);
  std::unordered_map<key_type, std::uint64_t> model;   // key -> version
  std::unordered_map<key_type, row_handle> kept;
  std::uint64_t epoch = store.epoch(), counter = 0;
  nestpipe::counter_random const random{seed, universe, 9};
  auto const below = [&](std::uint64_t n) { return random.below(counter++, n); };
  bool good = true;
  std::vector<float> wanted, rows;
  for (int round = 0; round < rounds && good; ++round) {
    std::vector<key_type> keys;
    std::unordered_map<key_type, bool> in;
    std::size_t const n = below(200);
    for (std::size_t i = 0; i < n; ++i) {
      key_type const k = key_number(below(universe), t);
      if (in.emplace(k, true).second) keys.push_back(k);
    }
    std::uint64_t const what = below(10);
    if (what < 5) {
      // Handles kept from earlier reads where there are any; a store looks the rest up.
      std::vector<row_handle> handles(keys.size(), no_row);
      for (std::size_t i = 0; i < keys.size(); ++i) {
        if (auto const known = kept.find(keys[i]); known != kept.end()) handles[i] = known->second;
      }
      fill(rows, w, keys, static_cast<std::uint64_t>(round));
      store.write(keys_of{keys}, std::span<row_handle const>{handles}, rows.data());
      for (key_type const k : keys) model[k] = static_cast<std::uint64_t>(round);
    } else if (what < 8) {
      store.erase(keys_of{keys});
      for (key_type const k : keys) {
        model.erase(k);
        kept.erase(k);
      }
    } else {
      std::vector<row_handle> handles(keys.size());
      rows.resize(keys.size() * w);
      store.read(keys_of{keys}, std::span{handles}, rows.data());
      if (store.epoch() != epoch) kept.clear();
      epoch = store.epoch();
      for (std::size_t i = 0; i < keys.size(); ++i) {
        auto const at = model.find(keys[i]);
        good = good && (handles[i] != no_row) == (at != model.end());
        if (handles[i] == no_row || at == model.end()) continue;
        kept[keys[i]] = handles[i];
        fill(wanted, w, {keys[i]}, at->second);
        good = good && same_bits(rows.data() + i * w, wanted.data(), w);
      }
    }
    if (store.epoch() != epoch) kept.clear();
    epoch = store.epoch();
    good = good && store.size() == model.size();
    if (round % 64 == 0) {
      std::size_t visited = 0;
      nestpipe::storage::for_each(store, [&](key_type key, std::span<float const> row) {
        ++visited;
        auto const at = model.find(key);
        if (at == model.end()) {
          good = false;
          return;
        }
        fill(wanted, w, {key}, at->second);
        good = good && same_bits(row.data(), wanted.data(), w);
      });
      good = good && visited == model.size();
    }
  }
  CHECK(good);
}

/// Fill, erase half, insert half, over and over: nothing is lost and memory does not keep growing.
template <class S>
void check_reuse(S const& policy, traits const& t) {
  constexpr std::size_t w = 4;
  S store = opened(policy, w, t);
  std::vector<key_type> even, odd;
  for (std::uint64_t i = 0; i < 8000; ++i) (i % 2 == 0 ? even : odd).push_back(key_number(i, t));
  put(store, w, even, 1);
  put(store, w, odd, 1);
  std::uint64_t bytes = 0;
  for (std::uint64_t round = 0; round < 20; ++round) {
    store.erase(keys_of{odd});
    CHECK(store.size() == even.size());
    CHECK(holds(store, w, even, 1));
    bool gone = true;
    for (row_handle const h : handles_of(store, w, odd)) gone = gone && h == no_row;
    CHECK(gone);
    put(store, w, odd, round);
    CHECK(holds(store, w, odd, round));
    CHECK(holds(store, w, even, 1));
    if (round == 2) bytes = store.counters().bytes;
  }
  CHECK(store.counters().bytes <= bytes + bytes / 4 + t.memory_swing);
}

template <class S>
void check_value(S const& policy, traits const& t) {
  constexpr std::size_t w = 7;
  std::vector<key_type> const keys{key_number(1, t), key_number(2, t), key_number(3, t)};
  S first = opened(policy, w, t);
  put(first, w, keys, 1);
  S second = first;  // a copy describes the same store and holds nothing
  second.open(spec(w, t));
  CHECK(second.size() == 0);
  put(second, w, {keys[0]}, 2);
  CHECK(holds(first, w, keys, 1));
  S moved = std::move(first);
  CHECK(moved.size() == 3);
  CHECK(holds(moved, w, keys, 1));
  second = std::move(moved);
  CHECK(holds(second, w, keys, 1));
}

template <class S>
void check_storage(S const& policy, traits const& t) {
  static_assert(nestpipe::storage::storage<S>);
  static_assert(nestpipe::storage::audit<S>());
  check_round_trip(policy, t);
  check_missing_and_doubled(policy, t);
  check_empty(policy, t);
  check_extreme_keys(policy, t);
  check_growth(policy, t);
  check_scan(policy, t);
  check_scan_while_rows_change(policy, t);
  check_against_model(policy, t, 1, 100, 1000);
  check_against_model(policy, t, 2, 10000, 1000);
  check_reuse(policy, t);
  check_value(policy, t);
}

}  // namespace storage_conformance
