#pragma once
/// @file
/// Emulated work: an executor whose ops take at least as long as a table says.

#include <nestpipe/exec/executor.hpp>
#include <nestpipe/exec/thread_lanes.hpp>

#include <array>
#include <chrono>
#include <thread>
#ifdef __linux__
#include <sys/prctl.h>
#endif

namespace bench {

namespace exec = nestpipe::exec;

/// Seconds an op of each stage takes; 0: as long as its real work.
struct pace {
  std::array<double, exec::stage_count> seconds{};
  double late_update = 0;  ///< share of update_rows that its late portion takes
  double& operator[](exec::stage s) { return seconds[static_cast<std::size_t>(s)]; }
  double of(exec::op const& o) const {
    double const all = seconds[static_cast<std::size_t>(o.what)];
    if (o.what != exec::stage::update_rows || o.rows == exec::portion::all) return all;
    return all * (o.rows == exec::portion::late ? late_update : 1 - late_update);
  }
};

/// Threads of the caller sleep to a microsecond instead of the kernel's usual fifty.
inline void sharp_sleep() {
#ifdef __linux__
  thread_local bool const done = prctl(PR_SET_TIMERSLACK, 1UL, 0UL, 0UL, 0UL) == 0;
  (void)done;
#endif
}

/// `Inner`, with each op's real work done first and the rest of its time slept.
template <class Inner = exec::thread_lanes>
class paced {
 public:
  pace times{};

  void start(exec::work w) {
    work_ = w;
    inner_.start(exec::work::of(*this));
  }
  exec::event issue(exec::op const& o, std::span<exec::event const> after) { return inner_.issue(o, after); }
  void wait(exec::event e) { inner_.wait(e); }
  void drain() { inner_.drain(); }
  void stop() noexcept { inner_.stop(); }
  auto& recorder() { return inner_.recorder(); }
  double now() const { return inner_.now(); }

  void execute(exec::op const& o) {
    sharp_sleep();
    auto const begin = std::chrono::steady_clock::now();
    work_.execute(o);
    double const least = times.of(o);
    if (least > 0) std::this_thread::sleep_until(begin + std::chrono::duration_cast<std::chrono::steady_clock::duration>(std::chrono::duration<double>(least)));
  }
  void failed(std::exception_ptr e) noexcept { work_.failed(std::move(e)); }

 private:
  exec::work work_;
  Inner inner_;  // last: its lanes end before the rest goes
};

}  // namespace bench
