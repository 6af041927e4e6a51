// expect: optimizer policy [1/5]: provide state_size(std::size_t dim) const
#include <nestpipe/optimizer/optimizer.hpp>

struct good {
  void initialize(float*, std::size_t) const {}
  float prepare(std::uint64_t, float factor) const { return factor; }
  void update(float* row, float*, float const* gradient, auto dim, float rate) const {
    for (std::size_t i = 0; i < dim; ++i) row[i] -= rate * gradient[i];
  }
};
static_assert(nestpipe::optimizer::audit<good>());
