#pragma once
/// @file
/// What `route` knows of coming batches, on its way to the stores.

#include <nestpipe/engine/batch.hpp>

#include <atomic>
#include <vector>

namespace nestpipe::engine {

/// A bounded mailbox from the route lane to the lookup lane. It carries pointers: the keys of a routed batch stay as they are
/// until that batch is written back, which the lookup lane itself does, later than it looks here. When full, it loses: what it
/// carries are hints.
class look_ahead {
 public:
  void open(std::size_t batches) { ring_.assign(batches, nullptr); }

  /// On the route lane, when the batch is routed.
  void post(batch_slot const& slot) {
    std::uint64_t const at = posted_.load(std::memory_order_relaxed);
    if (at - taken_.load(std::memory_order_acquire) == ring_.size()) return;
    ring_[at % ring_.size()] = &slot;
    posted_.store(at + 1, std::memory_order_release);
  }
  /// On the lookup lane: f(slot) for every batch posted since, in order. Allocates nothing.
  template <class F>
  void take(F f) {
    std::uint64_t const end = posted_.load(std::memory_order_acquire);
    for (std::uint64_t at = taken_.load(std::memory_order_relaxed); at != end; ++at) {
      f(*ring_[at % ring_.size()]);
      taken_.store(at + 1, std::memory_order_release);
    }
  }

 private:
  std::vector<batch_slot const*> ring_;
  std::atomic<std::uint64_t> posted_{0}, taken_{0};
};

}  // namespace nestpipe::engine
