// expect: optimizer policy [4/5]: provide update(
#include <nestpipe/optimizer/optimizer.hpp>

struct good {
  std::size_t state_size(std::size_t) const { return 0; }
  void initialize(float*, std::size_t) const {}
  float prepare(std::uint64_t, float factor) const { return factor; }
  void improve(float* row, float*, float const* gradient, auto dim, float rate) const {
    for (std::size_t i = 0; i < dim; ++i) row[i] -= rate * gradient[i];
  }
};
static_assert(nestpipe::optimizer::audit<good>());
