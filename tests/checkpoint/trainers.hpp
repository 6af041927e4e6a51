#pragma once
// Small trainers over a small stream.

#include "scratch.hpp"

#include <nestpipe/checkpoint/checkpoint.hpp>
#include <nestpipe/comm/threads.hpp>
#include <nestpipe/data/synthetic.hpp>
#include <nestpipe/exec/inline_lanes.hpp>
#include <nestpipe/math/default.hpp>
#include <nestpipe/model/dlrm.hpp>
#include <nestpipe/model/logistic.hpp>
#include <nestpipe/optimizer/adagrad.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/optimizer/sgd.hpp>
#include <nestpipe/schedule/sequential.hpp>
#include <nestpipe/storage/dense.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/trainer.hpp>

namespace checkpoint_test {

inline np::data::synthetic stream(std::uint64_t rows = 40 * 96) {
  np::data::synthetic_options o;
  o.rows = rows;
  o.features = 3;
  o.dense = 2;
  o.vocabulary = 300;
  o.max_bag = 2;
  o.order.shuffle_window = 50;
  return np::data::synthetic{o};
}

inline np::trainer_config small_config(std::size_t world_size, std::uint64_t steps) {
  np::trainer_config c;
  c.dim = 4;
  c.batch_size = 96;
  c.micro_batches = 24 / world_size;  // 24: a multiple of 1, 2, 3, 4 and 8
  c.steps = steps;
  c.epochs = 2;
  c.cardinality = 300;
  c.shards = 37;  // no multiple of any number of ranks
  return c;
}

inline np::model::dlrm<> small_dlrm() {
  np::model::dlrm_options o;
  o.bottom = {4};
  o.top = {6};
  return np::model::dlrm<>{o};
}

template <class Storage = np::storage::hashed<>, class RowOptimizer = np::optimizer::adam, class DenseOptimizer = np::optimizer::adam>
using dlrm_trainer =
    np::trainer<np::model::dlrm<>, Storage, np::comm::threads, np::schedule::sequential, RowOptimizer, DenseOptimizer, np::exec::inline_lanes>;

/// Runs f(trainer) on every rank; the message of what failed, or nothing.
template <class Trainer, class F>
std::string with_trainers(std::size_t world_size, np::trainer_config const& config, typename Trainer::policies const& policies, F f) {
  try {
    np::comm::threads::run(world_size, [&](np::comm::threads& comm) {
      Trainer t{config, comm, policies};
      f(t);
    });
  } catch (std::exception const& e) {
    return e.what();
  }
  return {};
}

}  // namespace checkpoint_test
