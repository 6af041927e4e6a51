#pragma once
/// @file
/// Everything on the caller's thread, in issue order: for debugging and as the reference in tests.

#include <nestpipe/exec/executor.hpp>
#include <nestpipe/trace/recorder.hpp>

#include <chrono>

namespace nestpipe::exec {

class inline_lanes {
 public:
  void start(work w) {
    work_ = w;
    issued_ = {};
    failure_ = nullptr;
    last_ = {};
    recorder_.restart();
  }

  event issue(op const& o, std::span<event const>) {
    if (failure_) std::rethrow_exception(failure_);
    double const begin = now();
    try {
      work_.execute(o);
    } catch (...) {
      failure_ = std::current_exception();
      work_.failed(failure_);
      throw;
    }
    lane const where = lane_of(o.what);
    event const self{where, ++issued_[static_cast<std::size_t>(where)]};
    // One thread: what ran before is what everything waits for.
    recorder_.add({o, self, begin, now(), {last_}, last_.ticket != 0 ? std::size_t{1} : std::size_t{0}});
    last_ = self;
    return self;
  }

  /// What was done; all on one thread, so everything but compute is exposed.
  trace::recorder& recorder() { return recorder_; }
  /// Seconds on the clock of the recorded intervals.
  double now() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - origin_).count(); }

  void wait(event) {
    if (failure_) std::rethrow_exception(failure_);
  }
  void drain() { wait({}); }
  void stop() noexcept {}

 private:
  work work_;
  std::array<std::uint64_t, lane_count> issued_{};
  std::exception_ptr failure_;
  event last_;
  trace::recorder recorder_;
  std::chrono::steady_clock::time_point const origin_ = std::chrono::steady_clock::now();
};

}  // namespace nestpipe::exec
