// expect: optimizer policy [3/5]: provide prepare(std::uint64_t step, float rate_factor) const
#include <nestpipe/optimizer/optimizer.hpp>

struct good {
  std::size_t state_size(std::size_t) const { return 0; }
  void initialize(float*, std::size_t) const {}
  void update(float* row, float*, float const* gradient, auto dim, float rate) const {
    for (std::size_t i = 0; i < dim; ++i) row[i] -= rate * gradient[i];
  }
};
static_assert(nestpipe::optimizer::audit<good>());
