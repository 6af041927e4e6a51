#pragma once
/// @file
/// Random samples and random layouts for tests.

#include <nestpipe/core/jagged.hpp>
#include <nestpipe/core/schema.hpp>

#include <vector>

namespace nestpipe::test {

struct block_options {
  std::uint64_t key_range = 40;     ///< keys are below this, except now and then 0 and ~0
  std::size_t max_bag = 3;
  std::size_t long_bag = 0;         ///< one bag in eight has this many ids; 0: none
  bool weighted = false;
  std::size_t empty_feature = ~std::size_t{0};  ///< this one has no ids at all
};

/// `samples` samples of `features` jagged features; no labels and no dense columns.
inline sample_block random_block(std::uint64_t seed, std::size_t features, std::size_t samples, block_options const& o = {}) {
  counter_random const random{seed, features, samples};
  sample_block b;
  b.samples = samples;
  b.ids.features = features;
  b.ids.samples = samples;
  b.ids.offsets.assign(1, 0);
  std::uint64_t draw = 0;
  for (std::size_t f = 0; f < features; ++f) {
    for (std::size_t i = 0; i < samples; ++i) {
      std::uint64_t n = random.below(draw++, o.max_bag + 1);
      if (o.long_bag != 0 && random.below(draw++, 8) == 0) n = o.long_bag;
      if (f == o.empty_feature) n = 0;
      for (std::uint64_t k = 0; k < n; ++k) {
        key_type key = random.below(draw++, o.key_range);
        if (random.below(draw++, 50) == 0) key = ~key_type{0};
        b.ids.values.push_back(key);
        if (o.weighted) b.ids.weights.push_back(2 * random.uniform(draw++) - 0.5f);
      }
      b.ids.offsets.push_back(static_cast<std::uint32_t>(b.ids.values.size()));
    }
  }
  for (std::size_t i = 0; i < samples; ++i) b.row.push_back(i);
  b.ids.check();
  return b;
}

/// Five features on three tables of different dims: tables shared, poolings mixed.
inline embedding_layout mixed_layout() {
  return {{{"a", 4}, {"b", 3}, {"c", 17}, {"unused", 5}},
          {{"f0", "a", pooling::sum}, {"f1", "b", pooling::mean}, {"f2", "a", pooling::none}, {"f3", "c", pooling::sum_and_squares}, {"f4", "b", pooling::none}}};
}

}  // namespace nestpipe::test
