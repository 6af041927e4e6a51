#pragma once
// What every dataset must do. `make()` gives a fresh dataset over the same rows.

#include <nestpipe/data/data.hpp>

#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <memory>
#include <string>
#include <thread>
#include <vector>

namespace data_conformance {

using nestpipe::sample_block;
namespace data = nestpipe::data;

// One sample, whatever block it came in.
struct sample {
  std::uint64_t row = 0;
  std::vector<float> labels, dense, weights;
  std::vector<std::vector<nestpipe::key_type>> ids;
  bool operator==(sample const&) const = default;
};

inline void append(sample_block const& b, std::vector<sample>& out) {
  b.ids.check();
  REQUIRE(b.ids.samples == b.samples);
  REQUIRE(b.row.size() == b.samples);
  REQUIRE(b.labels.size() == b.samples * b.label_width);
  REQUIRE(b.dense.size() == b.samples * b.dense_width);
  for (std::size_t i = 0; i < b.samples; ++i) {
    sample s;
    s.row = b.row[i];
    s.labels.assign(b.labels.begin() + static_cast<long>(i * b.label_width), b.labels.begin() + static_cast<long>((i + 1) * b.label_width));
    s.dense.assign(b.dense.begin() + static_cast<long>(i * b.dense_width), b.dense.begin() + static_cast<long>((i + 1) * b.dense_width));
    for (float const x : s.dense) REQUIRE(std::isfinite(x));
    for (std::size_t f = 0; f < b.ids.features; ++f) {
      auto const bag = b.ids.bag(f, i);
      s.ids.emplace_back(bag.begin(), bag.end());
      if (!b.ids.weights.empty()) {
        for (std::size_t k = b.ids.offsets[f * b.samples + i]; k < b.ids.offsets[f * b.samples + i + 1]; ++k) s.weights.push_back(b.ids.weights[k]);
      }
    }
    out.push_back(std::move(s));
  }
}

struct epoch {
  std::vector<sample> samples;
  std::size_t rows = 0;
  std::size_t malformed = 0;
};

// The rest of an epoch from where the dataset stands, in global batches of `batch` rows and micro-batches of `micro`.
template <class D>
epoch read(D& d, std::size_t batch, std::size_t micro) {
  epoch out;
  typename D::block block;
  sample_block samples;
  for (;;) {
    auto const before = d.position();
    std::size_t const n = d.frame(block, batch);
    REQUIRE(n <= batch);
    CHECK(d.position() == data::data_position{before.epoch, before.row + n});
    if (n == 0) break;
    out.rows += n;
    for (std::size_t first = 0; first < std::min(batch, n + 2 * micro); first += micro) {
      d.parse(block, first, std::min(first + micro, batch), samples);
      CHECK(samples.samples + samples.malformed == (first >= n ? 0 : std::min(first + micro, n) - first));
      CHECK(samples.ids.features == d.schema().features.size());
      CHECK(samples.dense_width == d.schema().dense);
      CHECK(samples.label_width == d.schema().labels);
      append(samples, out.samples);
      out.malformed += samples.malformed;
    }
    if (n < batch) CHECK(d.frame(block, batch) == 0);
  }
  return out;
}

struct expected {
  std::size_t rows = 0;       // per epoch, malformed included
  std::size_t malformed = 0;
  bool shuffled = false;
};

template <class Make>
void check(Make make, expected want) {
  auto d = make();
  using D = decltype(d);
  static_assert(data::audit<D>());
  static_assert(data::dataset<D>);
  auto const names = d.schema();
  CHECK(names.labels == 1);
  CHECK((names.dense_names.empty() || names.dense_names.size() == names.dense));

  epoch const first = read(d, 7, 7);
  CHECK(first.rows == want.rows);
  CHECK(first.malformed == want.malformed);
  CHECK(first.samples.size() == want.rows - want.malformed);
  if (auto const hint = d.size_hint()) CHECK(*hint == want.rows);

  // Neither the batch size nor the cut into micro-batches matters.
  for (auto const& [batch, micro] : {std::pair<std::size_t, std::size_t>{1, 1}, {5, 2}, {8, 4}, {100000, 100000}, {100000, 3}}) {
    auto other = make();
    CHECK(read(other, batch, micro).samples == first.samples);
  }

  // Epochs: the same rows; the same order unless shuffled; repeatable.
  d.rewind(0);
  CHECK(d.position() == data::data_position{0, 0});
  CHECK(read(d, 7, 7).samples == first.samples);
  d.rewind(1);
  epoch const second = read(d, 6, 6);
  CHECK((second.samples == first.samples) == (!want.shuffled || want.rows <= 1));
  auto const by_row = [](sample const& a, sample const& b) { return a.row < b.row; };
  auto sorted_first = first.samples;
  auto sorted_second = second.samples;
  std::sort(sorted_first.begin(), sorted_first.end(), by_row);
  std::sort(sorted_second.begin(), sorted_second.end(), by_row);
  CHECK(sorted_first == sorted_second);
  CHECK(std::is_sorted(first.samples.begin(), first.samples.end(), by_row) == (!want.shuffled || want.rows <= 1));

  // A seek, forward and back, on a used and on a fresh dataset, gives the rest of the epoch; so does a copy on its way.
  typename D::block block;
  for (std::uint64_t const e : {0U, 1U}) {
    for (std::size_t row = 0; row <= want.rows; row += std::max<std::size_t>(1, want.rows / 5)) {
      auto fresh = make();
      fresh.rewind(e);
      REQUIRE(fresh.frame(block, row) == row);
      auto copy = fresh;
      auto const rest = read(fresh, 4, 4).samples;
      CHECK(read(copy, 3, 3).samples == rest);
      d.seek({e, row});
      CHECK(d.position() == data::data_position{e, row});
      CHECK(read(d, 5, 5).samples == rest);
      auto another = make();
      another.seek({e, row});
      CHECK(read(another, 5, 5).samples == rest);
    }
  }
  CHECK_THROWS_AS(make().seek({0, want.rows + 1}), nestpipe::data_error);

  // Parsing: any part of a block, out of range too, into a used sample block, by two threads at once.
  d.rewind(0);
  std::size_t const n = d.frame(block, 1000);
  sample_block used, whole;
  d.parse(block, 0, n, whole);
  d.parse(block, 0, n, used);
  d.parse(block, n, n + 10, used);
  CHECK(used.samples == 0);
  CHECK(used.malformed == 0);
  std::vector<sample> all, parts;
  append(whole, all);
  for (std::size_t i = 0; i < n; ++i) {
    d.parse(block, i, i + 1, used);
    append(used, parts);
  }
  CHECK(parts == all);
  D const& constant = d;
  std::vector<sample> of_threads[2];
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&, t] {
      sample_block mine;
      for (int repeat = 0; repeat < 20; ++repeat) {
        of_threads[t].clear();
        for (std::size_t i = 0; i < n; i += 3) {
          constant.parse(block, i, std::min(i + 3, n), mine);
          append(mine, of_threads[t]);
        }
      }
    });
  }
  for (auto& t : threads) t.join();
  CHECK(of_threads[0] == all);
  CHECK(of_threads[1] == all);

  // A block travels as bytes to a rank that has only a copy of the dataset.
  if constexpr (requires(typename D::block& b, std::vector<std::byte>& bytes) {
                  b.serialize(bytes);
                  b.deserialize(std::span<std::byte const>{bytes});
                }) {
    std::vector<std::byte> bytes(3);
    block.serialize(bytes);
    typename D::block arrived;
    arrived.deserialize(bytes);
    CHECK(arrived.size() == n);
    auto const elsewhere = make();
    elsewhere.parse(arrived, 0, n, used);
    parts.clear();
    append(used, parts);
    CHECK(parts == all);
    if (n > 0) {
      bytes.resize(bytes.size() / 2 + 1);
      CHECK_THROWS_AS(arrived.deserialize(bytes), nestpipe::data_error);
    }
  }
}

}  // namespace data_conformance
