// expect: include <nestpipe/checkpoint/checkpoint.hpp>
#include <nestpipe/builder.hpp>
#include <nestpipe/comm/self.hpp>
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/logistic.hpp>

namespace np = nestpipe;
using logistic = np::model::logistic<float, np::math::plain>;

int main() {
  auto trainer = np::make_trainer().model(logistic{}).comm(np::comm::self{}).storage(np::storage::hashed<>{}).schedule(np::schedule::nested{}).build();
  trainer.save("here");
}
