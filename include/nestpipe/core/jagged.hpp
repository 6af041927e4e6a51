#pragma once
/// @file
/// Jagged ids of a batch, feature-major as in TorchRec's KeyedJaggedTensor: offsets with values and optional weights.

#include <nestpipe/core/config.hpp>
#include <nestpipe/core/error.hpp>

#include <cmath>
#include <span>
#include <string>
#include <vector>

namespace nestpipe {

/// Bag of sample i in feature f: values [offsets[f * samples + i], offsets[f * samples + i + 1]).
struct jagged {
  std::size_t features = 0;
  std::size_t samples = 0;
  std::vector<std::uint32_t> offsets{0};  ///< features * samples + 1, starting at 0, ascending
  std::vector<key_type> values;           ///< ids, feature-major
  std::vector<float> weights;             ///< empty, or one weight per value

  std::span<key_type const> bag(std::size_t f, std::size_t i) const {
    std::size_t const b = f * samples + i;
    return std::span{values}.subspan(offsets[b], offsets[b + 1] - offsets[b]);
  }
  void clear() {
    samples = 0;
    offsets.assign(1, 0);
    values.clear();
    weights.clear();
  }

  /// @throws data_error naming the first offset that is malformed, or a length that does not fit. O(features * samples).
  void check() const {
    std::size_t const bags = features * samples;
    if (offsets.size() != bags + 1)
      throw data_error{"jagged batch: expected " + std::to_string(bags + 1) + " offsets, got " + std::to_string(offsets.size())};
    if (offsets[0] != 0) throw data_error{"jagged batch: the first offset must be 0"};
    for (std::size_t b = 0; b < bags; ++b) {
      if (offsets[b + 1] < offsets[b])
        throw data_error{"jagged batch: offsets decrease", "feature " + std::to_string(b / samples) + ", sample " + std::to_string(b % samples)};
    }
    if (offsets[bags] != values.size())
      throw data_error{"jagged batch: the last offset is " + std::to_string(offsets[bags]) + " but there are " + std::to_string(values.size()) + " values"};
    if (!weights.empty() && weights.size() != values.size())
      throw data_error{"jagged batch: weights and values differ in number"};
  }
};

/// The good samples of one micro-batch, as read. Malformed lines leave no sample here, only a count.
struct sample_block {
  std::size_t samples = 0;
  std::size_t dense_width = 0;
  std::size_t label_width = 1;
  std::vector<std::uint64_t> row;   ///< (samples) row number in the stream of data lines
  std::vector<float> labels;        ///< (samples, label_width) row-major
  std::vector<float> dense;         ///< (samples, dense_width) row-major, transformed and finite
  jagged ids;                       ///< features of the schema, same samples
  std::size_t malformed = 0;        ///< lines of this micro-batch that could not be read

  void clear() {
    samples = 0;
    row.clear();
    labels.clear();
    dense.clear();
    ids.clear();
    malformed = 0;
  }
};

}  // namespace nestpipe
