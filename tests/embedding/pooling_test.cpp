#include <doctest/doctest.h>

#include <nestpipe/embedding/pooling.hpp>
#include <nestpipe/embedding/source_route.hpp>

#include <support/jagged_blocks.hpp>

#include <cmath>
#include <vector>

namespace np = nestpipe;
using np::pooling;

namespace {

/// One micro-batch on one rank: its route, and rows that are a function of (table, key).
struct fixture {
  np::embedding_layout layout;
  np::sample_block block;
  np::embedding::source_route route;
  std::vector<float> landing;

  fixture(np::embedding_layout l, np::sample_block b) : layout{std::move(l)}, block{std::move(b)} {
    np::embedding::route_shape const shape{1, 1, static_cast<std::uint32_t>(layout.tables().size()), 1024};
    route.build(layout, std::span{&block, 1}, shape);
    landing.resize(micro().floats);
    for (std::size_t f = 0; f < block.ids.features; ++f) {
      std::uint32_t const t = layout.table_of(f);
      for (std::size_t p = block.ids.offsets[f * block.samples]; p < block.ids.offsets[(f + 1) * block.samples]; ++p) {
        for (std::size_t k = 0; k < layout.tables()[t].dim; ++k) landing[micro().entry_offset[micro().occurrence_entry[p]] + k] = value(t, block.ids.values[p], k);
      }
    }
  }
  np::embedding::micro_route const& micro() const { return route.micro[0]; }
  static float value(std::uint32_t t, np::key_type key, std::size_t k) { return np::counter_random{3, t, key}.normal(k); }
  float weight(std::size_t p) const { return block.ids.weights.empty() ? 1.0f : block.ids.weights[p]; }
  std::size_t first(std::size_t f) const { return block.ids.offsets[f * block.samples]; }

