// expect: executor policy [2/4]: provide event issue(op const&, std::span<event const> after)
#include <nestpipe/exec/executor.hpp>

struct lanes {
  void start(nestpipe::exec::work) {}
  void wait(nestpipe::exec::event) {}
  void drain() {}
  void stop() noexcept {}
};
static_assert(nestpipe::exec::audit<lanes>());
