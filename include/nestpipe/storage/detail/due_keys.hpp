#pragma once
/// @file
/// The keys of batches announced and not yet read.

#include <nestpipe/core/config.hpp>

#include <span>
#include <utility>
#include <vector>

namespace nestpipe::storage::detail {

/// A ring of key lists, in batch order. Allocates only while lists or their number still grow.
class due_keys {
 public:
  void expect(std::uint64_t batch, std::span<key_type const> keys) {
    if (count_ == ring_.size()) {
      std::vector<announced> larger(ring_.empty() ? 4 : 2 * ring_.size());
      for (std::size_t i = 0; i < count_; ++i) larger[i] = std::move(ring_[(first_ + i) % ring_.size()]);
      ring_ = std::move(larger);
      first_ = 0;
    }
    announced& a = ring_[(first_ + count_++) % ring_.size()];
    a.batch = batch;
    a.keys.assign(keys.begin(), keys.end());
  }
  /// This batch is read now: it and those before it are not due any more.
  void reached(std::uint64_t batch) {
    now_ = batch;
    for (; count_ != 0 && ring_[first_].batch <= batch; --count_) first_ = (first_ + 1) % ring_.size();
  }
  /// f(batches from now, keys), the farthest first.
  template <class F>
  void far_to_near(F f) const {
    for (std::size_t i = count_; i-- > 0;) {
      announced const& a = ring_[(first_ + i) % ring_.size()];
      f(static_cast<std::uint32_t>(a.batch - now_), std::span<key_type const>{a.keys});
    }
  }
  bool empty() const { return count_ == 0; }
  std::uint64_t bytes() const {
    std::uint64_t n = 0;
    for (announced const& a : ring_) n += a.keys.capacity() * sizeof(key_type);
    return n;
  }

 private:
  struct announced {
    std::uint64_t batch = 0;
    std::vector<key_type> keys;
  };
  std::vector<announced> ring_;
  std::size_t first_ = 0, count_ = 0;
  std::uint64_t now_ = 0;
};

}  // namespace nestpipe::storage::detail
