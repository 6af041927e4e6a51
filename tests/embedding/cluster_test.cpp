#include <doctest/doctest.h>

#include <nestpipe/data/zipf.hpp>
#include <nestpipe/embedding/cluster.hpp>

#include <atomic>
#include <cstdlib>
#include <map>
#include <new>
#include <set>
#include <tuple>
#include <vector>

namespace {
std::atomic<std::uint64_t> allocations{0};
void* counted(std::size_t bytes) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* const p = std::malloc(bytes == 0 ? 1 : bytes);
  if (p == nullptr) throw std::bad_alloc{};
  return p;
}
}  // namespace

void* operator new(std::size_t n) { return counted(n); }
void* operator new[](std::size_t n) { return counted(n); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }

namespace np = nestpipe;
using np::embedding::cluster;
using np::embedding::cluster_result;
using np::embedding::clustering;
using blocks = std::vector<np::sample_block>;

namespace {

struct sample {
  std::uint64_t row = 0;
  std::vector<float> labels, dense;
  std::vector<std::vector<np::key_type>> ids;  // per feature
  std::vector<std::vector<float>> weights;     // as ids, or empty
  bool operator<(sample const& o) const { return std::tie(row, labels, dense, ids, weights) < std::tie(o.row, o.labels, o.dense, o.ids, o.weights); }
  bool operator==(sample const&) const = default;
};

np::sample_block block_of(std::vector<sample> const& samples, std::size_t features, bool weighted = false) {
  np::sample_block b;
  b.samples = samples.size();
  b.dense_width = 2;
  b.label_width = 1;
  b.malformed = samples.size() % 3;
  b.ids.features = features;
  b.ids.samples = samples.size();
  for (auto const& s : samples) {
    b.row.push_back(s.row);
    b.labels.insert(b.labels.end(), s.labels.begin(), s.labels.end());
    b.dense.insert(b.dense.end(), s.dense.begin(), s.dense.end());
  }
  for (std::size_t f = 0; f < features; ++f) {
    for (auto const& s : samples) {
      b.ids.values.insert(b.ids.values.end(), s.ids[f].begin(), s.ids[f].end());
      if (weighted) b.ids.weights.insert(b.ids.weights.end(), s.weights[f].begin(), s.weights[f].end());
      b.ids.offsets.push_back(static_cast<std::uint32_t>(b.ids.values.size()));
    }
  }
  return b;
}

std::vector<sample> samples_of(np::sample_block const& b) {
  b.ids.check();
  REQUIRE(b.ids.samples == b.samples);
  REQUIRE(b.row.size() == b.samples);
  REQUIRE(b.labels.size() == b.samples);
  REQUIRE(b.dense.size() == b.samples * 2);
  std::vector<sample> all(b.samples);
  for (std::size_t i = 0; i < b.samples; ++i) {
    sample& s = all[i];
    s.row = b.row[i];
    s.labels = {b.labels[i]};
    s.dense = {b.dense[2 * i], b.dense[2 * i + 1]};
    for (std::size_t f = 0; f < b.ids.features; ++f) {
      auto const bag = b.ids.bag(f, i);
      s.ids.emplace_back(bag.begin(), bag.end());
      if (bag.empty() || b.ids.weights.empty()) continue;
      auto const first = b.ids.weights.begin() + (bag.data() - b.ids.values.data());
      s.weights.emplace_back(first, first + static_cast<std::ptrdiff_t>(bag.size()));
    }
  }
  return all;
}

std::vector<sample> all_of(blocks const& bs) {
  std::vector<sample> all;
  for (auto const& b : bs) {
    auto const part = samples_of(b);
    all.insert(all.end(), part.begin(), part.end());
  }
  std::sort(all.begin(), all.end());
  return all;
}

// The objective, by its definition, in floats of rows.
std::uint64_t floats(np::embedding_layout const& layout, blocks const& bs) {
  std::uint64_t sum = 0;
  for (auto const& b : bs) {
    std::set<std::pair<std::uint32_t, np::key_type>> keys;
    for (std::size_t f = 0; f < b.ids.features; ++f) {
      for (std::size_t i = 0; i < b.samples; ++i) {
        for (auto const key : b.ids.bag(f, i)) keys.emplace(layout.table_of(f), key);
      }
    }
    for (auto const& [t, key] : keys) sum += layout.tables()[t].dim;
  }
  return sum;
}

std::uint64_t distinct_floats(np::embedding_layout const& layout, blocks const& bs) {
  std::set<std::pair<std::uint32_t, np::key_type>> keys;
  for (auto const& s : all_of(bs)) {
    for (std::size_t f = 0; f < s.ids.size(); ++f) {
      for (auto const key : s.ids[f]) keys.emplace(layout.table_of(f), key);
    }
  }
  std::uint64_t sum = 0;
  for (auto const& [t, key] : keys) sum += layout.tables()[t].dim;
  return sum;
}

// Four features, two of them of one table; the unit of weights is 4 floats.
np::embedding_layout layout() { return {{{"a", 8}, {"b", 4}, {"c", 16}}, {{"f0", "a"}, {"f1", "b"}, {"f2", "a"}, {"f3", "c"}}}; }

struct shape {
  std::vector<std::size_t> sizes;  // of the micro-batches
  double exponent = 1.05;
  bool weighted = false, shuffled = false;
  std::uint64_t seed = 1;
};

blocks zipf_blocks(shape const& s) {
  blocks bs;
  np::data::zipf const draw{300, s.exponent};
  std::uint64_t n = 0;
  for (std::size_t const size : s.sizes) {
    std::vector<sample> samples(size);
    for (auto& x : samples) {
      std::uint64_t const id = n++;
      np::counter_random const random{s.seed, 5, id};
      x.row = s.shuffled ? np::mix64(id) >> 20 : 1000 + id;
      x.labels = {random.uniform(0)};
      x.dense = {random.uniform(1), static_cast<float>(id)};
      for (std::uint64_t f = 0; f < 4; ++f) {
        std::size_t const bag = random.below(10 + f, 4);  // empty ones too, and repeated ids
        x.ids.emplace_back();
        if (s.weighted) x.weights.emplace_back();
        for (std::size_t k = 0; k < bag; ++k) {
          x.ids.back().push_back(draw(np::counter_random{s.seed, f, id}, k * 1000));
          if (s.weighted) x.weights.back().push_back(random.uniform(100 + f * 8 + k));
        }
      }
    }
    bs.push_back(block_of(samples, 4, s.weighted));
  }
  return bs;
}

bool same(np::sample_block const& a, np::sample_block const& b) {
  return samples_of(a) == samples_of(b) && a.malformed == b.malformed && a.ids.offsets == b.ids.offsets && a.ids.weights == b.ids.weights;
}

bool same(blocks const& a, blocks const& b) {
  bool equal = a.size() == b.size();
  for (std::size_t j = 0; equal && j < a.size(); ++j) equal = same(a[j], b[j]);
  return equal;
}

// Applies, and checks all that holds for any input.
cluster_result check(cluster& c, np::embedding_layout const& l, blocks& bs, clustering how, std::uint64_t unit, std::uint32_t groups = 1) {
  blocks const given = bs;
  cluster_result const r = c.apply(l, bs, how, groups);
  CHECK(all_of(bs) == all_of(given));
  REQUIRE(bs.size() == given.size());
  for (std::size_t j = 0; j < bs.size(); ++j) {
    CHECK(bs[j].samples == given[j].samples);
    CHECK(bs[j].malformed == given[j].malformed);
    if (!same(bs[j], given[j])) CHECK(std::is_sorted(bs[j].row.begin(), bs[j].row.end()));
  }
  CHECK(r.before * unit == floats(l, given));
  CHECK(r.after * unit == floats(l, bs));
  CHECK(r.after <= r.before);
  CHECK(r.bound <= r.after);
  CHECK(r.distinct <= r.bound);
  if (groups == 1) CHECK(r.distinct * unit == distinct_floats(l, given));
  if (r.after == r.before) CHECK(same(bs, given));
  return r;
}

}  // namespace

