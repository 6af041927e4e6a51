#include <doctest/doctest.h>

#include <nestpipe/embedding/owner_route.hpp>

#include <support/jagged_blocks.hpp>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

namespace np = nestpipe;
using np::key_type;
using np::embedding::route_shape;

namespace {

/// All ranks of a world, routed without a communicator: what each rank would send is handed to its owner by hand.
struct world {
  np::embedding_layout layout;
  route_shape shape;
  std::vector<std::vector<np::sample_block>> blocks;  // (rank, micro-batch)
  std::vector<np::embedding::source_route> source;
  std::vector<np::embedding::owner_route> owner;

  void route() {
    std::size_t const w = shape.world_size;
    source.resize(w);
    owner.resize(w);
    for (std::size_t r = 0; r < w; ++r) source[r].build(layout, blocks[r], shape);
    for (std::size_t o = 0; o < w; ++o) {
      owner[o].counts.resize(w * shape.counts());
      for (std::size_t r = 0; r < w; ++r) std::copy_n(source[r].counts.data() + o * shape.counts(), shape.counts(), owner[o].counts.data() + r * shape.counts());
      owner[o].expect(shape);
      std::size_t keys = 0, lists = 0;
      for (std::size_t r = 0; r < w; ++r) {
        REQUIRE(owner[o].source_keys[r] == source[r].owner_keys[o]);
        REQUIRE(owner[o].source_lists[r] == source[r].owner_lists[o]);
        std::size_t key_at = 0, list_at = 0;
        for (std::size_t before = 0; before < o; ++before) {
          key_at += source[r].owner_keys[before];
          list_at += source[r].owner_lists[before];
        }
        std::copy_n(source[r].keys.data() + key_at, source[r].owner_keys[o], owner[o].received.data() + keys);
        std::copy_n(source[r].lists.data() + list_at, source[r].owner_lists[o], owner[o].slots.data() + lists);
        keys += source[r].owner_keys[o];
        lists += source[r].owner_lists[o];
      }
      REQUIRE(owner[o].received.size() == keys);
      REQUIRE(owner[o].slots.size() == lists);
      owner[o].build(shape, true);
    }
  }

  std::uint32_t owner_of_key(std::size_t t, key_type key) const {
    return np::owner_of(np::shard_of(static_cast<std::uint32_t>(t), key, shape.shards), shape.world_size);
  }
};

/// Distinct keys of table t in the block, in order of first appearance: features of the table ascending, then positions.
std::vector<key_type> distinct(np::embedding_layout const& layout, np::sample_block const& b, std::size_t t) {
  std::vector<key_type> keys;
  std::set<key_type> seen;
  for (std::uint32_t const f : layout.features_of(t)) {
    for (std::size_t i = 0; i < b.samples; ++i) {
      for (key_type const k : b.ids.bag(f, i)) {
        if (seen.insert(k).second) keys.push_back(k);
      }
    }
  }
  return keys;
}

void check_world(world& w) {
  std::size_t const ranks = w.shape.world_size;
  std::size_t const tables = w.shape.tables;
  w.route();

  for (std::size_t t = 0; t < tables; ++t) {
    std::map<key_type, int> everywhere;
    for (auto const& of_rank : w.blocks) {
      for (auto const& b : of_rank) {
        for (key_type const k : distinct(w.layout, b, t)) everywhere[k] = 1;
      }
    }
    for (std::size_t o = 0; o < ranks; ++o) {
      std::uint32_t slot = 0;
      for (key_type const k : w.owner[o].table_keys(t)) {
        CHECK(w.owner_of_key(t, k) == o);
        CHECK(w.owner[o].find(t, k) == slot++);
        REQUIRE(everywhere.count(k) == 1);
        CHECK(everywhere[k]-- == 1);  // one slot, at one owner
      }
    }
    for (auto const& [k, left] : everywhere) CHECK(left == 0);
  }

  for (std::size_t r = 0; r < ranks; ++r) {
    for (std::size_t j = 0; j < w.shape.micro_batches; ++j) {
      np::sample_block const& b = w.blocks[r][j];
      auto const& m = w.source[r].micro[j];
      // What owners would send, row by row: a row's floats say its table, key and place.
      std::vector<double> landing;
      std::size_t rows = 0;
      for (std::size_t o = 0; o < ranks; ++o) {
        std::size_t const before = landing.size();
        for (std::size_t t = 0; t < tables; ++t) {
          std::vector<key_type> sent;
          for (std::uint32_t const slot : w.owner[o].slot_list(w.shape, r, j, t)) {
            REQUIRE(slot < w.owner[o].table_keys(t).size());
            key_type const k = w.owner[o].table_keys(t)[slot];
            sent.push_back(k);
            for (std::size_t c = 0; c < w.layout.tables()[t].dim; ++c) landing.push_back(static_cast<double>(np::mix64(t, k) % 1'000'003) + static_cast<double>(c) * 1e7);
          }
          rows += sent.size();
          std::vector<key_type> expected;
          for (key_type const k : distinct(w.layout, b, t)) {
            if (w.owner_of_key(t, k) == o) expected.push_back(k);
          }
          CHECK(std::set<key_type>(sent.begin(), sent.end()) == std::set<key_type>(expected.begin(), expected.end()));
          CHECK(sent.size() == expected.size());
        }
        CHECK(m.owner_floats[o] == landing.size() - before);
      }
      CHECK(m.floats == landing.size());
      CHECK(m.entries() == rows);
      for (std::size_t f = 0; f < b.ids.features; ++f) {
        std::size_t const t = w.layout.table_of(f);
        for (std::size_t p = b.ids.offsets[f * b.samples]; p < b.ids.offsets[(f + 1) * b.samples]; ++p) {
          std::uint32_t const e = m.occurrence_entry[p];
          REQUIRE(e >= m.table_entry[t]);
          REQUIRE(e < m.table_entry[t + 1]);
          for (std::size_t c = 0; c < w.layout.tables()[t].dim; ++c)
            CHECK(landing[m.entry_offset[e] + c] == static_cast<double>(np::mix64(t, b.ids.values[p]) % 1'000'003) + static_cast<double>(c) * 1e7);
        }
      }
      // Occurrences: each once, with its entry, in value order inside.
      std::vector<int> seen(b.ids.values.size());
      REQUIRE(m.uses.size() == b.ids.values.size());
      for (std::size_t e = 0; e < m.entries(); ++e) {
        CHECK(m.entry_start[e] < m.entry_start[e + 1]);
        for (std::size_t u = m.entry_start[e]; u < m.entry_start[e + 1]; ++u) {
          auto const& use = m.uses[u];
          ++seen[use.position];
          CHECK(m.occurrence_entry[use.position] == e);
          CHECK((u == m.entry_start[e] || m.uses[u - 1].position < use.position));
          std::size_t const bag = use.feature * b.samples + use.sample;
          CHECK(use.position >= b.ids.offsets[bag]);
          CHECK(use.position < b.ids.offsets[bag + 1]);
        }
      }
      CHECK(std::all_of(seen.begin(), seen.end(), [](int n) { return n == 1; }));
    }
  }
}

}  // namespace