  struct result {
    std::vector<float> pooled;
    std::vector<std::vector<float>> rows;  // per feature with pooling none
  };
  result forward(np::embedding::pooler& pool) const {
    result r;
    r.pooled.assign(block.samples * layout.pooled_width(), 77.0f);  // all of it must be overwritten
    std::vector<float*> targets;
    for (std::size_t f = 0; f < layout.features().size(); ++f) {
      if (layout.features()[f].pooling != pooling::none) continue;
      r.rows.emplace_back((first(f + 1) - first(f)) * layout.dim_of_feature(f), 77.0f);
    }
    for (auto& v : r.rows) targets.push_back(v.data());
    pool.forward(layout, block.ids, micro(), landing.data(), r.pooled.data(), targets);
    return r;
  }
};

struct close {
  double worst = 0;
  /// Error relative to the sum of the terms' sizes: what rounding can do.
  void operator()(float got, double expected, double size) { worst = std::max(worst, std::abs(static_cast<double>(got) - expected) / (size + 1e-30)); }
};

void check_forward(fixture const& x, fixture::result const& r) {
  close off;
  std::size_t sequence = 0;
  for (std::size_t f = 0; f < x.layout.features().size(); ++f) {
    std::size_t const dim = x.layout.dim_of_feature(f);
    std::uint32_t const t = x.layout.table_of(f);
    pooling const kind = x.layout.features()[f].pooling;
    if (kind == pooling::none) {
      bool same = true;
      for (std::size_t p = x.first(f); p < x.first(f + 1); ++p) {
        for (std::size_t k = 0; k < dim; ++k) same = same && r.rows[sequence][(p - x.first(f)) * dim + k] == fixture::value(t, x.block.ids.values[p], k);
      }
      CHECK(same);
      ++sequence;
      continue;
    }
    for (std::size_t i = 0; i < x.block.samples; ++i) {
      std::size_t const begin = x.block.ids.offsets[f * x.block.samples + i], end = x.block.ids.offsets[f * x.block.samples + i + 1];
      float const* const out = r.pooled.data() + i * x.layout.pooled_width() + x.layout.column(f);
      for (std::size_t k = 0; k < dim; ++k) {
        double sum = 0, square = 0, size = 0, square_size = 0;
        for (std::size_t p = begin; p < end; ++p) {
          double const v = static_cast<double>(x.weight(p)) * static_cast<double>(fixture::value(t, x.block.ids.values[p], k));
          sum += v;
          size += std::abs(v);
          square += v * v;
          square_size += v * v;
        }
        double const n = kind == pooling::mean && end > begin ? static_cast<double>(end - begin) : 1.0;
        off(out[k], sum / n, size / n);
        if (kind == pooling::sum_and_squares) off(out[dim + k], square, square_size);
        if (begin == end) CHECK(out[k] == 0.0f);
      }
    }
  }
  CHECK(off.worst < 2e-6);
}

void check_backward(fixture const& x, np::embedding::pooler& pool) {
  np::counter_random const random{9, 9, 9};
  std::uint64_t draw = 0;
  std::vector<float> d_pooled(x.block.samples * x.layout.pooled_width());
  for (auto& v : d_pooled) v = random.normal(draw++);
  std::vector<std::vector<float>> d_rows;
  std::vector<float const*> d_pointers;
  for (std::size_t f = 0; f < x.layout.features().size(); ++f) {
    if (x.layout.features()[f].pooling != pooling::none) continue;
    d_rows.emplace_back((x.first(f + 1) - x.first(f)) * x.layout.dim_of_feature(f));
    for (auto& v : d_rows.back()) v = random.normal(draw++);
  }
  for (auto const& v : d_rows) d_pointers.push_back(v.data());
  std::vector<float> out(x.micro().floats, 77.0f);
  pool.backward(x.layout, x.block.ids, x.micro(), x.landing.data(), d_pooled.data(), d_pointers, out.data());

  std::vector<double> expected(out.size(), 0), size(out.size(), 0);
  std::size_t sequence = 0;
  for (std::size_t f = 0; f < x.layout.features().size(); ++f) {
    std::size_t const dim = x.layout.dim_of_feature(f);
    std::uint32_t const t = x.layout.table_of(f);
    pooling const kind = x.layout.features()[f].pooling;
    for (std::size_t i = 0; i < x.block.samples; ++i) {
      std::size_t const begin = x.block.ids.offsets[f * x.block.samples + i], end = x.block.ids.offsets[f * x.block.samples + i + 1];
      for (std::size_t p = begin; p < end; ++p) {
        std::size_t const at = x.micro().entry_offset[x.micro().occurrence_entry[p]];
        double const w = static_cast<double>(x.weight(p));
        for (std::size_t k = 0; k < dim; ++k) {
          float const* const d = d_pooled.data() + i * x.layout.pooled_width() + x.layout.column(f);
          double g = 0, parts = 0;
          if (kind == pooling::none) {
            g = static_cast<double>(d_rows[sequence][(p - x.first(f)) * dim + k]);
          } else if (kind == pooling::sum_and_squares) {
            double const a = w * static_cast<double>(d[k]);
            double const b = 2 * w * w * static_cast<double>(fixture::value(t, x.block.ids.values[p], k)) * static_cast<double>(d[dim + k]);
            g = a + b;
            parts = std::abs(a) + std::abs(b);
          } else {
            g = w * static_cast<double>(d[k]) / (kind == pooling::mean ? static_cast<double>(end - begin) : 1.0);
          }
          expected[at + k] += g;
          size[at + k] += std::max(parts, std::abs(g));
        }
      }
    }
    sequence += kind == pooling::none ? 1 : 0;
  }
  close off;
  for (std::size_t k = 0; k < out.size(); ++k) off(out[k], expected[k], size[k]);
  CHECK(off.worst < 2e-6);
}

np::embedding_layout layout_of(std::vector<std::size_t> const& dims, std::vector<pooling> const& kinds) {
  std::vector<np::table> tables;
  std::vector<np::feature> features;
  for (std::size_t t = 0; t < dims.size(); ++t) tables.push_back({"t" + std::to_string(t), dims[t]});
  for (std::size_t f = 0; f < kinds.size(); ++f) features.push_back({"f" + std::to_string(f), "t" + std::to_string(f % dims.size()), kinds[f]});
  return {tables, features};
}

}  // namespace