TEST_CASE("clustering permutes samples whole, never costs more, and says what it did") {
  std::vector<shape> shapes;
  for (double const exponent : {0.8, 1.05, 1.2, 3.0}) {
    for (bool const weighted : {false, true}) {
      shapes.push_back({{16, 16, 16, 16}, exponent, weighted, false});
      shapes.push_back({{31, 0, 32, 29, 1}, exponent, weighted, true});
      shapes.push_back({std::vector<std::size_t>(40, 3), exponent, weighted, true});
      shapes.push_back({{70}, exponent, weighted, false});
      shapes.push_back({{0, 0, 5}, exponent, weighted, false});
      shapes.push_back({{0, 0}, exponent, weighted, false});
      shapes.push_back({std::vector<std::size_t>(9, 1), exponent, weighted, false});
    }
  }
  cluster c;  // one for all: nothing may be left over
  std::uint64_t fast = 0, exact = 0, before = 0;
  for (auto const& s : shapes) {
    for (std::uint64_t seed = 1; seed <= 3; ++seed) {
      shape now = s;
      now.seed = seed;
      blocks a = zipf_blocks(now), b = a;
      auto const ra = check(c, layout(), a, clustering::fast, 4);
      auto const rb = check(c, layout(), b, clustering::exact, 4);
      before += ra.before;
      fast += ra.after;
      exact += rb.after;
      CHECK(rb.after <= ra.after);
      cluster other;
      blocks again = zipf_blocks(now);
      other.apply(layout(), again, clustering::exact);
      CHECK(same(again, b));
    }
  }
  CHECK(fast < before);
  CHECK(exact < fast);
}