TEST_CASE("every occurrence finds its key's row, for any number of ranks, micro-batches and shards") {
  for (std::uint32_t ranks = 1; ranks <= 5; ++ranks) {
    for (std::uint32_t micro = 1; micro <= 3; ++micro) {
      CAPTURE(ranks);
      CAPTURE(micro);
      world w;
      w.layout = np::test::mixed_layout();
      for (int again = 0; again < 3; ++again) {  // the same objects, other sizes
        w.shape = {ranks, micro, 4, again == 1 ? 7U : 1024U};
        w.blocks.assign(ranks, {});
        for (std::uint32_t r = 0; r < ranks; ++r) {
          for (std::uint32_t j = 0; j < micro; ++j) {
            std::size_t const samples = np::mix64(r + 10 * j, static_cast<std::uint64_t>(again)) % 12;  // now and then none
            w.blocks[r].push_back(np::test::random_block(100 * r + 10 * j + static_cast<std::uint64_t>(again), 5, samples,
                                                         {again == 2 ? 2000U : 30U, 4, 0, again == 1, again == 0 ? 1 : ~std::size_t{0}}));
          }
        }
        check_world(w);
      }
    }
  }
}

TEST_CASE("routes of nothing, of one key, and of new keys only") {
  for (std::uint32_t const ranks : {1U, 3U}) {
    world w;
    w.layout = np::test::mixed_layout();
    w.shape = {ranks, 2, 4, 1024};
    w.blocks.assign(ranks, {np::test::random_block(1, 5, 0), np::test::random_block(2, 5, 0)});
    check_world(w);
    for (std::uint32_t r = 0; r < ranks; ++r) CHECK(w.owner[r].distinct_keys() == 0);
    w.blocks.assign(ranks, {np::test::random_block(1, 5, 9, {1, 5, 0, false, 9}), np::test::random_block(2, 5, 9, {1, 5, 0, false, 9})});
    check_world(w);
    for (std::uint32_t r = 0; r < ranks; ++r) {
      w.blocks[r] = {np::test::random_block(10 + r, 5, 9, {~std::uint64_t{0}, 5, 0, false, 9}), np::test::random_block(20 + r, 5, 9, {~std::uint64_t{0}, 5, 0, false, 9})};
    }
    check_world(w);
  }
}

TEST_CASE("a layout without tables routes nothing") {
  world w;
  w.layout = np::embedding_layout{{}, {}};
  w.shape = {2, 2, 0, 1024};
  w.blocks.assign(2, {np::test::random_block(1, 0, 4), np::test::random_block(2, 0, 3)});
  check_world(w);
  CHECK(w.owner[0].distinct_keys() == 0);
}
