// expect: schedule policy [3/4]: provide template run(pipeline&) const
#include <nestpipe/builder.hpp>
#include <nestpipe/comm/self.hpp>
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/logistic.hpp>

namespace np = nestpipe;
using logistic = np::model::logistic<float, np::math::plain>;

struct idle {
  using consistency = np::schedule::exact;
  std::uint32_t windows() const { return 1; }
};
int main() {
  auto const trainer = np::make_trainer().model(logistic{}).comm(np::comm::self{}).schedule(idle{}).build();
}
