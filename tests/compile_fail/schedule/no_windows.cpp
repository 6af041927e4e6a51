// expect: schedule policy [2/4]: provide windows() const
#include <nestpipe/schedule/schedule.hpp>

struct plan {
  using consistency = nestpipe::schedule::exact;
  template <class Pipeline>
  void run(Pipeline& p) const {
    p.drain();
  }
};
static_assert(nestpipe::schedule::audit<plan>());
