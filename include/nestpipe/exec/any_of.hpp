#pragma once
/// @file
/// One of several executors, chosen at run time; itself an executor.

#include <nestpipe/exec/executor.hpp>
#include <nestpipe/trace/recorder.hpp>

#include <type_traits>
#include <utility>
#include <variant>

namespace nestpipe::exec {

/// Meets the executor concept with one visit per op. The choice is made before start(): executors hold threads and locks, so
/// they are made in place and never move.
template <class... Es>
class any_of {
  static_assert(sizeof...(Es) > 0, "exec::any_of: name at least one executor");
  static_assert((audit<Es>() && ...));

 public:
  /// The first alternative with its defaults.
  any_of() = default;

  /// Makes E the active alternative. Not between start and stop.
  template <class E, class... Arguments>
    requires(std::is_same_v<E, Es> || ...)
  E& choose(Arguments&&... arguments) {
    return held_.template emplace<E>(std::forward<Arguments>(arguments)...);
  }
  std::size_t index() const { return held_.index(); }

  void start(work w) {
    std::visit([&](auto& e) { e.start(w); }, held_);
  }
  event issue(op const& o, std::span<event const> after) {
    return std::visit([&](auto& e) -> event { return e.issue(o, after); }, held_);
  }
  void wait(event at) {
    std::visit([&](auto& e) { e.wait(at); }, held_);
  }
  void drain() {
    std::visit([](auto& e) { e.drain(); }, held_);
  }
  trace::recorder& recorder()
    requires(has_recorder<Es> && ...)
  {
    return std::visit([](auto& e) -> trace::recorder& { return e.recorder(); }, held_);
  }
  double now() const
    requires(has_clock<Es> && ...)
  {
    return std::visit([](auto const& e) -> double { return e.now(); }, held_);
  }
  void stop() noexcept {
    std::visit([](auto& e) { e.stop(); }, held_);
  }

 private:
  std::variant<Es...> held_;
};

}  // namespace nestpipe::exec
