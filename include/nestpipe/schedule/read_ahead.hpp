#pragma once
/// @file
/// Reading and staging beyond the batch in training, within the slots there are.

#include <nestpipe/schedule/schedule.hpp>

#include <array>

namespace nestpipe::schedule {

/// Issues read and stage of coming batches, each behind the last uses of its slot.
template <class Pipeline>
class read_ahead {
 public:
  /// @param ahead  batches beyond the one asked for, at least 1
  /// @param held   batches before the one asked for that may not be done yet, plus one
  read_ahead(Pipeline& p, std::uint64_t ahead, std::uint64_t held)
      : p_{p}, first_{p.first_batch()}, next_{first_}, ahead_{ahead + held < p.slots() ? ahead : p.slots() - held} {}

  /// All batches up to the look-ahead beyond t.
  void up_to(std::uint64_t t) {
    for (; next_ <= t + ahead_; ++next_) {
      uses const free = next_ >= first_ + p_.slots() ? done_[(next_ - p_.slots()) % done_.size()] : uses{};
      exec::event const e = p_.issue({exec::stage::read, next_}, free[0], free[1]);
      staged_[next_ % staged_.size()] = p_.issue({exec::stage::stage, next_}, e);
    }
  }
  exec::event staged(std::uint64_t t) const { return staged_[t % staged_.size()]; }
  /// The ops after which nothing needs batch t's slot.
  void done(std::uint64_t t, exec::event a, exec::event b = {}) { done_[t % done_.size()] = {a, b}; }

 private:
  using uses = std::array<exec::event, 2>;

  Pipeline& p_;
  std::uint64_t first_;
  std::uint64_t next_;
  std::uint64_t ahead_;
  std::array<exec::event, 64> staged_{};
  std::array<uses, 64> done_{};
};

}  // namespace nestpipe::schedule
