// expect: optimizer policy [5/5]: must be trivially copyable
#include <nestpipe/optimizer/optimizer.hpp>

#include <string>

struct good {
  std::string name;
  std::size_t state_size(std::size_t) const { return 0; }
  void initialize(float*, std::size_t) const {}
  float prepare(std::uint64_t, float factor) const { return factor; }
  void update(float* row, float*, float const* gradient, auto dim, float rate) const {
    for (std::size_t i = 0; i < dim; ++i) row[i] -= rate * gradient[i];
  }
};
static_assert(nestpipe::optimizer::audit<good>());
