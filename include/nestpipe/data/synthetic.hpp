#pragma once
/// @file
/// A stream shaped like Criteo's, with a teacher inside, so that the best possible AUC is known.

#include <nestpipe/data/data.hpp>
#include <nestpipe/data/row_stream.hpp>
#include <nestpipe/data/sample_builder.hpp>
#include <nestpipe/data/zipf.hpp>

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <string>
#include <vector>

namespace nestpipe::data {

struct synthetic_options {
  std::uint64_t rows = 1'000'000;
  std::uint64_t first_row = 0;  ///< rows are numbered from here: give train and valid streams disjoint ranges
  std::uint64_t seed = 1;       ///< of the rows and of the teacher
  std::size_t features = 26;
  std::size_t dense = 13;
  std::uint64_t vocabulary = 100'000;             ///< keys per feature
  std::vector<std::uint64_t> vocabularies{};      ///< or one number for each feature
  double exponent = 1.05;       ///< of the zipf distribution of keys
  std::size_t max_bag = 1;      ///< ids of a feature per sample: 1 to max_bag, equally likely
  double missing = 0.05;        ///< share of empty bags
  double key_effect = 0.5;      ///< standard deviation of what the commonest keys add to the logit
  double dense_effect = 0.35;   ///< standard deviation of the weights of dense columns
  double bias = -1.0;
  row_options order{};          ///< filter and shuffle
};

/// Row i is a pure function of (seed, i): whoever makes it makes the same.
///
/// Keys of feature f are ranks 0 .. vocabulary-1, zipf-distributed. Dense values are 3 u^2, u uniform in [0, 1): skewed
/// like the logarithm of counts. The teacher is logistic: logit = bias + sum of key effects + sum of w_j (x_j - 1), the
/// label is 1 with probability p = 1 / (1 + exp(-logit)). A key's effect is uniform with mean 0; its size falls with the
/// rank's number of bits b as 2^(-b/4), so that what can be learnt is mostly in keys that occur often.
class synthetic {
 public:
  using block = row_block;

  explicit synthetic(synthetic_options options = {}) : options_{std::move(options)}, stream_{options_.rows, options_.order} {
    synthetic_options const& o = options_;
    require(o.vocabularies.empty() || o.vocabularies.size() == o.features, "synthetic data: one vocabulary per feature is needed",
            std::to_string(o.vocabularies.size()) + " given for " + std::to_string(o.features) + " features", "give as many as features, or one number");
    require(o.max_bag >= 1 && o.max_bag < 1000, "synthetic data: bags hold 1 to 999 ids");
    require(o.missing >= 0 && o.missing <= 1, "synthetic data: the share of missing values is from 0 to 1");
    require(o.features < (1U << 20) && o.dense < (1U << 20), "synthetic data: fewer than a million columns");
    schema_.dense = o.dense;
    for (std::size_t i = 0; i < o.dense; ++i) schema_.dense_names.push_back("int_" + std::to_string(i));
    counter_random const random{o.seed, stream_teacher, ~std::uint64_t{0}};
    for (std::size_t f = 0; f < o.features; ++f) {
      schema_.features.push_back("cat_" + std::to_string(f));
      keys_.emplace_back(o.vocabularies.empty() ? o.vocabulary : o.vocabularies[f], o.exponent);
    }
    // Uniform in [-1, 1) has standard deviation 1 / sqrt(3).
    constexpr double sqrt3 = 1.7320508075688772;
    for (std::size_t j = 0; j < o.dense; ++j) weights_.push_back(o.dense_effect * sqrt3 * (2 * random.uniform_double(j) - 1));
    for (std::size_t b = 0; b < size_of_.size(); ++b) size_of_[b] = o.key_effect * sqrt3 * std::exp2(-0.25 * static_cast<double>(b));
  }

  struct nestpipe::schema const& schema() const { return schema_; }
  std::size_t frame(block& b, std::size_t rows) { return stream_.frame(b, rows); }
  void rewind(std::uint64_t epoch) { stream_.rewind(epoch); }
  data_position position() const { return stream_.position(); }
  void seek(data_position to) { stream_.seek(to); }
  std::optional<std::uint64_t> size_hint() const { return stream_.size(); }
  synthetic_options const& options() const { return options_; }

