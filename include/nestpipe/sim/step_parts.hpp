#pragma once
/// @file
/// The cost model of three numbers: a plain step is lookup, exchange and compute, one after the other.

#include <nestpipe/sim/sim.hpp>
#include <nestpipe/sim/skew.hpp>

#include <algorithm>
#include <array>

namespace nestpipe::sim {

/// Meets cost_model. Seconds of one batch of one rank.
/// Its closed forms are those of NestPipe (arXiv 2604.06956): plain L + C + T; both levels max(C + T/N, slowest lane).
struct step_parts {
  double lookup = 0;    ///< L: read, stage, route, retrieve and write_back together
  double exchange = 0;  ///< T: rows out and gradients back, half each, of all micro-batches
  double compute = 0;   ///< C: forward, input half and weight half of backward, a third each; `update` is part of it
  std::uint32_t micro_batches = 1;
  std::array<double, 5> lookup_shares{0.25, 0.10, 0.15, 0.30, 0.20};  ///< read, stage, route, retrieve, write_back
  double update = 0;             ///< part of compute that update_rows takes
  double refresh = 0;            ///< on top of compute, where a schedule has it
  double reduce = 0;             ///< reduce_dense
  double early_share = 0.5;      ///< of the rows of a first micro-batch: not touched by the batch before
  double shared_update = 0.5;    ///< of the rows updated: shared with the next batch
  skew uneven{};

  double operator()(exec::op const& o, std::size_t rank) const {
    double const plain = even(o);
    return plain > 0 ? plain * uneven.factor(o, rank) : 0.0;
  }

  /// The busiest lane: no order of the stages makes a step shorter.
  double lower_bound() const {
    double const looked_up = lookup * (lookup_shares[3] + lookup_shares[4]);
    return std::max({compute, exchange, looked_up, lookup * lookup_shares[0], lookup * lookup_shares[1], lookup * lookup_shares[2], reduce});
  }

 private:
  double even(exec::op const& o) const {
    using exec::stage;
    auto const n = static_cast<double>(micro_batches);
    switch (o.what) {
      case stage::read: return lookup * lookup_shares[0];
      case stage::stage: return lookup * lookup_shares[1];
      case stage::route: return lookup * lookup_shares[2];
      case stage::retrieve: return lookup * lookup_shares[3];
      case stage::write_back: return lookup * lookup_shares[4];
      case stage::refresh: return refresh;
      case stage::exchange_rows: return exchange / 2 / n * portion_share(o.rows, early_share);
      case stage::exchange_gradients: return exchange / 2 / n;
      case stage::forward_backward: return (compute - update) * 2 / 3 / n;
      case stage::weight_gradients: return (compute - update) / 3 / n / o.buckets;
      case stage::update_rows: return update * portion_share(o.rows, 1 - shared_update);
      case stage::reduce_dense: return reduce / o.buckets;
      case stage::update_dense: break;
    }
    return 0;
  }
};

}  // namespace nestpipe::sim
