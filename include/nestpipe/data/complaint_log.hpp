#pragma once
/// @file
/// The first few malformed lines, as text, from any number of threads.

#include <algorithm>
#include <atomic>
#include <cstdint>
#include <limits>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace nestpipe::data {

/// Keeps the complaints of the lowest row numbers, each row once: what it holds does not depend on which thread parsed
/// which line, or on how many epochs were read.
class complaint_log {
 public:
  static constexpr std::size_t limit = 5;

  /// Whether a complaint about this row would be kept: ask before making its text.
  bool wants(std::uint64_t row) const { return row < bound_.load(std::memory_order_relaxed); }

  void add(std::uint64_t row, std::string text) {
    std::lock_guard const lock{mutex_};
    auto const at = std::lower_bound(kept_.begin(), kept_.end(), row, [](auto const& kept, std::uint64_t r) { return kept.first < r; });
    if (at != kept_.end() && at->first == row) return;
    kept_.emplace(at, row, std::move(text));
    if (kept_.size() > limit) kept_.pop_back();
    if (kept_.size() == limit) bound_.store(kept_.back().first, std::memory_order_relaxed);
  }

  std::vector<std::string> list() const {
    std::lock_guard const lock{mutex_};
    std::vector<std::string> out;
    for (auto const& [row, text] : kept_) out.push_back(text);
    return out;
  }

 private:
  mutable std::mutex mutex_;
  std::vector<std::pair<std::uint64_t, std::string>> kept_;
  std::atomic<std::uint64_t> bound_{std::numeric_limits<std::uint64_t>::max()};
};

}  // namespace nestpipe::data
