// expect: schedule policy [1/4]: define member type consistency
#include <nestpipe/schedule/schedule.hpp>

struct plan {
  std::uint32_t windows() const { return 1; }
  template <class Pipeline>
  void run(Pipeline& p) const {
    p.drain();
  }
};
static_assert(nestpipe::schedule::audit<plan>());
