// expect: trainer builder: missing model(...)
#include <nestpipe/builder.hpp>
#include <nestpipe/comm/self.hpp>
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/logistic.hpp>

namespace np = nestpipe;
using logistic = np::model::logistic<float, np::math::plain>;

int main() {
  auto const trainer = np::make_trainer().comm(np::comm::self{}).build();
}
