// expect: schedule policy [3/4]: provide template run(pipeline&) const
#include <nestpipe/schedule/schedule.hpp>

struct plan {
  using consistency = nestpipe::schedule::exact;
  std::uint32_t windows() const { return 1; }
};
static_assert(nestpipe::schedule::audit<plan>());
