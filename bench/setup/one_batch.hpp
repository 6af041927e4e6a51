#pragma once
/// @file
/// One routed batch of zipf keys on one rank: what the stages between routing and write-back work on.

#include <nestpipe/data/zipf.hpp>
#include <nestpipe/embedding/owner_route.hpp>
#include <nestpipe/embedding/source_route.hpp>

#include <string>

namespace nestpipe::bench {

struct batch_options {
  std::size_t samples = 2048;
  std::size_t tables = 26;       ///< each with one feature
  std::size_t dim = 16;
  std::size_t bag = 1;           ///< ids of a feature per sample
  double exponent = 1.05;        ///< of the zipf distribution of keys, 0: uniform
  std::uint64_t vocabulary = 1'000'000;
  std::uint64_t seed = 1;
};

class one_batch {
 public:
  embedding_layout layout;
  std::vector<sample_block> blocks;  ///< one micro-batch
  embedding::route_shape shape;
  embedding::source_route source;
  embedding::owner_route owner;

  explicit one_batch(batch_options const& o) : blocks(1) {
    std::vector<table> tables;
    std::vector<feature> features;
    for (std::size_t t = 0; t < o.tables; ++t) {
      tables.push_back({.name = "t" + std::to_string(t), .dim = o.dim, .cardinality = o.vocabulary});
      features.push_back({.name = "f" + std::to_string(t), .table = tables.back().name});
    }
    layout = embedding_layout{tables, features};
    fill(o);
    route();
  }

  /// Other keys of the same distribution.
  void fill(batch_options const& o) {
    data::zipf const rank{o.vocabulary, o.exponent};
    sample_block& b = blocks[0];
    b.samples = b.ids.samples = o.samples;
    b.ids.features = o.tables;
    b.ids.offsets.assign(1, 0);
    b.ids.values.clear();
    for (std::size_t f = 0; f < o.tables; ++f) {
      for (std::size_t i = 0; i < o.samples; ++i) {
        counter_random const random{o.seed, f, i};
        for (std::size_t k = 0; k < o.bag; ++k) {
          // Common keys are spread over the table: a prime and the size of the vocabulary have no common factor.
          b.ids.values.push_back(rank(random, k << 20) * 2654435761U % o.vocabulary);
        }
        b.ids.offsets.push_back(static_cast<std::uint32_t>(b.ids.values.size()));
      }
    }
  }

  void route() {
    shape.tables = static_cast<std::uint32_t>(layout.tables().size());
    source.build(layout, blocks, shape);
    source.land(layout, shape, false, {});
    owner.counts = source.counts;
    owner.expect(shape);
    std::copy(source.keys.span().begin(), source.keys.span().end(), owner.received.data());
    std::copy(source.lists.span().begin(), source.lists.span().end(), owner.slots.data());
    owner.build(shape, false);
  }

  embedding::micro_route const& micro() const { return source.micro[0]; }
  jagged const& ids() const { return blocks[0].ids; }
};

}  // namespace nestpipe::bench