  void parse(block const& b, std::size_t first, std::size_t last, sample_block& out) const {
    last = std::min(last, b.size());
    first = std::min(first, last);
    thread_local sample_builder builder;
    builder.begin(out, options_.features, options_.dense, 1, false, last - first);
    for (std::size_t i = first; i < last; ++i) {
      std::uint64_t const row = options_.first_row + b.rows[i];
      float* const dense = builder.dense();
      double const p = make(row, [&](std::size_t j, float x) { dense[j] = x; }, [&](std::size_t f, key_type key) { builder.id(static_cast<std::uint32_t>(f), key); });
      *builder.labels() = coin(row) < p ? 1.0f : 0.0f;
      builder.commit(b.rows[i]);
    }
    builder.finish();
  }

  /// What a key adds to the logit.
  double effect(std::size_t feature, key_type key) const {
    double const u = counter_random{options_.seed, stream_teacher, feature}.uniform_double(key);
    return size_of_[static_cast<std::size_t>(std::bit_width(key))] * (2 * u - 1);
  }

  /// AUC of the teacher's own probabilities, expected over its coin flips: over pairs of distinct rows,
  /// sum p_i (1 - p_j) [p_i > p_j] / sum p_i (1 - p_j), ties half. No scorer of these columns can expect more.
  /// By Monte Carlo over `samples` rows of the same distribution (standard error about 0.3 / sqrt(samples)).
  /// O(samples * (features + log samples)).
  double best_auc(std::size_t samples = 100'000) const {
    require(samples >= 2, "the best AUC needs at least two samples");
    std::vector<double> p(samples);
    for (std::size_t i = 0; i < samples; ++i) p[i] = probability((std::uint64_t{1} << 62) + i);
    std::sort(p.begin(), p.end());
    double below = 0;  // sum of (1 - p_j) over smaller p_j
    double good = 0;
    double sum_p = 0;
    double sum_pp = 0;
    for (std::size_t i = 0; i < samples;) {
      std::size_t j = i;
      double tie_p = 0;
      double tie_q = 0;
      double tie_self = 0;
      for (; j < samples && p[j] == p[i]; ++j) {
        tie_p += p[j];
        tie_q += 1 - p[j];
        tie_self += p[j] * (1 - p[j]);
        sum_pp += p[j] * (1 - p[j]);
      }
      good += tie_p * below + 0.5 * (tie_p * tie_q - tie_self);
      below += tie_q;
      sum_p += tie_p;
      i = j;
    }
    double const pairs = sum_p * (static_cast<double>(samples) - sum_p) - sum_pp;
    return pairs > 0 ? good / pairs : std::numeric_limits<double>::quiet_NaN();
  }

  /// The teacher's probability for row number `row` of the endless stream.
  double probability(std::uint64_t row) const {
    return make(row, [](std::size_t, float) {}, [](std::size_t, key_type) {});
  }

 private:
  static constexpr std::uint64_t stream_teacher = 1;
  static constexpr std::uint64_t stream_row = 2;
  static constexpr std::uint64_t stream_label = 3;

  double coin(std::uint64_t row) const { return counter_random{options_.seed, stream_label, row}.uniform_double(0); }

  template <class Dense, class Id>
  double make(std::uint64_t row, Dense&& on_dense, Id&& on_id) const {
    counter_random const random{options_.seed, stream_row, row};
    double logit = options_.bias;
    for (std::size_t j = 0; j < options_.dense; ++j) {
      float const u = random.uniform(j);
      float const x = 3.0f * u * u;
      on_dense(j, x);
      logit += weights_[j] * (static_cast<double>(x) - 1.0);
    }
    for (std::size_t f = 0; f < options_.features; ++f) {
      // Each feature has counters of its own: 2^32 for its bag, and 2^20 for each draw.
      std::uint64_t const base = (f + 1) << 32;
      if (random.uniform_double(base) < options_.missing) continue;
      std::uint64_t const bag = options_.max_bag == 1 ? 1 : 1 + random.below(base + 1, options_.max_bag);
      for (std::uint64_t d = 0; d < bag; ++d) {
        key_type const key = keys_[f](random, base + ((d + 1) << 20));
        on_id(f, key);
        logit += effect(f, key);
      }
    }
    return 1 / (1 + std::exp(-logit));
  }

  synthetic_options options_;
  row_stream stream_;
  struct nestpipe::schema schema_;
  std::vector<zipf> keys_;
  std::vector<double> weights_;
  std::array<double, 65> size_of_{};
};

}  // namespace nestpipe::data
