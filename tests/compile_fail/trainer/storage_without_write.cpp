// expect: storage policy [3/9]: provide write
#include <nestpipe/builder.hpp>
#include <nestpipe/comm/self.hpp>
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/logistic.hpp>

namespace np = nestpipe;
using logistic = np::model::logistic<float, np::math::plain>;

struct forgetful : np::storage::hashed<> {
 private:
  using np::storage::hashed<>::write;
};
int main() {
  auto const trainer = np::make_trainer().model(logistic{}).comm(np::comm::self{}).storage(forgetful{}).build();
}
