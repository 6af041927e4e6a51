#pragma once
/// @file
/// One trainer type for every combination of policies: each family's choice is made at run time by its any_of.

#include "options.hpp"
#include "schedules.hpp"
#include "watched.hpp"

#include <nestpipe/comm/any_of.hpp>
#include <nestpipe/comm/emulated_link.hpp>
#include <nestpipe/comm/self.hpp>
#include <nestpipe/comm/threads.hpp>
#include <nestpipe/exec/any_of.hpp>
#include <nestpipe/exec/inline_lanes.hpp>
#include <nestpipe/exec/thread_lanes.hpp>
#include <nestpipe/math/default.hpp>
#include <nestpipe/model/any_of.hpp>
#include <nestpipe/model/dcn.hpp>
#include <nestpipe/model/deepfm.hpp>
#include <nestpipe/model/dlrm.hpp>
#include <nestpipe/model/fm.hpp>
#include <nestpipe/model/logistic.hpp>
#include <nestpipe/optimizer/adagrad.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/optimizer/any_of.hpp>
#include <nestpipe/optimizer/ftrl.hpp>
#include <nestpipe/optimizer/momentum.hpp>
#include <nestpipe/optimizer/rowwise_adagrad.hpp>
#include <nestpipe/optimizer/sgd.hpp>
#include <nestpipe/reduction/any_of.hpp>
#include <nestpipe/reduction/native.hpp>
#include <nestpipe/reduction/ordered.hpp>
#include <nestpipe/storage/admitting.hpp>
#include <nestpipe/storage/any_of.hpp>
#include <nestpipe/storage/dense.hpp>
#include <nestpipe/storage/encoded.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/storage/layers.hpp>
#include <nestpipe/storage/tier_options.hpp>
#include <nestpipe/trainer.hpp>
#if defined(NESTPIPE_WITH_ROCKSDB)
#include <nestpipe/storage/rocksdb.hpp>
#include <nestpipe/storage/tiered.hpp>
#endif
#if defined(NESTPIPE_WITH_MPI)
#include <nestpipe/comm/mpi.hpp>
#endif

