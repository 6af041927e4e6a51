#pragma once
/// @file
/// A few threads that wait for the disk at once. They sleep when there is nothing to do.

#include <condition_variable>
#include <cstddef>
#include <exception>
#include <mutex>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace nestpipe::storage::detail {

/// run(n, f) calls f(0) ... f(n - 1), each once, on the threads of the pool and the caller's, and returns when all are done.
/// Not for arithmetic: threads are started so that a disk has several requests to work on, whatever the number of cores.
class wait_pool {
 public:
  wait_pool() = default;
  wait_pool(wait_pool const&) = delete;
  wait_pool& operator=(wait_pool const&) = delete;
  ~wait_pool() {
    {
      std::lock_guard const lock{mutex_};
      stop_ = true;
    }
    work_.notify_all();
    for (std::thread& t : threads_) t.join();
  }

  /// At most `threads` run at once, the caller among them. Threads start on first use and stay.
  /// @throws whatever an f threw first; the others have come to an end then
  template <class F>
  void run(std::size_t n, std::size_t threads, F&& f) {
    if (n <= 1 || threads <= 1) {
      for (std::size_t i = 0; i < n; ++i) f(i);
      return;
    }
    std::unique_lock lock{mutex_};
    while (threads_.size() + 1 < threads) threads_.emplace_back([this] { serve(); });
    call_ = [](void* context, std::size_t i) { (*static_cast<std::remove_reference_t<F>*>(context))(i); };
    context_ = &f;
    next_ = 0;
    end_ = n;
    running_ = 0;
    failure_ = nullptr;
    work_.notify_all();
    take(lock);
    idle_.wait(lock, [&] { return running_ == 0; });
    end_ = 0;
    if (failure_) std::rethrow_exception(std::exchange(failure_, nullptr));
  }

 private:
  void serve() {
    std::unique_lock lock{mutex_};
    for (;;) {
      work_.wait(lock, [&] { return stop_ || next_ < end_; });
      if (stop_) return;
      take(lock);
      if (running_ == 0) idle_.notify_one();
    }
  }
  void take(std::unique_lock<std::mutex>& lock) {
    while (next_ < end_) {
      std::size_t const i = next_++;
      ++running_;
      lock.unlock();
      std::exception_ptr failed;
      try {
        call_(context_, i);
      } catch (...) {
        failed = std::current_exception();
      }
      lock.lock();
      --running_;
      if (failed) {
        if (!failure_) failure_ = failed;
        next_ = end_;
      }
    }
  }

  std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable idle_;
  std::vector<std::thread> threads_;
  void (*call_)(void*, std::size_t) = nullptr;
  void* context_ = nullptr;
  std::size_t next_ = 0;
  std::size_t end_ = 0;
  std::size_t running_ = 0;
  std::exception_ptr failure_;
  bool stop_ = false;
};

}  // namespace nestpipe::storage::detail
