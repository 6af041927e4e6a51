#pragma once
/// @file
/// Routing beyond the batch in training, so that stores learn early which rows are due.

#include <nestpipe/schedule/read_ahead.hpp>

namespace nestpipe::schedule {

/// Issues route of coming batches, each behind the agreement on the one before it, never past a boundary.
template <class Pipeline>
class route_ahead {
 public:
  /// Routes batch `first`, which is p.first_batch() as it was before.
  route_ahead(Pipeline& p, read_ahead<Pipeline>& reader, std::uint64_t first) : p_{p}, reader_{reader}, last_{first} { issue(); }

  /// Up to batch b, unless a boundary comes first. Waits for the agreements on all before it.
  void up_to(std::uint64_t b) {
    while (!closed_ && last_ < b) {
      closed_ = p_.agreed(last_).boundary;
      if (closed_) return;
      ++last_;
      issue();
    }
  }
  exec::event routed(std::uint64_t t) const { return routed_[t % routed_.size()]; }

 private:
  void issue() {
    reader_.up_to(last_);
    routed_[last_ % routed_.size()] = p_.issue({exec::stage::route, last_}, reader_.staged(last_));
  }

  Pipeline& p_;
  read_ahead<Pipeline>& reader_;
  std::uint64_t last_;
  bool closed_ = false;
  std::array<exec::event, 64> routed_{};
};

}  // namespace nestpipe::schedule
