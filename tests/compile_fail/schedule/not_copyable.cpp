// expect: schedule policy [4/4]: must be copyable
#include <nestpipe/schedule/schedule.hpp>

struct plan {
  using consistency = nestpipe::schedule::exact;
  std::uint32_t windows() const { return 1; }
  template <class Pipeline>
  void run(Pipeline& p) const {
    p.drain();
  }
  plan() = default;
  plan(plan const&) = delete;
};
static_assert(nestpipe::schedule::audit<plan>());
