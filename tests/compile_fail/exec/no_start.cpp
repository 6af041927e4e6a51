// expect: executor policy [1/4]: provide start(exec::work)
#include <nestpipe/exec/executor.hpp>

struct lanes {
  nestpipe::exec::event issue(nestpipe::exec::op const&, std::span<nestpipe::exec::event const>) { return {}; }
  void wait(nestpipe::exec::event) {}
  void drain() {}
  void stop() noexcept {}
};
static_assert(nestpipe::exec::audit<lanes>());
