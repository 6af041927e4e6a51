#pragma once
/// @file
/// Executors for tests: one that calls a hook before every op (delays, faults), and the delays.

#include <nestpipe/core/random.hpp>
#include <nestpipe/exec/executor.hpp>

#include <atomic>
#include <chrono>
#include <functional>
#include <thread>

namespace nestpipe::test {

/// `Inner`, with `hook` called on the lane before each op; what the hook throws is a failure of that op.
template <class Inner>
class hooked {
 public:
  std::function<void(exec::op const&)> hook{};

  void start(exec::work w) {
    work_ = w;
    inner_.start(exec::work::of(*this));
  }
  exec::event issue(exec::op const& o, std::span<exec::event const> after) { return inner_.issue(o, after); }
  void wait(exec::event e) { inner_.wait(e); }
  void drain() { inner_.drain(); }
  void stop() noexcept { inner_.stop(); }
  decltype(auto) recorder() { return inner_.recorder(); }

  void execute(exec::op const& o) {
    if (hook) hook(o);
    work_.execute(o);
  }
  void failed(std::exception_ptr e) noexcept { work_.failed(std::move(e)); }

 private:
  exec::work work_;
  Inner inner_;  // last: its lanes end before the rest goes
};

/// A hook that lets about one op in `one_in` sleep for up to `most`.
inline std::function<void(exec::op const&)> random_delays(std::uint64_t seed, std::uint64_t one_in = 4, std::chrono::microseconds most = std::chrono::microseconds{200}) {
  auto const calls = std::make_shared<std::atomic<std::uint64_t>>(0);
  return [=](exec::op const& o) {
    std::uint64_t const x = mix64(seed, mix64(static_cast<std::uint64_t>(o.what), calls->fetch_add(1)));
    if (x % one_in != 0) return;
    std::this_thread::sleep_for(std::chrono::microseconds{(x >> 32) % static_cast<std::uint64_t>(most.count() + 1)});
  };
}

}  // namespace nestpipe::test
