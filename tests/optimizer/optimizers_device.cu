// Compiles every optimizer's initialize and update for a device, through the same headers as the host.

#include <nestpipe/core/config.hpp>
#include <nestpipe/core/digest.hpp>
#include <nestpipe/core/error.hpp>
#include <nestpipe/core/fixed_size.hpp>
#include <nestpipe/core/jagged.hpp>
#include <nestpipe/core/random.hpp>
#include <nestpipe/core/schema.hpp>
#include <nestpipe/optimizer/adagrad.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/optimizer/any_of.hpp>
#include <nestpipe/optimizer/clipping.hpp>
#include <nestpipe/optimizer/ftrl.hpp>
#include <nestpipe/optimizer/momentum.hpp>
#include <nestpipe/optimizer/rate_schedule.hpp>
#include <nestpipe/optimizer/rowwise_adagrad.hpp>
#include <nestpipe/optimizer/sgd.hpp>

namespace o = nestpipe::optimizer;

/// One thread a row; rows of dim floats with their state behind them.
template <class Optimizer, class Constants, class Dim>
__global__ void step(Optimizer optimizer, Constants constants, float* rows, float* gradients, std::size_t n, Dim dim, o::clip_by_norm clip) {
  std::size_t const r = blockIdx.x * static_cast<std::size_t>(blockDim.x) + threadIdx.x;
  if (r >= n) return;
  std::size_t const floats = static_cast<std::size_t>(dim) + optimizer.state_size(dim);
  float* const row = rows + r * floats;
  nestpipe::row_init{}(1, 2, r, row, dim);
  optimizer.initialize(row + dim, dim);
  clip.apply(gradients + r * dim, dim);
  optimizer.update(row, row + dim, gradients + r * dim, dim, constants);
}

template <class Optimizer>
void launch(Optimizer const& optimizer, float* rows, float* gradients, std::size_t n) {
  auto const constants = optimizer.prepare(1, o::rate_schedule{}.factor(1));
  unsigned const blocks = static_cast<unsigned>((n + 255) / 256);
  step<<<blocks, 256>>>(optimizer, constants, rows, gradients, n, nestpipe::fixed_size<16>{}, o::clip_by_norm{1.0});
  step<<<blocks, 256>>>(optimizer, constants, rows, gradients, n, std::size_t{19}, o::clip_by_norm{1.0});
}

void launch_all(float* rows, float* gradients, std::size_t n);
void launch_all(float* rows, float* gradients, std::size_t n) {
  launch(o::sgd{}, rows, gradients, n);
  launch(o::momentum{}, rows, gradients, n);
  launch(o::adagrad{}, rows, gradients, n);
  launch(o::rowwise_adagrad{}, rows, gradients, n);
  launch(o::adam{}, rows, gradients, n);
  launch(o::ftrl{}, rows, gradients, n);
  launch(o::any_of<o::sgd, o::momentum, o::adagrad, o::rowwise_adagrad, o::adam, o::ftrl>{o::adam{}}, rows, gradients, n);
}
