#pragma once
/// @file
/// Samples with zipf-distributed keys, whose consecutive batches share keys as they happen to, not at all, or completely.

#include <nestpipe/data/row_stream.hpp>
#include <nestpipe/data/sample_builder.hpp>
#include <nestpipe/data/zipf.hpp>

#include <algorithm>
#include <string>
#include <unordered_set>

namespace bench {

enum class sharing { natural, none, full };
inline char const* name(sharing s) { return s == sharing::natural ? "natural" : s == sharing::none ? "none" : "full"; }

struct key_stream_options {
  std::uint64_t rows = 0;
  std::size_t batch = 256;    ///< global; what `share` refers to
  std::size_t features = 8;
  std::uint64_t vocabulary = 100'000;
  double exponent = 1.05;
  sharing share = sharing::natural;
};

/// A dataset (data/data.hpp). Row i is a pure function of the options and i.
class key_stream {
 public:
  using block = nestpipe::data::row_block;

  explicit key_stream(key_stream_options const& o) : options_{o}, stream_{o.rows, nestpipe::data::row_options{}}, keys_{o.vocabulary, o.exponent} {
    for (std::size_t f = 0; f < o.features; ++f) schema_.features.push_back("f" + std::to_string(f));
    schema_.dense = 1;
  }

  nestpipe::schema const& schema() const { return schema_; }
  std::size_t frame(block& b, std::size_t rows) { return stream_.frame(b, rows); }
  void rewind(std::uint64_t epoch) { stream_.rewind(epoch); }
  nestpipe::data::data_position position() const { return stream_.position(); }
  void seek(nestpipe::data::data_position to) { stream_.seek(to); }
  std::optional<std::uint64_t> size_hint() const { return stream_.size(); }

  void parse(block const& b, std::size_t first, std::size_t last, nestpipe::sample_block& out) const {
    last = std::min(last, b.size());
    first = std::min(first, last);
    thread_local nestpipe::data::sample_builder builder;
    builder.begin(out, options_.features, 1, 1, false, last - first);
    for (std::size_t i = first; i < last; ++i) {
      std::uint64_t const row = b.rows[i];
      builder.dense()[0] = 1.0f;
      for (std::uint32_t f = 0; f < options_.features; ++f) builder.id(f, key(row, f));
      *builder.labels() = static_cast<float>(nestpipe::mix64(row, 5) & 1);
      builder.commit(row);
    }
    builder.finish();
  }

  nestpipe::key_type key(std::uint64_t row, std::uint32_t f) const {
    std::uint64_t const batch = row / options_.batch;
    if (options_.share == sharing::full) row %= options_.batch;
    std::uint64_t const rank = keys_(nestpipe::counter_random{7, f, row}, 0);
    return options_.share == sharing::none ? nestpipe::mix64(rank, batch) : nestpipe::mix64(rank);
  }

  /// Shares of distinct keys: of a batch, those that the batch before has too; of the first round of micro-batches, those
  /// that it does not have, which can go early. Means over a few batches.
  struct overlap {
    double shared = 0, early = 0, distinct = 0;
  };
  overlap measure(std::size_t first_round_samples) const {
    overlap o;
    constexpr std::size_t batches = 8;
    std::unordered_set<std::uint64_t> before, now;
    auto const slot = [&](std::uint64_t row, std::uint32_t f) { return nestpipe::mix64(key(row, f), f); };
    for (std::size_t b = 0; b <= batches; ++b) {
      now.clear();
      std::unordered_set<std::uint64_t> first;
      for (std::size_t i = 0; i < options_.batch; ++i) {
        for (std::uint32_t f = 0; f < options_.features; ++f) {
          now.insert(slot(b * options_.batch + i, f));
          if (i < first_round_samples) first.insert(slot(b * options_.batch + i, f));
        }
      }
      if (b != 0) {
        auto const kept = [&](auto const& set) { return static_cast<double>(std::count_if(set.begin(), set.end(), [&](std::uint64_t k) { return before.contains(k); })); };
        o.shared += kept(now) / static_cast<double>(now.size()) / batches;
        if (!first.empty()) o.early += (1 - kept(first) / static_cast<double>(first.size())) / batches;
        o.distinct += static_cast<double>(now.size()) / batches;
      }
      before.swap(now);
    }
    return o;
  }

 private:
  key_stream_options options_;
  nestpipe::data::row_stream stream_;
  nestpipe::data::zipf keys_;
  nestpipe::schema schema_;
};

}  // namespace bench
