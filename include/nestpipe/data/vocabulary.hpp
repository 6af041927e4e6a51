#pragma once
/// @file
/// Which ids are frequent enough to have a row of their own.

#include <nestpipe/data/data.hpp>
#include <nestpipe/data/passes.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace nestpipe::data {

/// Counts of keys: open addressing, 12 bytes a slot, at most 2/3 full. Every key is legal: an empty slot has count 0.
class key_counts {
 public:
  void add(key_type key) {
    if ((used_ + 1) * 3 > keys_.size() * 2) grow();
    std::size_t const s = slot(key);
    if (counts_[s] == 0) {
      keys_[s] = key;
      ++used_;
    }
    if (counts_[s] != 0xffffffffU) ++counts_[s];
  }
  std::uint32_t count(key_type key) const { return keys_.empty() ? 0 : counts_[slot(key)]; }
  std::size_t size() const { return used_; }

  template <class F>
  void for_each(F&& f) const {
    for (std::size_t s = 0; s < keys_.size(); ++s) {
      if (counts_[s] != 0) f(keys_[s], counts_[s]);
    }
  }

 private:
  std::size_t slot(key_type key) const {
    std::size_t const mask = keys_.size() - 1;
    std::size_t s = mix64(key) & mask;
    while (counts_[s] != 0 && keys_[s] != key) s = (s + 1) & mask;
    return s;
  }
  void grow() {
    std::vector<key_type> keys(keys_.empty() ? 64 : keys_.size() * 2);
    std::vector<std::uint32_t> counts(keys.size(), 0);
    keys.swap(keys_);
    counts.swap(counts_);
    for (std::size_t i = 0; i < keys.size(); ++i) {
      if (counts[i] == 0) continue;
      std::size_t const s = slot(keys[i]);
      keys_[s] = keys[i];
      counts_[s] = counts[i];
    }
  }
  std::vector<key_type> keys_;
  std::vector<std::uint32_t> counts_;
  std::size_t used_ = 0;
};

/// The ids that occur at least `min_count` times in train, feature by feature. All others, in train or later, share one
/// key per feature.
class vocabulary {
 public:
  vocabulary() = default;

  /// One pass over `train`; memory: up to 36 bytes per distinct id. @throws config_error when min_count is 0.
  template <class D>
  static vocabulary fit(D train, std::uint32_t min_count) {
    require(min_count >= 1, "the least count of an id must be at least 1");
    vocabulary v;
    v.min_count_ = min_count;
    std::vector<key_counts> counts(train.schema().features.size());
    for_each_block(std::move(train), "counting ids", [&](sample_block const& s) {
      for (std::size_t f = 0; f < s.ids.features; ++f) {
        for (std::size_t k = s.ids.offsets[f * s.samples]; k < s.ids.offsets[(f + 1) * s.samples]; ++k) counts[f].add(s.ids.values[k]);
      }
    });
    for (key_counts& c : counts) {
      key_counts kept;
      c.for_each([&](key_type key, std::uint32_t n) {
        if (n >= min_count) kept.add(key);
      });
      v.seen_.push_back(c.size());
      v.kept_.push_back(std::move(kept));
      c = {};
    }
    return v;
  }

  std::uint32_t min_count() const { return min_count_; }
  std::size_t features() const { return kept_.size(); }
  /// Ids of feature f with a row of their own, and all ids of it that train had.
  std::size_t kept(std::size_t f) const { return kept_[f].size(); }
  std::size_t seen(std::size_t f) const { return seen_[f]; }

  /// The key that all other ids of feature f share.
  static key_type rare_key(std::size_t f) { return mix64(0x72617265206b6579ULL, f); }
  key_type operator()(std::size_t f, key_type key) const { return kept_[f].count(key) != 0 ? key : rare_key(f); }

  /// Kept ids of feature f, in no particular order: for saving.
  std::vector<key_type> keys(std::size_t f) const {
    std::vector<key_type> out;
    kept_[f].for_each([&](key_type key, std::uint32_t) { out.push_back(key); });
    return out;
  }
  /// From saved keys. @param keys  of each feature
  static vocabulary from_keys(std::uint32_t min_count, std::vector<std::vector<key_type>> const& keys) {
    vocabulary v;
    v.min_count_ = min_count;
    for (auto const& list : keys) {
      v.kept_.emplace_back();
      for (key_type const key : list) v.kept_.back().add(key);
      v.seen_.push_back(v.kept_.back().size());
    }
    return v;
  }

 private:
  std::uint32_t min_count_ = 1;
  std::vector<key_counts> kept_;
  std::vector<std::size_t> seen_;
};

/// A dataset whose rare and unseen ids are replaced. Copies share the vocabulary.
template <class D>
class with_vocabulary {
 public:
  using block = typename D::block;

  /// @throws config_error when the vocabulary is of another number of features.
  with_vocabulary(D inner, std::shared_ptr<vocabulary const> words) : inner_{std::move(inner)}, words_{std::move(words)} {
    require(words_ != nullptr && words_->features() == inner_.schema().features.size(), "the vocabulary is of another number of features", {}, "fit it on data of the same schema");
  }
  with_vocabulary(D inner, vocabulary words) : with_vocabulary{std::move(inner), std::make_shared<vocabulary const>(std::move(words))} {}

  decltype(auto) schema() const { return inner_.schema(); }
  std::size_t frame(block& b, std::size_t rows) { return inner_.frame(b, rows); }
  void rewind(std::uint64_t epoch) { inner_.rewind(epoch); }
  data_position position() const { return inner_.position(); }
  void seek(data_position to) { inner_.seek(to); }
  std::optional<std::uint64_t> size_hint() const { return inner_.size_hint(); }
  bool single_pass() const {
    if constexpr (requires { inner_.single_pass(); }) return inner_.single_pass();
    return false;
  }
  std::vector<std::string> complaints() const {
    if constexpr (requires { inner_.complaints(); }) return inner_.complaints();
    return {};
  }
  void keep_missing(bool keep)
    requires requires(D& d) { d.keep_missing(true); }
  {
    inner_.keep_missing(keep);
  }

  void parse(block const& b, std::size_t first, std::size_t last, sample_block& out) const {
    inner_.parse(b, first, last, out);
    for (std::size_t f = 0; f < out.ids.features; ++f) {
      for (std::size_t k = out.ids.offsets[f * out.samples]; k < out.ids.offsets[(f + 1) * out.samples]; ++k) out.ids.values[k] = (*words_)(f, out.ids.values[k]);
    }
  }

 private:
  D inner_;
  std::shared_ptr<vocabulary const> words_;
};

}  // namespace nestpipe::data