TEST_CASE("pooled look-up and its gradients against plain doubles: every pooling, odd dims, weights, empty and long bags") {
  np::embedding::pooler pool;  // one for all: its scratch must not remember
  for (bool const weighted : {false, true}) {
    for (std::vector<std::size_t> const& dims : {std::vector<std::size_t>{1, 3, 4}, {16, 17, 8}, {9, 100, 32}, {64, 128, 5}}) {
      for (std::size_t const long_bag : {std::size_t{0}, std::size_t{65}, std::size_t{300}}) {
        CAPTURE(weighted);
        CAPTURE(dims[0]);
        CAPTURE(long_bag);
        fixture const x{layout_of(dims, {pooling::sum, pooling::mean, pooling::none, pooling::sum_and_squares, pooling::none, pooling::mean, pooling::sum}),
                        np::test::random_block(dims[0] + long_bag, 7, 23, {60, 4, long_bag, weighted, 5})};
        check_forward(x, x.forward(pool));
        check_backward(x, pool);
      }
    }
  }
}

TEST_CASE("dims beyond a thousand, one key everywhere, and no samples") {
  np::embedding::pooler pool;
  for (std::size_t const dim : {1024U, 1028U, 2048U}) {
    fixture const x{layout_of({dim}, {pooling::mean, pooling::sum}), np::test::random_block(dim, 2, 5, {5, 3})};
    check_forward(x, x.forward(pool));
    check_backward(x, pool);
  }
  fixture const one{layout_of({4, 3}, {pooling::mean, pooling::sum, pooling::sum_and_squares, pooling::none}), np::test::random_block(1, 4, 200, {1, 3})};
  check_forward(one, one.forward(pool));
  check_backward(one, pool);
  fixture const none{layout_of({4, 3}, {pooling::mean, pooling::sum, pooling::none}), np::test::random_block(1, 3, 0)};
  check_forward(none, none.forward(pool));
  check_backward(none, pool);
}

TEST_CASE("sums longer than 64 go in blocks of 64, then over the blocks, whatever the dim") {
  for (std::size_t const dim : {4U, 5U}) {  // a dim that the compiler knows, and one that it does not
    np::sample_block b;
    b.samples = 1;
    b.ids.features = 1;
    b.ids.samples = 1;
    for (np::key_type k = 0; k < 200; ++k) b.ids.values.push_back(k);
    b.ids.offsets = {0, 200};
    fixture const x{layout_of({dim}, {pooling::sum}), b};
    np::embedding::pooler pool;
    auto const r = x.forward(pool);
    bool order_matters = false;  // else the check could not fail
    for (std::size_t k = 0; k < dim; ++k) {
      float total = 0;
      float plain = 0;
      for (np::key_type from = 0; from < 200; from += np::sum_block) {
        float part = 0;
        for (np::key_type key = from; key < std::min<np::key_type>(200, from + np::sum_block); ++key) {
          part += fixture::value(0, key, k);
          plain += fixture::value(0, key, k);
        }
        total += part;
      }
      CHECK(r.pooled[k] == total);
      order_matters = order_matters || plain != total;
    }
    CHECK(order_matters);
  }
}

TEST_CASE("inputs are unchanged, and features that share a table differ by their ids only") {
  fixture const x{layout_of({8}, {pooling::sum, pooling::mean}), [] {
                    auto b = np::test::random_block(4, 2, 10, {20, 4});
                    // the same ids in both features
                    std::size_t const n = b.ids.offsets[10];
                    b.ids.values.resize(n);
                    b.ids.values.insert(b.ids.values.end(), b.ids.values.begin(), b.ids.values.begin() + static_cast<std::ptrdiff_t>(n));
                    for (std::size_t i = 0; i <= 10; ++i) {
                      if (i + 10 < b.ids.offsets.size()) b.ids.offsets[i + 10] = static_cast<std::uint32_t>(n + b.ids.offsets[i]);
                    }
                    b.ids.offsets.resize(21);
                    b.ids.check();
                    return b;
                  }()};
  auto const before = x.block.ids.offsets;
  np::embedding::pooler pool;
  auto const r = x.forward(pool);
  CHECK(x.block.ids.offsets == before);
  check_forward(x, r);
  for (std::size_t i = 0; i < 10; ++i) {
    std::size_t const n = x.block.ids.offsets[i + 1] - x.block.ids.offsets[i];
    for (std::size_t k = 0; k < 8; ++k)
      CHECK(r.pooled[i * 16 + k] == doctest::Approx(static_cast<double>(n) * static_cast<double>(r.pooled[i * 16 + 8 + k])).epsilon(1e-5));
  }
}