namespace train_ctr {

namespace np = nestpipe;

using any_model = np::model::any_of<np::model::logistic<>, np::model::fm<>, np::model::deepfm<>, np::model::dcn<>, np::model::dlrm<>>;
#if defined(NESTPIPE_WITH_ROCKSDB)
using tiered_storage = np::storage::tiered<np::storage::fast_memory, np::storage::rocksdb>;
using place_of_rows = np::storage::any_of<np::storage::hashed<>, np::storage::dense, np::storage::rocksdb, tiered_storage>;
#else
using place_of_rows = np::storage::any_of<np::storage::hashed<>, np::storage::dense>;
#endif
using narrow_storage = np::storage::encoded<place_of_rows, np::storage::codec::any>;  // float32 unless --codec is given
using any_storage = np::storage::admitting<narrow_storage>;                           // admits all unless --admit-* is given
using any_optimizer = np::optimizer::any_of<np::optimizer::sgd, np::optimizer::momentum, np::optimizer::adagrad, np::optimizer::rowwise_adagrad, np::optimizer::adam, np::optimizer::ftrl>;
using any_reduction = np::reduction::any_of<np::reduction::ordered, np::reduction::native>;
using any_executor = watched<exec::any_of<exec::inline_lanes, exec::thread_lanes>>;
#if defined(NESTPIPE_WITH_MPI)
using real_comm = np::comm::any_of<np::comm::self, np::comm::threads, np::comm::mpi>;
#else
using real_comm = np::comm::any_of<np::comm::self, np::comm::threads>;
#endif
using any_comm = np::comm::emulated_link<real_comm>;  // as it is unless --link-latency or --link-bandwidth is given

using trainer = np::trainer<any_model, any_storage, any_comm, any_schedule, any_optimizer, any_optimizer, any_executor, any_reduction>;

inline any_model make_model(options const& o) {
  auto const scaled = [&](auto c) {
    if (o.embedding_scale >= 0) c.embedding_scale = static_cast<float>(o.embedding_scale);
    return c;
  };
  if (o.model == "logistic") return np::model::logistic<>{};
  if (o.model == "fm") return np::model::fm<>{scaled(np::model::fm_options{})};
  if (o.model == "deepfm") {
    auto c = scaled(np::model::deepfm_options{});
    if (!o.hidden.empty()) c.hidden = o.hidden;
    return np::model::deepfm<>{c};
  }
  if (o.model == "dcn") {
    auto c = scaled(np::model::dcn_options{});
    c.cross_layers = o.cross_layers;
    c.rank = o.cross_rank;
    if (!o.hidden.empty()) c.hidden = o.hidden;
    return np::model::dcn<>{c};
  }
  auto c = scaled(np::model::dlrm_options{});
  if (!o.bottom.empty()) c.bottom = o.bottom;
  if (!o.hidden.empty()) c.top = o.hidden;
  return np::model::dlrm<>{c};
}

/// @throws config_error on a number out of its domain
inline any_optimizer make_optimizer(optimizer_choice const& o) {
  auto const take = [](double& to, double from) {
    if (from >= 0) to = from;
  };
  auto const done = [](auto const& made) -> any_optimizer {
    made.check();
    return made;
  };
  if (o.name == "ftrl") {
    np::optimizer::ftrl f;
    take(f.rate, o.rate);
    take(f.beta, o.beta1);
    f.lambda1 = o.l1;
    f.lambda2 = o.l2;
    return done(f);
  }
  np::require(o.l1 == 0, "an l1 penalty needs the optimizer ftrl", o.name, "leave it out");
  auto const common = [&](auto made) {
    take(made.rate, o.rate);
    made.weight_decay = o.l2;
    if constexpr (requires { made.eps; }) take(made.eps, o.eps);
    if constexpr (requires { made.initial_accumulator; }) take(made.initial_accumulator, o.initial_accumulator);
    if constexpr (requires { made.beta1; }) {
      take(made.beta1, o.beta1);
      take(made.beta2, o.beta2);
    }
    if constexpr (requires { made.momentum_factor; }) take(made.momentum_factor, o.momentum);
    return made;
  };
  if (o.name == "sgd") return done(common(np::optimizer::sgd{}));
  if (o.name == "momentum") return done(common(np::optimizer::momentum{}));
  if (o.name == "adagrad") return done(common(np::optimizer::adagrad{}));
  if (o.name == "rowwise_adagrad") return done(common(np::optimizer::rowwise_adagrad{}));
  return done(common(np::optimizer::adam{}));
}

/// The numbers an optimizer works with, its own defaults included, by the names of their flags.
inline optimizer_numbers numbers_of(any_optimizer const& chosen) {
  optimizer_numbers out;
  np::optimizer::with_concrete(chosen, [&](auto const& made) {
    out.emplace_back("lr", made.rate);
    if constexpr (requires { made.weight_decay; }) out.emplace_back("l2", made.weight_decay);
    if constexpr (requires { made.lambda2; }) {
      out.emplace_back("l2", made.lambda2);
      out.emplace_back("l1", made.lambda1);
      out.emplace_back("beta1", made.beta);
    }
    if constexpr (requires { made.eps; }) out.emplace_back("eps", made.eps);
    if constexpr (requires { made.beta2; }) {
      out.emplace_back("beta1", made.beta1);
      out.emplace_back("beta2", made.beta2);
    }
    if constexpr (requires { made.momentum_factor; }) out.emplace_back("momentum", made.momentum_factor);
    if constexpr (requires { made.initial_accumulator; }) out.emplace_back("initial_accumulator", made.initial_accumulator);
  });
  return out;
}

inline place_of_rows make_place(options const& o) {
  if (o.storage == "dense") return np::storage::dense{};
#if defined(NESTPIPE_WITH_ROCKSDB)
  np::storage::rocksdb_options disk;
  disk.path = o.storage_dir;
  if (o.storage == "rocksdb") return np::storage::rocksdb{disk};
  if (o.storage == "tiered") {
    disk.block_cache_bytes = disk.write_buffer_bytes = std::max<std::size_t>(std::size_t{8} << 20, o.memory_budget / 32);
    return tiered_storage{{.shared = std::make_shared<np::storage::memory_budget>(o.memory_budget)}, np::storage::rocksdb{disk}};
  }
#endif
  return np::storage::hashed<>{};
}

/// @throws config_error on a number out of its domain
inline any_storage make_storage(options const& o) {
  using codecs = np::storage::codec::any::kind;
  codecs const codec = o.codec == "bfloat16" ? codecs::bfloat16 : o.codec == "float16" ? codecs::float16 : o.codec == "int8" ? codecs::int8 : codecs::float32;
  return any_storage{narrow_storage{make_place(o), codec}, {o.admit_count, o.admit_probability}};
}

/// What moved between the tiers of this rank's tables; nothing where rows do not move.
inline np::storage::tier_counters tiers_of(trainer& t) {
  np::storage::tier_counters sum;
  auto const& rows = t.engine().rows();
  for (std::size_t k = 0; k < rows.tables(); ++k) {
    np::storage::for_each_layer(rows.store(k), [&](auto const& layer) {
      if constexpr (requires { layer.tiers(); }) sum += layer.tiers();
    });
  }
  return sum;
}

inline trainer::policies make_policies(options const& o) {
  trainer::policies p;
  p.model = make_model(o);
  p.storage = make_storage(o);
  p.schedule = make_schedule(o);
  p.row_optimizer = make_optimizer(o.rows);
  p.dense_optimizer = make_optimizer(o.dense_part);
  if (o.reduction == "native") p.reduction = np::reduction::native{};
  return p;
}

inline np::trainer_config make_config(options const& o) {
  np::trainer_config c;
  c.dim = o.dim;
  c.cardinality = o.cardinality;
  c.task = o.regression ? np::model::task::regression : np::model::task::binary;
  c.batch_size = o.batch_size;
  c.micro_batches = o.micro_batches;
  c.threads = o.threads;
  c.epochs = o.epochs;
  c.steps = o.steps;
  c.seed = o.seed;
  c.shards = o.shards;
  c.cluster = o.cluster == "exact" ? np::embedding::clustering::exact : o.cluster == "fast" ? np::embedding::clustering::fast : np::embedding::clustering::off;
  c.cluster_groups = o.cluster_groups;
  c.reuse_rows = o.reuse_rows;
  c.tune_steps = o.tune_steps;
  if (o.look_ahead != 0) c.batches_in_flight = std::max<std::uint32_t>(c.batches_in_flight, static_cast<std::uint32_t>(o.look_ahead) + 5);
  c.row_clip_norm = static_cast<float>(o.row_clip);
  c.dense_clip_norm = static_cast<float>(o.dense_clip);
  c.row_rate.rise.steps = o.warmup_steps;
  c.row_rate.fall = {o.decay_start, o.decay_steps, o.decay_power, o.decay_end};
  c.dense_rate = c.row_rate;
  return c;
}

inline void choose_executor(options const& o, any_executor& e) {
  if (o.executor == "threads") e.inner().choose<exec::thread_lanes>();
}

}  // namespace train_ctr
