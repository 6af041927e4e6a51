// expect-ok
#include <nestpipe/exec/executor.hpp>

struct lanes {
  void start(nestpipe::exec::work) {}
  nestpipe::exec::event issue(nestpipe::exec::op const&, std::span<nestpipe::exec::event const>) { return {}; }
  void wait(nestpipe::exec::event) {}
  void drain() {}
  void stop() noexcept {}
};
static_assert(nestpipe::exec::audit<lanes>());
