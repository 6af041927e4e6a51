// expect: executor policy [3/4]: provide wait(event), drain() and stop()
#include <nestpipe/exec/executor.hpp>

struct lanes {
  void start(nestpipe::exec::work) {}
  nestpipe::exec::event issue(nestpipe::exec::op const&, std::span<nestpipe::exec::event const>) { return {}; }
};
static_assert(nestpipe::exec::audit<lanes>());
