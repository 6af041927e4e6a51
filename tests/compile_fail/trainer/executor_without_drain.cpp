// expect: executor policy [3/4]: provide wait(event), drain() and stop()
#include <nestpipe/builder.hpp>
#include <nestpipe/comm/self.hpp>
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/logistic.hpp>

namespace np = nestpipe;
using logistic = np::model::logistic<float, np::math::plain>;

struct endless {
  void start(np::exec::work) {}
  np::exec::event issue(np::exec::op const&, std::span<np::exec::event const>) { return {}; }
  void wait(np::exec::event) {}
  void stop() noexcept {}
};
int main() {
  auto const trainer = np::make_trainer().model(logistic{}).comm(np::comm::self{}).executor<endless>().build();
}
