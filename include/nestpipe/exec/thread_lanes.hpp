#pragma once
/// @file
/// One host thread per lane. Lanes block on condition variables, never spin; queues are bounded.

#include <nestpipe/exec/executor.hpp>
#include <nestpipe/trace/recorder.hpp>

#include <chrono>
#include <condition_variable>
#include <mutex>
#include <thread>
#include <vector>

namespace nestpipe::exec {

class thread_lanes {
 public:
  thread_lanes() : thread_lanes{256} {}
  /// @param capacity  ops that may wait in one lane before issue blocks
  explicit thread_lanes(std::size_t capacity) {
    for (auto& l : lanes_) l.ring.resize(capacity);
  }
  thread_lanes(thread_lanes const&) = delete;
  thread_lanes& operator=(thread_lanes const&) = delete;
  ~thread_lanes() { stop(); }

  void start(work w) {
    stop();
    work_ = w;
    failed_ = false;
    told_ = false;
    stopping_ = false;
    failure_ = nullptr;
    recorder_.restart();
    for (auto& l : lanes_) {
      l.issued = l.taken = l.completed = 0;
      l.thread = std::thread{[this, &l] { run(l); }};
    }
  }

  event issue(op const& o, std::span<event const> after) {
    lane const where = lane_of(o.what);
    state& l = at(where);
    std::unique_lock lock{mutex_};
    l.changed.wait(lock, [&] { return told_ || l.issued - l.completed < l.ring.size(); });
    if (told_) std::rethrow_exception(failure_);
    item& next = l.ring[l.issued % l.ring.size()];
    next.what = o;
    next.count = 0;
    for (event const e : after) {
      // Lanes are in order: an earlier op of the same lane is done before this one starts.
      if (e.ticket == 0 || e.where == where) continue;
      if (next.count == max_dependencies) throw error{"an op waits for too many events", std::string{name(o.what)}};
      next.after[next.count++] = e;
    }
    ++l.issued;
    l.changed.notify_all();
    return {where, l.issued};
  }

  void wait(event e) {
    std::unique_lock lock{mutex_};
    at(e.where).changed.wait(lock, [&] { return told_ || at(e.where).completed >= e.ticket; });
    if (told_) std::rethrow_exception(failure_);
  }

  void drain() {
    for (auto& l : lanes_) {
      std::unique_lock lock{mutex_};
      l.changed.wait(lock, [&] { return told_ || l.completed == l.issued; });
      if (told_) std::rethrow_exception(failure_);
    }
  }

  /// What the lanes did; for one caller while they are idle.
  trace::recorder& recorder() { return recorder_; }
  /// Seconds on the clock of the recorded intervals.
  double now() const { return std::chrono::duration<double>(std::chrono::steady_clock::now() - origin_).count(); }

  void stop() noexcept {
    {
      std::unique_lock lock{mutex_};
      stopping_ = true;
      wake_all();
    }
    for (auto& l : lanes_) {
      if (l.thread.joinable()) l.thread.join();
    }
  }

 private:
  struct item {
    op what;
    std::array<event, max_dependencies> after{};
    std::size_t count = 0;
  };
  struct state {
    std::vector<item> ring;
    std::uint64_t issued = 0, taken = 0, completed = 0;
    std::condition_variable changed;  // of issued, completed or the common flags
    std::thread thread;
  };

  state& at(lane l) { return lanes_[static_cast<std::size_t>(l)]; }

  void wake_all() {
    for (auto& l : lanes_) l.changed.notify_all();
  }

  void run(state& l) {
    std::unique_lock lock{mutex_};
    for (;;) {
      l.changed.wait(lock, [&] { return stopping_ || failed_ || l.taken < l.issued; });
      if (stopping_ || failed_) return;
      item const next = l.ring[l.taken++ % l.ring.size()];
      for (std::size_t i = 0; i < next.count; ++i) {
        event const e = next.after[i];
        at(e.where).changed.wait(lock, [&] { return stopping_ || failed_ || at(e.where).completed >= e.ticket; });
        if (stopping_ || failed_) return;
      }
      double const begin = now();
      lock.unlock();
      try {
        work_.execute(next.what);
      } catch (...) {
        std::exception_ptr const cause = std::current_exception();
        lock.lock();
        bool const first = !failed_;
        if (!first) return;
        failed_ = true;
        failure_ = cause;
        wake_all();
        lock.unlock();
        work_.failed(cause);  // outside the lock: it wakes other ranks
        lock.lock();
        told_ = true;  // only now may callers leave: what they do about it must not overtake the cause
        wake_all();
        return;
      }
      lock.lock();
      ++l.completed;
      recorder_.add({next.what, {lane_of(next.what.what), l.completed}, begin, now(), next.after, next.count});
      l.changed.notify_all();
    }
  }

  work work_;
  std::mutex mutex_;  // guards everything below; held for a few instructions at a time
  bool failed_ = false;    // no lane starts anything any more
  bool told_ = false;      // and the handler has heard why
  bool stopping_ = true;
  std::exception_ptr failure_;
  std::array<state, lane_count> lanes_;
  trace::recorder recorder_;
  std::chrono::steady_clock::time_point const origin_ = std::chrono::steady_clock::now();
};

}  // namespace nestpipe::exec
