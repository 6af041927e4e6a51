#pragma once
/// @file
/// A few permanent threads that help whoever calls: one job's parts run at the same time, which part runs where is left open.

#include <nestpipe/core/config.hpp>

#include <algorithm>
#include <condition_variable>
#include <exception>
#include <memory>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace nestpipe::exec {

/// Parts must be independent of each other; what a part computes must depend on its number alone, never on the thread. Several
/// threads (the lanes of an engine) may call at once: each works on its own job, helpers on the oldest that has parts left, so
/// a caller never waits for somebody else's job. Threads block, never spin; a run allocates nothing.
class worker_pool {
 public:
  /// @param threads  that work on a job at most, the caller included; 1: no helpers
  explicit worker_pool(std::size_t threads = 1) {
    helpers_.reserve(threads == 0 ? 0 : threads - 1);
    try {
      while (helpers_.size() + 1 < threads) helpers_.emplace_back([this] { help(); });
    } catch (...) {  // the system refused a thread
      stop();
      throw;
    }
  }
  worker_pool(worker_pool const&) = delete;
  worker_pool& operator=(worker_pool const&) = delete;
  ~worker_pool() { stop(); }

  std::size_t threads() const { return helpers_.size() + 1; }

  /// Calls f(part) for every part in [0, parts), the caller working too, and returns when all are done. After an exception the
  /// parts not begun are left out, and the first exception is rethrown.
  template <class F>
  void run(std::size_t parts, F&& f) {
    if (parts < 2 || helpers_.empty()) {
      for (std::size_t p = 0; p < parts; ++p) f(p);
      return;
    }
    using callable = std::remove_reference_t<F>;
    job mine;
    mine.self = const_cast<void*>(static_cast<void const*>(std::addressof(f)));
    mine.call = [](void* self, std::size_t part) { (*static_cast<callable*>(self))(part); };
    mine.parts = parts;
    work_through(mine);
  }

  /// Calls f(first, last) for ranges that together are [0, n): as many equal ones as there are threads, but none shorter than
  /// `grain` if n is not.
  template <class F>
  void ranges(std::size_t n, std::size_t grain, F&& f) {
    std::size_t const parts = std::max<std::size_t>(1, std::min(threads(), n / std::max<std::size_t>(1, grain)));
    run(parts, [&](std::size_t p) { f(n * p / parts, n * (p + 1) / parts); });
  }

 private:
  struct job {
    void* self = nullptr;
    void (*call)(void*, std::size_t) = nullptr;
    std::size_t parts = 0, taken = 0, ended = 0;
    std::exception_ptr failure;
    std::condition_variable done;
    job* behind = nullptr;
  };

  void work_through(job& mine) {
    std::unique_lock lock{mutex_};
    job** last = &oldest_;
    while (*last != nullptr) last = &(*last)->behind;
    *last = &mine;
    for (std::size_t h = 0; h + 1 < mine.parts && h < helpers_.size(); ++h) wake_.notify_one();
    while (mine.taken < mine.parts) take(lock, mine);
    mine.done.wait(lock, [&] { return mine.ended == mine.taken; });
    if (mine.failure) std::rethrow_exception(mine.failure);
  }

  void help() {
    std::unique_lock lock{mutex_};
    for (;;) {
      wake_.wait(lock, [&] { return stopping_ || oldest_ != nullptr; });
      if (stopping_) return;
      job& theirs = *oldest_;
      take(lock, theirs);
      // Under the lock: the owner cannot leave, and take the job with it, before the lock is free again.
      if (theirs.taken == theirs.parts && theirs.ended == theirs.taken) theirs.done.notify_one();
    }
  }

  // The next part of `j`, with the lock released meanwhile. A job whose last part is taken leaves the list.
  void take(std::unique_lock<std::mutex>& lock, job& j) {
    std::size_t const part = j.taken++;
    if (j.taken == j.parts) forget(j);
    lock.unlock();
    std::exception_ptr failure;
    try {
      j.call(j.self, part);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    ++j.ended;
    if (!failure) return;
    if (!j.failure) j.failure = std::move(failure);
    if (j.taken < j.parts) {
      j.parts = j.taken;
      forget(j);
    }
  }

  void forget(job& j) {
    job** at = &oldest_;
    while (*at != &j) at = &(*at)->behind;
    *at = j.behind;
  }

  void stop() noexcept {
    {
      std::scoped_lock lock{mutex_};
      stopping_ = true;
    }
    wake_.notify_all();
    for (auto& h : helpers_) h.join();
    helpers_.clear();
  }

  std::mutex mutex_;  // guards everything below, held for a few instructions
  std::condition_variable wake_;
  job* oldest_ = nullptr;
  bool stopping_ = false;
  std::vector<std::thread> helpers_;
};

}  // namespace nestpipe::exec
