#pragma once
/// @file
/// What an executor is: it decides what a lane is. Schedules issue ops, the executor runs them through a handler.
///
/// | requirement on E | meaning |
/// |---|---|
/// | `e.start(work)` | binds the handler (`exec::work`) that runs an op and hears of the first failure |
/// | `e.issue(op, after)` | queues the op on lane_of(op.what) behind all that is there and behind the events `after` (issued before; at most max_dependencies); returns its event |
/// | `e.wait(event)` | blocks the caller until complete; rethrows the first failure |
/// | `e.drain()` | waits for everything issued; rethrows the first failure |
/// | `e.recorder()` | optional: the trace::recorder that hears of every op |
/// | `e.now()` | optional: seconds on the recorder's clock, for lining up the ranks' intervals |
/// | `typename E::space` | optional: exec::cuda when the engine's data lives on the device; else host |
/// | `e.stop()` | noexcept: cancels what has not started, waits for what runs; no handler call happens after it |
///
/// After a failure nothing that has not started runs any more: its events count as cancelled, and wait, issue and drain
/// rethrow the first cause.

#include <nestpipe/core/error.hpp>
#include <nestpipe/exec/space.hpp>
#include <nestpipe/exec/stage.hpp>

#include <concepts>
#include <exception>
#include <span>

namespace nestpipe::exec {

/// The handler of ops, without ownership and without allocation.
class work {
 public:
  work() = default;

  /// @param handler  has `execute(op const&)` and `failed(std::exception_ptr) noexcept`; must outlive the executor's use
  template <class Handler>
  static work of(Handler& handler) {
    work w;
    w.self_ = &handler;
    w.execute_ = [](void* self, op const& o) { static_cast<Handler*>(self)->execute(o); };
    w.failed_ = [](void* self, std::exception_ptr e) { static_cast<Handler*>(self)->failed(std::move(e)); };
    return w;
  }

  void execute(op const& o) const { execute_(self_, o); }
  void failed(std::exception_ptr e) const { failed_(self_, std::move(e)); }

 private:
  void* self_ = nullptr;
  void (*execute_)(void*, op const&) = nullptr;
  void (*failed_)(void*, std::exception_ptr) = nullptr;
};

template <class E>
concept has_start = requires(E& e, work w) { e.start(w); };
template <class E>
concept has_issue = requires(E& e, op const& o, std::span<event const> after) {
  { e.issue(o, after) } -> std::same_as<event>;
};
template <class E>
concept has_wait = requires(E& e, event at) {
  e.wait(at);
  e.drain();
  e.stop();
};
/// Optional.
template <class E>
concept has_recorder = requires(E& e) { e.recorder(); };
/// Optional.
template <class E>
concept has_clock = requires(E const& e) {
  { e.now() } -> std::same_as<double>;
};
template <class E>
concept executor = has_start<E> && has_issue<E> && has_wait<E> && std::default_initializable<E>;

namespace detail {
template <class E>
struct space_of {
  using type = host;
};
template <class E>
  requires requires { typename E::space; }
struct space_of<E> {
  using type = typename E::space;
};
}  // namespace detail
/// Where an engine run by E computes: `E::space`, or host memory.
template <class E>
using space_of = typename detail::space_of<E>::type;

template <class E>
consteval bool audit() {
  static_assert(has_start<E>, "executor policy [1/4]: provide start(exec::work)");
  static_assert(has_issue<E>, "executor policy [2/4]: provide event issue(op const&, std::span<event const> after)");
  static_assert(has_wait<E>, "executor policy [3/4]: provide wait(event), drain() and stop()");
  static_assert(std::default_initializable<E>, "executor policy [4/4]: must be default constructible");
  return true;
}

}  // namespace nestpipe::exec
