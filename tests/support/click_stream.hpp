#pragma once
/// @file
/// Samples in memory for tests of the engine: jagged ids with overlapping keys, dense columns, malformed rows at will.

#include <nestpipe/data/data.hpp>
#include <nestpipe/data/row_stream.hpp>
#include <nestpipe/data/sample_builder.hpp>

#include <algorithm>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace nestpipe::test {

struct stream_options {
  std::size_t rows = 273;
  std::size_t features = 5;
  std::size_t dense = 3;
  std::uint64_t seed = 1;
  std::uint64_t key_range = 150;   ///< keys are below this; small ones are much more frequent
  std::size_t max_bag = 3;
  bool weighted = false;
  std::uint64_t malformed_in = 17; ///< about one row in so many; 0: none
  std::function<bool(std::uint64_t)> malformed{};                       ///< further ones
  std::function<key_type(std::size_t, std::uint64_t, key_type)> key{};  ///< (feature, row, drawn key) -> key
  std::function<std::size_t(std::size_t, std::uint64_t, std::size_t)> bag{};  ///< (feature, row, drawn size) -> ids in the bag
  std::function<float(std::uint64_t)> label{};                          ///< else 0 or 1
};

/// A dataset. Row i is a pure function of the options and i.
class click_stream {
 public:
  using block = data::row_block;

  explicit click_stream(stream_options o) : options_{std::make_shared<stream_options const>(std::move(o))}, stream_{options_->rows, data::row_options{}} {
    schema_.dense = options_->dense;
    for (std::size_t f = 0; f < options_->features; ++f) schema_.features.push_back("f" + std::to_string(f));
  }

  struct nestpipe::schema const& schema() const { return schema_; }
  std::size_t frame(block& b, std::size_t rows) { return stream_.frame(b, rows); }
  void rewind(std::uint64_t epoch) { stream_.rewind(epoch); }
  data::data_position position() const { return stream_.position(); }
  void seek(data::data_position to) { stream_.seek(to); }
  std::optional<std::uint64_t> size_hint() const { return stream_.size(); }

  void parse(block const& b, std::size_t first, std::size_t last, sample_block& out) const {
    last = std::min(last, b.size());
    first = std::min(first, last);
    stream_options const& o = *options_;
    thread_local data::sample_builder builder;
    builder.begin(out, o.features, o.dense, 1, o.weighted, last - first);
    for (std::size_t i = first; i < last; ++i) {
      std::uint64_t const row = b.rows[i];
      counter_random const random{o.seed, 77, row};
      for (std::size_t d = 0; d < o.dense; ++d) builder.dense()[d] = 2 * random.uniform(d) - 1;
      std::uint64_t draw = 1000;
      for (std::uint32_t f = 0; f < o.features; ++f) {
        std::size_t n = random.below(draw++, o.max_bag + 1);
        if (o.bag) n = o.bag(f, row, n);
        for (std::size_t k = 0; k < n; ++k) {
          float const u = random.uniform(draw++);
          key_type key = static_cast<key_type>(u * u * u * static_cast<float>(o.key_range));
          if (o.key) key = o.key(f, row, key);
          if (o.weighted) {
            builder.id(f, key, 0.25f + random.uniform(draw++));
          } else {
            builder.id(f, key);
          }
        }
      }
      *builder.labels() = o.label ? o.label(row) : static_cast<float>(random.below(999, 2));
      if (is_malformed(row)) {
        builder.abandon();
      } else {
        builder.commit(row);
      }
    }
    builder.finish();
  }

  bool is_malformed(std::uint64_t row) const {
    stream_options const& o = *options_;
    return (o.malformed_in != 0 && mix64(o.seed, row) % o.malformed_in == 0) || (o.malformed && o.malformed(row));
  }
  std::uint64_t good_rows() const {
    std::uint64_t n = 0;
    for (std::uint64_t r = 0; r < options_->rows; ++r) n += is_malformed(r) ? 0 : 1;
    return n;
  }
  stream_options const& options() const { return *options_; }

 private:
  std::shared_ptr<stream_options const> options_;
  data::row_stream stream_;
  struct nestpipe::schema schema_;
};

}  // namespace nestpipe::test
