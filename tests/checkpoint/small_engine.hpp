#pragma once
// As much of an engine as checkpoints touch, with rows made by counter: compiles fast and needs no data.

#include "scratch.hpp"

#include <nestpipe/checkpoint/checkpoint.hpp>
#include <nestpipe/comm/threads.hpp>
#include <nestpipe/engine/config.hpp>
#include <nestpipe/engine/dense_part.hpp>
#include <nestpipe/engine/row_part.hpp>
#include <nestpipe/optimizer/adagrad.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/optimizer/sgd.hpp>
#include <nestpipe/storage/hashed.hpp>

namespace checkpoint_test {

struct tiny_model {};

inline np::engine::engine_config tiny_config() {
  np::engine::engine_config c;
  c.schema = {{"user", "item", "shown"}, 2, 1, {"age", "price"}};
  c.layout = {{{"users", 3, {}, 0.0f, 0}, {"items/all", 2, {np::row_init::kind::normal, 0.1f, 1}, 0.25f, 1000}},
              {{"user", "users", np::pooling::sum}, {"item", "items/all", np::pooling::mean}, {"shown", "items/all", np::pooling::sum_and_squares}}};
  c.batch_size = 100;
  c.seed = 7;
  c.shards = 11;
  return c;
}
inline std::vector<np::model::parameter> tiny_parameters() {
  return {{"net.0.weight", 3, 2, {np::row_init::kind::uniform, 0.5f, 0}}, {"net.0.bias", 1, 3, {}}};
}

template <class Model = tiny_model, class RowOptimizer = np::optimizer::adam, class DenseOptimizer = np::optimizer::adagrad, class Storage = np::storage::hashed<>>
class small_engine {
 public:
  small_engine(np::comm::threads comm, np::engine::engine_config config = tiny_config(), std::vector<np::model::parameter> parameters = tiny_parameters())
      : config_{std::move(config)}, comm_{comm}, control_{comm_.channel("control")}, rows_{{}, {}}, dense_{{}}, parameters_{std::move(parameters)} {
    rows_.open(config_.layout, config_.seed, static_cast<std::uint32_t>(comm_.rank()), static_cast<std::uint32_t>(comm_.size()), config_.shards);
    dense_.open(parameters_, config_.seed);
  }

  /// Rows for about `keys` keys in each table, any of 64 bits, and numbers everywhere: functions of `what` and the key only.
  void fill(std::uint64_t keys, std::uint64_t what = 1) {
    np::counter_random const random{what, 0, 0};
    for (std::uint32_t t = 0; t < rows_.tables(); ++t) {
      for (std::uint64_t i = 0; i < keys; ++i) {
        np::key_type const key = i == 0 ? ~std::uint64_t{0} : i == 1 ? 0 : np::mix64(i, t);
        if (np::owner_of(np::shard_of(t, key, config_.shards), static_cast<std::uint32_t>(comm_.size())) != comm_.rank()) continue;
        std::vector<float> row(rows_.row_floats(t));
        for (std::size_t k = 0; k < row.size(); ++k) row[k] = random.uniform(np::mix64(key, k)) - 0.5f;
        np::storage::row_handle const unknown = np::storage::no_row;
        rows_.store(t).write({&key, 1}, {&unknown, 1}, row.data());
      }
    }
    std::uint64_t at = 1'000'000;
    for (float& x : dense_.values()) x = random.uniform(at++);
    for (float& x : dense_.state()) x = random.uniform(at++);
    set_progress(what * 10, what * 1000);
  }

  np::digest digest() {
    np::digest d;
    rows_.add_to(d);
    return np::checkpoint::detail::sum_of_digests(*this, d, {"digest", 0});
  }

  np::engine::engine_config const& config() const { return config_; }
  std::uint64_t step() const { return step_; }
  std::uint64_t samples() const { return samples_; }
  void set_progress(std::uint64_t step, std::uint64_t samples) { step_ = step, samples_ = samples; }
  Model const& model() const { return model_; }
  auto& rows() { return rows_; }
  auto const& rows() const { return rows_; }
  auto& dense() { return dense_; }
  auto const& dense() const { return dense_; }
  np::comm::threads& comm() { return comm_; }
  auto& control() { return control_; }

 private:
  np::engine::engine_config config_;
  np::comm::threads comm_;
  np::comm::threads::channel_type control_;
  Model model_;
  np::engine::row_part<Storage, RowOptimizer> rows_;
  np::engine::dense_part<DenseOptimizer> dense_;
  std::vector<np::model::parameter> parameters_;
  std::uint64_t step_ = 0;
  std::uint64_t samples_ = 0;
};

/// Runs f(engine) on every rank; the message of what failed, or nothing.
template <class Engine = small_engine<>, class F>
std::string on_ranks(std::size_t world_size, F f, np::engine::engine_config const& config = tiny_config(), std::vector<np::model::parameter> const& parameters = tiny_parameters()) {
  try {
    np::comm::threads::run(world_size, [&](np::comm::threads& comm) {
      Engine e{comm, config, parameters};
      f(e);
    });
  } catch (std::exception const& e) {
    return e.what();
  }
  return {};
}

/// Saves `keys` rows a table filled with `what`.
inline np::digest save_small(fs::path const& to, std::size_t world_size = 1, std::uint64_t keys = 20, std::uint64_t what = 1, np::checkpoint::save_options const& options = {}) {
  np::digest d;
  std::string const failed = on_ranks(world_size, [&](auto& e) {
    e.fill(keys, what);
    auto const own = e.digest();
    np::checkpoint::save(e, to, {what, 100 * what}, options);
    if (e.comm().rank() == 0) d = own;
  });
  if (!failed.empty()) throw std::runtime_error{failed};
  return d;
}

/// Loads; the message of what failed, or nothing.
inline std::string load_small(fs::path const& from, np::digest* loaded = nullptr, std::size_t world_size = 1) {
  return on_ranks(world_size, [&](auto& e) {
    np::checkpoint::load(e, from);
    auto const d = e.digest();
    if (loaded != nullptr && e.comm().rank() == 0) *loaded = d;
  });
}

inline bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

}  // namespace checkpoint_test