TEST_CASE("interleaved communities are taken apart completely") {
  np::embedding_layout const l{{{"a", 3}, {"b", 3}}, {{"f0", "a"}, {"f1", "b"}}};
  for (auto const how : {clustering::fast, clustering::exact}) {
    blocks bs;
    std::uint64_t row = 0;
    for (std::size_t j = 0; j < 4; ++j) {
      std::vector<sample> samples;
      for (std::uint64_t i = 0; i < 8; ++i, ++row) samples.push_back({row, {0}, {0, 0}, {{row % 4}, {100 + row % 4}}, {}});
      bs.push_back(block_of(samples, 2));
    }
    cluster c;
    auto const r = check(c, l, bs, how, 3);
    CHECK(r.before == 32);
    CHECK(r.after == 8);
    CHECK(r.bound == 8);
    for (auto const& b : bs) {
      for (auto const key : b.ids.bag(0, 0)) {
        for (std::size_t i = 0; i < 8; ++i) CHECK(b.ids.bag(0, i)[0] == key);
      }
    }
  }
}

TEST_CASE("wide rows weigh more than narrow ones") {
  // Samples could go together by f0 or by f1, not by both.
  for (bool const first_is_wide : {true, false}) {
    np::embedding_layout const l{{{"a", first_is_wide ? 64U : 4U}, {"b", first_is_wide ? 4U : 64U}}, {{"f0", "a"}, {"f1", "b"}}};
    blocks bs{block_of({{0, {0}, {0, 0}, {{1}, {1}}, {}}, {1, {0}, {0, 0}, {{2}, {2}}, {}}}, 2),
              block_of({{2, {0}, {0, 0}, {{1}, {2}}, {}}, {3, {0}, {0, 0}, {{2}, {1}}, {}}}, 2)};
    cluster c;
    auto const r = check(c, l, bs, clustering::fast, 4);
    CHECK(r.before == 4 * 17);
    CHECK(r.after == 2 * 16 + 4 * 1);
    std::size_t const wide = first_is_wide ? 0 : 1;
    for (auto const& b : bs) CHECK(b.ids.bag(wide, 0)[0] == b.ids.bag(wide, 1)[0]);
  }
}

TEST_CASE("an order that cannot be made better stays as it came, bit for bit") {
  std::vector<std::vector<np::key_type>> const none{{}, {}, {}, {}};
  auto const sample_with = [&](std::uint64_t row, np::key_type key) { return sample{row, {1}, {2, 3}, {{key}, {}, {}, {}}, {}}; };
  cluster c;
  for (auto const how : {clustering::off, clustering::fast, clustering::exact}) {
    // rows are not ascending here, so that a rebuilt block would show
    blocks one_key{block_of({sample_with(9, 5), sample_with(1, 5)}, 4), block_of({sample_with(3, 5), sample_with(2, 5)}, 4)};
    blocks all_different{block_of({sample_with(9, 5), sample_with(1, 6)}, 4), block_of({sample_with(3, 7), sample_with(2, 8)}, 4)};
    blocks sorted_out{block_of({sample_with(9, 5), sample_with(1, 5)}, 4), block_of({sample_with(3, 7), sample_with(2, 7)}, 4)};
    blocks no_ids{block_of({{9, {1}, {2, 3}, none, {}}, {2, {1}, {2, 3}, none, {}}}, 4), block_of({{1, {1}, {2, 3}, none, {}}}, 4)};
    auto const pair_with = [](std::uint64_t row, np::key_type a, np::key_type b) { return sample{row, {1}, {2, 3}, {{a}, {}, {}, {b}}, {}}; };
    // as good as can be, although a key could do with one micro-batch
    blocks as_good{block_of({pair_with(9, 1, 1), pair_with(1, 2, 1)}, 4), block_of({pair_with(3, 2, 2), pair_with(2, 1, 2)}, 4)};
    for (blocks* bs : {&one_key, &all_different, &sorted_out, &no_ids, &as_good}) {
      blocks const given = *bs;
      c.apply(layout(), *bs, how);
      CHECK(same(*bs, given));
    }
  }
  CHECK(c.apply(layout(), {}, clustering::exact).before == 0);
}

