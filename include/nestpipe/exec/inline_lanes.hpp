#pragma once
/// @file
/// Everything on the caller's thread, in issue order: for debugging and as the reference in tests.

#include <nestpipe/exec/executor.hpp>

namespace nestpipe::exec {

class inline_lanes {
 public:
  void start(work w) {
    work_ = w;
    issued_ = {};
    failure_ = nullptr;
  }

  event issue(op const& o, std::span<event const>) {
    if (failure_) std::rethrow_exception(failure_);
    try {
      work_.execute(o);
    } catch (...) {
      failure_ = std::current_exception();
      work_.failed(failure_);
      throw;
    }
    lane const where = lane_of(o.what);
    return {where, ++issued_[static_cast<std::size_t>(where)]};
  }

  void wait(event) {
    if (failure_) std::rethrow_exception(failure_);
  }
  void drain() { wait({}); }
  void stop() noexcept {}

 private:
  work work_;
  std::array<std::uint64_t, lane_count> issued_{};
  std::exception_ptr failure_;
};

}  // namespace nestpipe::exec
