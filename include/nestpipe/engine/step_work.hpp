#pragma once
/// @file
/// How much work the steps of one rank were, in bytes, keys and operations; and the least time that takes on a machine.

#include <nestpipe/core/stage.hpp>
#include <nestpipe/engine/batch.hpp>
#include <nestpipe/model/model.hpp>

#include <algorithm>
#include <array>
#include <span>

namespace nestpipe::engine {

/// Sums over the batches that one rank has routed.
struct step_work {
  double samples = 0;        ///< of this rank
  double ids = 0;            ///< occurrences of keys in them
  double pooled_bytes = 0;   ///< embeddings that pooling reads: one for every id
  double input_bytes = 0;    ///< ids, dense columns and labels as the reader delivers them
  double rows = 0;           ///< distinct rows of the batches that this rank owns
  double stored_bytes = 0;   ///< of those rows, optimizer state included
  double sent_bytes = 0;     ///< rows received and gradients sent, this rank's own share included
  double products = 0;       ///< floating-point operations of matrix products, forward and backward
  double dense_bytes = 0;    ///< dense parameters: values and gradients of every update
  double reduced_bytes = 0;  ///< dense gradients that are added up on this rank
  double batches = 0;
  double micro_batches = 0;  ///< of one rank

  /// On the route lane, once a batch.
  void add(embedding_layout const& layout, batch_slot const& slot, std::span<std::size_t const> stored_floats) {
    ++batches;
    for (auto const& block : slot.blocks) {
      samples += static_cast<double>(block.samples);
      ids += static_cast<double>(block.ids.values.size());
      input_bytes += static_cast<double>(block.ids.values.size() * (sizeof(key_type) + (block.ids.weights.empty() ? 0 : sizeof(float))) +
                                         (block.dense.size() + block.labels.size()) * sizeof(float));
      for (std::size_t f = 0; f < block.ids.features; ++f) {
        std::size_t const values = block.ids.offsets[(f + 1) * block.ids.samples] - block.ids.offsets[f * block.ids.samples];
        pooled_bytes += static_cast<double>(values * layout.dim_of_feature(f) * sizeof(float));
      }
    }
    for (auto const& m : slot.source.micro) {
      std::size_t floats = m.floats;
      for (std::size_t const n : m.row_floats) floats += n;
      sent_bytes += static_cast<double>(floats * sizeof(float));
    }
    for (std::size_t t = 0; t < stored_floats.size(); ++t) {
      std::size_t const n = slot.owner.table_keys(t).size();
      rows += static_cast<double>(n);
      stored_bytes += static_cast<double>(n * stored_floats[t] * sizeof(float));
    }
  }

  /// What the dense network adds: a weight takes one multiplication and one addition a sample forward, and for each of the two halves
  /// of backward. Arrays with one row (biases) and products that are no parameters' (interactions) are left out.
  template <class Model>
  void add_dense(Model const& model) {
    double weights = 0;
    double all = 0;
    for (auto const& p : model.parameters()) {
      if (p.rows > 1) weights += static_cast<double>(p.size());
      all += static_cast<double>(p.size());
    }
    products = 6 * weights * samples;
    dense_bytes = 2 * sizeof(float) * all * batches;
    reduced_bytes = sizeof(float) * all * batches * micro_batches;
  }
};

/// What one core reached in short runs: see measure_limits.
struct machine_limits {
  double copy_bytes = 0;      ///< bytes a second copied, read and written counted once, in a buffer as large as a micro-batch's rows
  double far_copy_bytes = 0;  ///< the same in memory beyond the caches
  double read_rows = 0;       ///< random rows a second read from a table as large as the stores
  double write_rows = 0;      ///< the same, written
  double sorted_keys = 0;     ///< keys a second of a bare sort
  double products = 0;        ///< floating-point operations a second of the backend's matrix product at its best
};

/// How a step may use the machine.
struct step_means {
  bool overlaps = false;   ///< lanes run at the same time (every schedule but sequential)
  double cores = 1;        ///< of this rank; below 1 where ranks share cores
  double threads = 1;      ///< of this rank
  std::size_t ranks = 1;
};

/// Least seconds of all batches in `w`, lane by lane, on one core.
inline std::array<double, exec::lane_count> lane_floors(step_work const& w, machine_limits const& m, std::size_t ranks) {
  std::array<double, exec::lane_count> lanes{};
  auto const at = [&](exec::lane l) -> double& { return lanes[static_cast<std::size_t>(l)]; };
  double const hops = ranks > 1 ? 2 : 1;  // packed, and copied to the other rank
  at(exec::lane::input) = w.input_bytes / m.far_copy_bytes;
  at(exec::lane::route) = w.ids / m.sorted_keys;
  at(exec::lane::lookup) = w.rows / m.read_rows + w.rows / m.write_rows;
  at(exec::lane::exchange) = hops * w.sent_bytes / m.copy_bytes;
  // Pooling reads every id's row, its gradient is read again; an update reads and writes its row in the window.
  at(exec::lane::compute) = w.products / m.products + 2 * w.pooled_bytes / m.copy_bytes + w.stored_bytes / m.copy_bytes + 2 * w.dense_bytes / m.copy_bytes;
  at(exec::lane::reduce) = ((w.micro_batches > 1 ? w.reduced_bytes : 0) + (ranks > 1 ? w.dense_bytes : 0)) / m.copy_bytes;
  return lanes;
}

/// Least seconds of all batches in `w`: with lanes that overlap the longest lane, or all lanes' processor time over the cores; else
/// the sum of the lanes.
inline double floor_seconds(step_work const& w, machine_limits const& m, step_means const& means) {
  auto const lanes = lane_floors(w, m, means.ranks);
  double sum = 0;
  for (double const s : lanes) sum += s;
  double const together = std::min(means.threads, means.cores);
  if (!means.overlaps) return sum / together;
  return std::max(*std::max_element(lanes.begin(), lanes.end()) / together, sum / means.cores);
}

}  // namespace nestpipe::engine