TEST_CASE("groups are worked on apart: a rank with two groups does what two ranks with one group do") {
  for (auto const how : {clustering::fast, clustering::exact}) {
    for (bool const shuffled : {false, true}) {
      // micro-batches 0 .. 11 of the whole batch; four groups
      blocks const all = zipf_blocks({{13, 12, 13, 12, 13, 12, 13, 12, 13, 12, 13, 12}, 1.1, true, shuffled});
      blocks one_rank = all;
      cluster c;
      auto const together = check(c, layout(), one_rank, how, 4, 4);
      for (std::size_t const ranks : {2U, 4U}) {
        cluster_result sum;
        for (std::size_t r = 0; r < ranks; ++r) {
          blocks mine;
          for (std::size_t m = r; m < all.size(); m += ranks) mine.push_back(all[m]);
          cluster own;
          sum += check(own, layout(), mine, how, 4, static_cast<std::uint32_t>(4 / ranks));
          for (std::size_t j = 0; j < mine.size(); ++j) CHECK(same(mine[j], one_rank[j * ranks + r]));
        }
        CHECK(sum.before == together.before);
        CHECK(sum.after == together.after);
      }
      // and samples stay in their group
      for (std::size_t g = 0; g < 4; ++g) {
        blocks was, is;
        for (std::size_t m = g; m < all.size(); m += 4) {
          was.push_back(all[m]);
          is.push_back(one_rank[m]);
        }
        CHECK(all_of(was) == all_of(is));
      }
    }
  }
}

TEST_CASE("how samples were numbered does not matter, only their rows: the order inside given micro-batches is without effect") {
  shape const s{{20, 20, 20}, 1.05, false, false};
  blocks a = zipf_blocks(s), b = a;
  for (auto& block : b) {
    auto samples = samples_of(block);
    std::reverse(samples.begin(), samples.end());
    block = block_of(samples, 4);
  }
  cluster c;
  CHECK(check(c, layout(), a, clustering::exact, 4).after < check(c, layout(), b, clustering::exact, 4).before);
  CHECK(same(a, b));
}

TEST_CASE("exchanges end where no exchange of two samples helps, from any start") {
  np::embedding::cluster_incidence g;
  np::embedding::cluster_swaps swaps;
  for (std::uint64_t seed = 1; seed <= 150; ++seed) {
    std::vector<std::size_t> const sizes = seed % 2 == 0 ? std::vector<std::size_t>{9, 8, 8, 3} : std::vector<std::size_t>(12, 7);
    blocks const bs = zipf_blocks({sizes, seed % 3 == 0 ? 0.8 : 1.3, false, false, seed});
    g.build(layout(), bs, 0, 1);
    for (std::size_t s = 0; s < g.samples(); ++s) CHECK(std::adjacent_find(g.keys_of(s).begin(), g.keys_of(s).end(), std::greater_equal<>{}) == g.keys_of(s).end());
    std::vector<std::uint32_t> part(g.given.data(), g.given.data() + g.samples());
    for (std::uint32_t i = 0; i < part.size(); ++i) std::swap(part[i], part[np::counter_random{seed, 1, 2}.below(i, part.size())]);
    std::uint64_t const before = g.objective(part);
    CHECK(swaps.run(g, part) > 0);
    std::uint64_t const after = g.objective(part);
    CHECK(after < before);
    std::uint64_t least = after;
    for (std::size_t a = 0; a < part.size(); ++a) {
      for (std::size_t b = 0; b < a; ++b) {
        std::swap(part[a], part[b]);
        least = std::min(least, g.objective(part));
        std::swap(part[a], part[b]);
      }
    }
    CHECK(least == after);
    CHECK(swaps.run(g, part) == 0);
  }
}

TEST_CASE("rows too wide for the scores leave the order as it came") {
  np::embedding_layout const l{{{"a", (std::size_t{1} << 28) + 1}, {"b", 1}}, {{"f0", "a"}, {"f1", "b"}}};
  auto const sample_with = [](std::uint64_t row, np::key_type key) { return sample{row, {1}, {2, 3}, {{key}, {key}}, {}}; };
  blocks bs{block_of({sample_with(0, 5), sample_with(1, 6)}, 2), block_of({sample_with(2, 5), sample_with(3, 6)}, 2)};
  blocks const given = bs;
  cluster c;
  auto const r = c.apply(l, bs, clustering::exact);
  CHECK(r.after == r.before);
  CHECK(same(bs, given));
}

TEST_CASE("nothing is allocated after warm-up") {
  cluster c;
  np::embedding_layout const l = layout();
  for (auto const how : {clustering::fast, clustering::exact}) {
    std::vector<blocks> slots(3);  // batches in flight: their buffers circulate
    for (std::uint64_t round = 0; round < 60; ++round) {
      blocks const read = zipf_blocks({{30, 30, 30, 30}, 1.05, true, true, 1 + round % 4});
      blocks& bs = slots[round % 3];
      bs.resize(read.size());
      for (std::size_t j = 0; j < bs.size(); ++j) bs[j] = read[j];
      std::uint64_t const before = allocations.load();
      c.apply(l, bs, how);
      std::uint64_t const made = allocations.load() - before;
      if (round >= 40) CHECK_MESSAGE(made == 0, np::embedding::name(how));
    }
  }
}
