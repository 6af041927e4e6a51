#pragma once
/// @file
/// The cost model of a machine that is described, not measured.

#include <nestpipe/sim/links.hpp>
#include <nestpipe/sim/sim.hpp>
#include <nestpipe/sim/skew.hpp>

#include <cmath>
#include <limits>

namespace nestpipe::sim {

/// Meets cost_model. Workers are alike but for `uneven`; each has the same batch however many there are, so adding workers is
/// weak scaling. A rate of infinity is a stage that takes no time.
struct parametric {
  static constexpr double free = std::numeric_limits<double>::infinity();

  std::size_t workers = 1;
  std::uint32_t micro_batches = 1;
  // One batch of one worker.
  double samples = 512;
  double keys = 8192;          ///< distinct keys of the batch
  double sample_bytes = 1024;  ///< ids, dense features and labels
  double row_bytes = 256;      ///< of an embedding, and of its gradient
  double key_bytes = 8;
  /// Micro-batches repeat each other's keys: the distinct keys of N micro-batches sum up to keys * N^growth. 0: none shared.
  double growth = 0;
  double overlap = 0.5;        ///< share of the keys that the next batch has too
  // Rates of one worker, per second.
  double read_samples = free;
  double staged_bytes = free;
  double routed_keys = free;     ///< de-duplication and slot lists
  double retrieved_rows = free;
  double written_rows = free;
  double updated_rows = free;
  double refreshed_rows = free;
  // Seconds a sample.
  double forward = 0;
  double input_backward = 0;
  double weight_backward = 0;
  double dense_bytes = 0;  ///< of all dense parameters
  hierarchy network{};
  skew uneven{};

  double operator()(exec::op const& o, std::size_t rank) const {
    double const plain = even(o);
    return plain > 0 ? plain * uneven.factor(o, rank) : 0.0;
  }

  /// Distinct keys of one micro-batch.
  double micro_keys() const {
    auto const n = static_cast<double>(micro_batches);
    return keys * std::pow(n, growth) / n;
  }

 private:
  double even(exec::op const& o) const {
    using exec::stage;
    double const part = samples / static_cast<double>(micro_batches);
    switch (o.what) {
      case stage::read: return samples / read_samples;
      case stage::stage: return samples * sample_bytes / staged_bytes;
      case stage::route: return keys / routed_keys + network.all_to_all(keys * key_bytes, workers);
      case stage::retrieve: return keys / retrieved_rows;
      case stage::write_back: return keys / written_rows;
      case stage::refresh: return keys * overlap / refreshed_rows;
      case stage::exchange_rows: return network.all_to_all(micro_keys() * row_bytes * portion_share(o.rows, 1 - overlap), workers);
      case stage::exchange_gradients: return network.all_to_all(micro_keys() * row_bytes, workers);
      case stage::forward_backward: return part * (forward + input_backward);
      case stage::weight_gradients: return part * weight_backward / o.buckets;
      case stage::update_rows: return keys * portion_share(o.rows, 1 - overlap) / updated_rows;
      case stage::reduce_dense: return network.all_reduce(dense_bytes / o.buckets, workers);
      case stage::update_dense: break;
    }
    return 0;
  }
};

}  // namespace nestpipe::sim
