#pragma once
// One global batch of G micro-batches with known dense gradients, reduced by W ranks of G / W each.

#include <nestpipe/comm/threads.hpp>
#include <nestpipe/reduction/reduction.hpp>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <random>
#include <span>
#include <vector>

namespace reduction_conformance {

namespace np = nestpipe;

/// Gradient of micro-batch m: magnitudes over many powers of two, so that another order gives other bits.
inline std::vector<float> gradient(std::size_t m, std::size_t parameters, std::uint64_t batch = 0) {
  std::mt19937_64 g{m * 7919 + batch * 104729 + 1};
  std::vector<float> v(parameters);
  for (float& x : v) x = std::ldexp(static_cast<float>(g() % 2001) - 1000.0f, static_cast<int>(g() % 24) - 12);
  return v;
}

/// The tree as DESIGN has it, evaluated as it is written.
inline float node(std::vector<std::vector<float>> const& leaf, std::size_t o, std::size_t s, std::size_t i) {
  if (o + s >= leaf.size()) return leaf[o][i];
  float const left = node(leaf, o, 2 * s, i), right = node(leaf, o + s, 2 * s, i);
  return left + right;
}
inline std::vector<float> tree(std::size_t micro_batches, std::size_t parameters, std::uint64_t batch = 0) {
  std::vector<std::vector<float>> leaf;
  for (std::size_t m = 0; m < micro_batches; ++m) leaf.push_back(gradient(m, parameters, batch));
  std::vector<float> sum(parameters);
  for (std::size_t i = 0; i < parameters; ++i) sum[i] = node(leaf, 0, 1, i);
  return sum;
}

/// Runs batch `batch` on an open reduction, in ranges that end at `bounds` (ascending, the last one is `parameters`).
template <class R, class H>
void one_batch(R& r, H& channel, np::reduction::reduction_shape shape, std::vector<std::size_t> const& bounds,
               std::uint64_t batch) {
  for (std::size_t j = 0; j < shape.local_micro_batches; ++j) {
    std::vector<float> const g = gradient(j * shape.world_size + shape.rank, shape.parameters, batch);
    std::span<float> const to = r.leaf(j);
    for (std::size_t i = 0; i < g.size(); ++i) to[i] = g[i];
    std::size_t first = 0;
    for (std::size_t const last : bounds) {
      r.add(j, first, last);
      first = last;
    }
  }
  std::size_t first = 0;
  for (std::size_t const last : bounds) {
    r.reduce(channel, first, last, {"reduce_dense", batch});
    first = last;
  }
}

/// The results of all ranks after `batches` batches (the last batch counts).
template <class R>
std::vector<std::vector<float>> results(R const& prototype, std::size_t world, std::size_t local,
                                        std::size_t parameters, std::vector<std::size_t> const& bounds,
                                        std::uint64_t batches = 1) {
  std::vector<std::vector<float>> all(world);
  np::comm::threads::run(world, [&](np::comm::threads& comm) {
    np::reduction::reduction_shape const shape{parameters, local, comm.rank(), world};
    auto channel = comm.channel("reduce");
    R r{prototype};
    r.open(shape);
    for (std::uint64_t batch = 0; batch < batches; ++batch) one_batch(r, channel, shape, bounds, batch);
    auto const sum = r.result();
    all[comm.rank()].assign(sum.begin(), sum.end());
  });
  return all;
}

}  // namespace reduction_conformance
