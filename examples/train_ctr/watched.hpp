#pragma once
/// @file
/// An executor that can be asked from outside what it is doing: for the progress line, a signal, and the line of a failure.

#include <nestpipe/exec/executor.hpp>
#include <nestpipe/trace/recorder.hpp>

#include <array>
#include <chrono>
#include <mutex>
#include <optional>

namespace train_ctr {

namespace exec = nestpipe::exec;

/// Any executor, watched. Costs two short locks an op.
template <class Inner>
class watched {
 public:
  Inner& inner() { return inner_; }

  void start(exec::work w) {
    outer_ = w;
    inner_.start(exec::work::of(handler_));
  }
  exec::event issue(exec::op const& o, std::span<exec::event const> after) { return inner_.issue(o, after); }
  void wait(exec::event at) { inner_.wait(at); }
  void drain() { inner_.drain(); }
  void stop() noexcept { inner_.stop(); }
  double now() const { return inner_.now(); }
  nestpipe::trace::recorder& recorder() { return inner_.recorder(); }

  /// Share of the steps' time, since the last call, in which compute stood still. Any thread may ask.
  double idle_share() {
    std::lock_guard lock{mutex_};
    double const share = wall_ > 0 ? (wall_ - compute_) / wall_ : 0;
    wall_ = compute_ = 0;
    return share;
  }
  /// The op that failed first, or else the oldest that runs now. Any thread may ask.
  std::optional<exec::op> place() const {
    std::lock_guard lock{mutex_};
    if (failed_) return failed_;
    std::optional<exec::op> oldest;
    for (auto const& r : running_) {
      if (r && (!oldest || r->batch < oldest->batch)) oldest = r;
    }
    return oldest;
  }
  bool failed() const {
    std::lock_guard lock{mutex_};
    return failed_.has_value();
  }

 private:
  using clock = std::chrono::steady_clock;

  struct handler {
    watched& self;
    void execute(exec::op const& o) {
      self.change(o, true);
      try {
        self.outer_.execute(o);
      } catch (...) {
        std::lock_guard lock{self.mutex_};
        if (!self.failed_) self.failed_ = o;
        throw;
      }
      self.change(o, false);
    }
    void failed(std::exception_ptr cause) noexcept { self.outer_.failed(std::move(cause)); }
  };

  /// The time since the last change belongs to what ran then.
  void change(exec::op const& o, bool begins) {
    std::lock_guard lock{mutex_};
    clock::time_point const now = clock::now();
    double const passed = std::chrono::duration<double>(now - last_).count();
    bool active = false;
    for (auto const& r : running_) active = active || r.has_value();
    if (active) {
      wall_ += passed;
      if (running_[static_cast<std::size_t>(exec::lane::compute)]) compute_ += passed;
    }
    last_ = now;
    auto& mine = running_[static_cast<std::size_t>(exec::lane_of(o.what))];
    if (begins) mine = o;
    else mine.reset();
  }

  handler handler_{*this};
  exec::work outer_;
  Inner inner_;
  mutable std::mutex mutex_;
  clock::time_point last_{};
  std::array<std::optional<exec::op>, exec::lane_count> running_{};
  std::optional<exec::op> failed_;
  double wall_ = 0, compute_ = 0;
};

}  // namespace train_ctr
