#pragma once
/// @file
/// The first failure of a world, known to all who share it.

#include <atomic>
#include <cstddef>
#include <mutex>
#include <string>
#include <string_view>

namespace nestpipe::comm::detail {

/// The first failure of the world: who and why. Once set it stays.
class first_failure {
 public:
  bool set() const noexcept { return set_.load(std::memory_order_acquire); }

  /// False if another failure was first.
  bool record(std::size_t rank, std::string_view reason) noexcept {
    std::scoped_lock lock{mutex_};
    if (set_.load(std::memory_order_relaxed)) return false;
    rank_ = rank;
    try {
      reason_ = reason;
    } catch (...) {  // no memory for the reason: the rank alone must do
    }
    set_.store(true, std::memory_order_release);
    return true;
  }
  std::size_t rank() const noexcept { return rank_; }             // once set
  std::string const& reason() const noexcept { return reason_; }  // once set

 private:
  std::mutex mutex_;
  std::atomic<bool> set_{false};
  std::size_t rank_ = 0;
  std::string reason_;
};

}  // namespace nestpipe::comm::detail
