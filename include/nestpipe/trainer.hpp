#pragma once
/// @file
/// The composition of the policies, nothing else.

#include <nestpipe/engine/engine.hpp>
#include <nestpipe/engine/pipeline.hpp>
#include <nestpipe/engine/save_hooks.hpp>
#include <nestpipe/engine/schedule_tuner.hpp>
#include <nestpipe/exec/thread_lanes.hpp>
#include <nestpipe/metric/collector.hpp>
#include <nestpipe/reduction/ordered.hpp>
#include <nestpipe/trace/recorder.hpp>
#include <nestpipe/trainer_config.hpp>

#include <functional>
#include <memory>
#include <optional>
#include <string>

namespace nestpipe {

namespace checkpoint {

/// How a trainer saves and loads. Declared here, defined in <nestpipe/checkpoint/checkpoint.hpp>, which a program that does so
/// includes: it would cost all others a second of every compilation.
template <class Engine>
struct trainer_access;
template <class Engine>
struct background_access;
struct save_plan;

}  // namespace checkpoint

/// The policies of a trainer as values; those not given are default constructed.
template <class Model, class Storage, class Schedule, class RowOptimizer, class DenseOptimizer, class Reduction>
struct trainer_policies {
  Model model{};
  Storage storage{};
  Schedule schedule{};
  RowOptimizer row_optimizer{};
  DenseOptimizer dense_optimizer{};
  Reduction reduction{};
};

/// What fit did; the same on every rank.
struct fit_result {
  std::uint64_t steps = 0;      ///< global batches trained in this call
  std::uint64_t samples = 0;
  double seconds = 0;
  double loss = 0;              ///< mean over the samples of the last epoch, each before its update
  bool stopped = false;         ///< somebody asked to stop
};

/// Scores of one rank's samples, in order of row number.
struct predictions {
  std::vector<std::uint64_t> row;
  std::vector<float> score;  ///< (rows, outputs)
};

/// Trains one model on one rank; every rank makes one, with equal arguments. All members are collective over the ranks
/// unless they say otherwise, and throw on every rank when one rank fails.
///
/// @tparam Model           see model/model.hpp
/// @tparam Storage         see storage/storage.hpp; one store per table is made from the given value
/// @tparam Comm            see comm/comm.hpp
/// @tparam Schedule        see schedule/schedule.hpp
/// @tparam RowOptimizer, DenseOptimizer  see optimizer/optimizer.hpp
/// @tparam Executor        see exec/executor.hpp
/// @tparam Reduction       see reduction/reduction.hpp
template <class Model, class Storage, class Comm, class Schedule, class RowOptimizer, class DenseOptimizer, class Executor = exec::thread_lanes,
          class Reduction = reduction::ordered>
class trainer {
  static_assert(model::audit<Model>() && storage::audit<Storage>() && comm::audit<Comm>() && schedule::audit<Schedule>() &&
                optimizer::audit<RowOptimizer>() && optimizer::audit<DenseOptimizer>() && exec::audit<Executor>() && reduction::audit<Reduction>());

 public:
  using policies = trainer_policies<Model, Storage, Schedule, RowOptimizer, DenseOptimizer, Reduction>;
  using engine_type = engine::engine<Model, Storage, Comm, RowOptimizer, DenseOptimizer, Reduction, exec::space_of<Executor>>;

  explicit trainer(trainer_config config, Comm comm, policies p = {})
      : config_{std::move(config)}, comm_{std::move(comm)}, policies_{std::move(p)}, tuner_{policies_.schedule} {
    config_.row_rate.check();
    config_.dense_rate.check();
    require(config_.dim > 0, "embedding dim must be at least 1", {}, "set dim");
  }
  trainer(trainer const&) = delete;
  trainer& operator=(trainer const&) = delete;
  ~trainer() { executor_.stop(); }

  /// Fixes tables and shapes for data with these columns. fit, evaluate and load do so by themselves.
  /// @throws config_error when the data's features are not those of the configuration
  void attach(schema const& columns) {
    if (engine_) {
      require(columns.features == columns_.features && columns.dense == columns_.dense && columns.labels == columns_.labels,
              "this dataset has other columns than the one the model was made for", {}, "name the same features, dense columns and labels");
      return;
    }
    columns_ = columns;
    engine::engine_config c;
    c.schema = columns;
    c.layout = layout_for(columns);
    c.task = config_.task;
    c.batch_size = config_.batch_size;
    c.micro_batches = config_.micro_batches;
    c.threads = config_.threads;
    c.seed = config_.seed;
    c.shards = config_.shards;
    c.slots = config_.batches_in_flight;
    c.windows = policies_.schedule.windows();
    c.early_rows = schedule::early_rows(policies_.schedule);
    c.reuse_rows = config_.reuse_rows;
    c.dense_buckets = config_.dense_buckets;
    c.data_transform = config_.data_transform;
    c.data_order = config_.data_order;
    c.per_rank_files = config_.per_rank_files;
    c.cluster = config_.cluster;
    c.cluster_groups = config_.cluster_groups;
    c.row_clip_norm = config_.row_clip_norm;
    c.dense_clip_norm = config_.dense_clip_norm;
    engine_.emplace(std::move(c), policies_.model, policies_.storage, comm_, policies_.row_optimizer, policies_.dense_optimizer, policies_.reduction);
    engine_->rate_factors(config_.row_rate, config_.dense_rate);
    engine_->on_update = [this](std::uint64_t step, std::uint64_t samples, double loss) {
      loss_sum_ += loss * static_cast<double>(samples);
      loss_samples_ += samples;
      if (config_.on_step) config_.on_step({epoch_, step, samples, loss});
    };
  }

  /// Trains on config.epochs passes over the data, or until config.steps.
  template <class Dataset>
  fit_result fit(Dataset const& dataset) {
    return fit(dataset, [](std::uint64_t, fit_result const&) { return true; });
  }

  /// As above; after each epoch calls `after_epoch(epoch, result so far)` on every rank, lanes idle: it may evaluate or save,
  /// and returns whether to go on (the same answer on every rank).
  template <class Dataset, class AfterEpoch>
  fit_result fit(Dataset const& dataset, AfterEpoch after_epoch) {
    attach(dataset.schema());
    return together([&] { return run_fit(dataset, after_epoch); });
  }

  /// Metrics over all ranks' samples; creates no rows. The same bits on every rank and for any number of ranks.
  template <class Dataset>
  metric::summary evaluate(Dataset const& dataset) {
    attach(dataset.schema());
    return together([&] { return run_evaluate(dataset); });
  }

  /// Scores of this rank's samples (with one rank: of all), ordered by row number. Not gathered.
  template <class Dataset>
  predictions predict(Dataset const& dataset) {
    attach(dataset.schema());
    return together([&] { return run_predict(dataset); });
  }

  /// Writes a checkpoint directory: see checkpoint/checkpoint.hpp, which must be included.
  template <class Engine = engine_type>
  void save(std::string const& directory) {
    require(engine_.has_value(), "there is nothing to save yet", "trainer", "call attach, fit or load first");
    together([&] {
      if (saves_) saves_->finish();
      checkpoints<Engine>::save(*engine_, directory, position_);
    });
  }

  /// From the next fit on, saves to `plan.directory` while training goes on. Needs checkpoint/background.hpp.
  template <class Engine = engine_type>
  void save_while_training(checkpoint::save_plan const& plan) {
    saves_.reset();
    open_saves_ = background<Engine>::opener(plan);
  }

  /// Saves to that plan's directory now, unless this step is saved there already. @return the directory
  std::string save_numbered() {
    require(engine_.has_value(), "there is nothing to save yet", "trainer", "call attach, fit or load first");
    require(open_saves_ != nullptr, "there is no plan for numbered checkpoints", "trainer", "call save_while_training first");
    return together([&] {
      open_saves();
      return saves_->save_now(position_);
    });
  }

  /// Continues from a checkpoint made by a trainer with the same model, tables and optimizers, with any number of ranks.
  /// Needs checkpoint/checkpoint.hpp.
  template <class Engine = engine_type>
  void load(std::string const& directory) {
    together([&] {
      attach(checkpoints<Engine>::read_schema(directory));
      if (saves_) saves_->finish();
      saves_.reset();
      position_ = checkpoints<Engine>::load(*engine_, directory, loaded_);
    });
  }

  /// Hash over all rows with their state and all dense parameters; does not depend on the number of ranks.
  digest parameters_digest() {
    require(engine_.has_value(), "there are no parameters yet", "trainer", "call attach, fit or load first");
    return engine_->parameters_digest();
  }

  /// Not collective; may be called from any thread or on one rank only: all ranks stop after the same batch.
  void request_stop() {
    if (engine_) engine_->request_stop();
  }

  trainer_config const& config() const { return config_; }
  engine_type& engine() { return *engine_; }
  /// Seconds that stages ran on this rank, and that the compute lane stood idle because of them, since the first fit.
  trace::stage_times stage_times() {
    if constexpr (has_recorder) {
      return executor_.recorder().times();
    } else {
      trace::stage_times times;
      if (engine_) times.total = engine_->stage_seconds();
      return times;
    }
  }
  /// The variant of the schedule that is in use: as given, or as measured (trainer_config::tune_steps).
  Schedule const& schedule_in_use() const { return tuner_.active(); }
  /// For settings of the executor; before the first fit.
  Executor& executor() { return executor_; }
  /// Null while nothing is saved by save_while_training.
  engine::run_saves const* saves() const { return saves_.get(); }
  data::data_position position() const { return position_; }
  /// The first malformed lines that the last fit has met, as text.
  std::vector<std::string> complaints() const { return complaints_; }

 private:
  template <class Engine>
  struct checkpoints_of {
    static constexpr bool complete = requires { sizeof(checkpoint::trainer_access<Engine>); };
    static_assert(complete, "nestpipe: trainer.save and trainer.load need one more header: include <nestpipe/checkpoint/checkpoint.hpp>");
    using type = checkpoint::trainer_access<Engine>;
  };
  template <class Engine>
  using checkpoints = typename checkpoints_of<Engine>::type;
  template <class Engine>
  struct background_of {
    static constexpr bool complete = requires { sizeof(checkpoint::background_access<Engine>); };
    static_assert(complete, "nestpipe: trainer.save_while_training needs one more header: include <nestpipe/checkpoint/background.hpp>");
    using type = checkpoint::background_access<Engine>;
  };
  template <class Engine>
  using background = typename background_of<Engine>::type;

  static constexpr bool has_recorder = requires(Executor& e) { e.recorder(); };

  // Leaving by an exception must not leave the other ranks waiting, nor lanes running.
  template <class F>
  decltype(auto) together(F f) {
    try {
      return f();
    } catch (std::exception const& e) {
      leave(e.what());
      throw;
    } catch (...) {
      leave("unknown exception");
      throw;
    }
  }
  void leave(char const* why) noexcept {
    comm_.abort(why);
    executor_.stop();
    saves_.reset();
    started_ = false;
  }

  template <class Dataset, class AfterEpoch>
  fit_result run_fit(Dataset const& dataset, AfterEpoch& after_epoch) {
    if (open_saves_) open_saves();
    auto const begin = std::chrono::steady_clock::now();
    std::uint64_t const first_step = engine_->step();
    std::uint64_t const first_samples = engine_->samples();
    if (!started_) executor_.start(exec::work::of(*engine_));
    started_ = true;

    engine::feed source = make_feed(dataset);
    fit_result result;
    auto const measure = [&] {
      result.steps = engine_->step() - first_step;
      result.samples = engine_->samples() - first_samples;
      result.seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
      result.loss = loss_samples_ == 0 ? 0.0 : loss_sum_ / static_cast<double>(loss_samples_);
    };
    while (position_.epoch < config_.epochs && !finished() && !result.stopped) {
      epoch_ = position_.epoch;
      loss_sum_ = 0;
      loss_samples_ = 0;
      if (position_.row != 0) source.seek(position_);
      engine_->begin(source, epoch_, position_.row / rows_per_batch());
      batches_read_ = engine_->next_batch();
      bool ended = false;
      while (!ended && !finished() && !result.stopped) {
        std::uint64_t const first = engine_->next_batch();
        bool const trying = tuner_.next(policies_.schedule, config_.tune_steps);
        engine_->use_early_rows(schedule::early_rows(tuner_.active()));
        std::uint64_t const before = engine_->step();
        engine_->boundary_at(trying && (config_.steps == 0 || before + config_.tune_steps < config_.steps) ? before + config_.tune_steps : config_.steps);
        trace::stage_times const start = stage_times();
        if constexpr (has_recorder) executor_.recorder().pause();
        engine::pipeline p{*engine_, executor_, batches_read_};
        tuner_.active().run(p);
        if (saves_ && saves_->failed()) saves_->finish();
        if (trying) tuner_.tried(start, stage_times(), engine_->step() - before, engine_->control(), {"tune", engine_->step()});
        auto const& info = engine_->info(engine_->next_batch() - 1);
        ended = info.end;
        result.stopped = info.stop;
        if (info.stop) engine_->clear_stop();
        position_.row += (engine_->next_batch() - first) * rows_per_batch();
      }
      measure();
      if (!ended) break;  // steps or stop: the epoch goes on in the next call
      position_ = {epoch_ + 1, 0};
      if (!after_epoch(epoch_, result)) break;
    }
    if (saves_) saves_->finish();
    measure();
    complaints_ = source.complaints();
    return result;
  }

  template <class Dataset>
  metric::summary run_evaluate(Dataset const& dataset) {
    engine::feed source = make_feed(dataset);
    metric::collector collected;
    std::vector<float> scores, labels;
    std::size_t const outputs = engine_->model().outputs();
    engine_->score(source, 0, [&](sample_block const& block, std::span<float const> logits) {
      scores.resize(block.samples);
      labels.resize(block.samples);
      for (std::size_t i = 0; i < block.samples; ++i) {  // the first output and label are those that metrics judge
        scores[i] = engine_->model().score(logits[i * outputs]);
        labels[i] = block.labels[i * block.label_width];
      }
      collected.add(scores, labels);
    });
    collected.gather(engine_->control(), comm_.size(), {"evaluate", engine_->step()});
    return collected.summarize();
  }

  template <class Dataset>
  predictions run_predict(Dataset const& dataset) {
    engine::feed source = make_feed(dataset);
    predictions out;
    std::size_t const outputs = engine_->model().outputs();
    std::vector<std::size_t> order;
    predictions raw;
    engine_->score(source, 0, [&](sample_block const& block, std::span<float const> logits) {
      for (std::size_t i = 0; i < block.samples; ++i) {
        order.push_back(raw.row.size());
        raw.row.push_back(block.row[i]);
        for (std::size_t k = 0; k < outputs; ++k) raw.score.push_back(engine_->model().score(logits[i * outputs + k]));
      }
    });
    std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) { return raw.row[a] < raw.row[b]; });
    for (std::size_t const i : order) {
      out.row.push_back(raw.row[i]);
      out.score.insert(out.score.end(), raw.score.begin() + static_cast<std::ptrdiff_t>(i * outputs),
                       raw.score.begin() + static_cast<std::ptrdiff_t>((i + 1) * outputs));
    }
    return out;
  }

  void open_saves() {
    if (saves_) return;
    saves_ = open_saves_(*engine_, loaded_);
    loaded_.reset();
  }

  bool finished() const { return config_.steps != 0 && engine_->step() >= config_.steps; }
  std::size_t rows_per_batch() const { return config_.per_rank_files ? config_.batch_size / comm_.size() : config_.batch_size; }

  template <class Dataset>
  engine::feed make_feed(Dataset const& dataset) {
    return engine::feed::make(dataset, comm_, engine_->input(),
                              {config_.batch_size, config_.micro_batches, comm_.rank(), comm_.size(), config_.per_rank_files, &engine_->helpers()});
  }

  embedding_layout layout_for(schema const& columns) const {
    std::vector<table> tables = config_.tables;
    std::vector<feature> features = config_.features;
    if (features.empty()) {
      model::embedding_request const request = policies_.model.request(config_.dim);
      bool const own_tables = tables.empty();
      for (auto const& name : columns.features) {
        if (own_tables) tables.push_back({name, request.dim, request.init, 0.0f, config_.cardinality});
        features.push_back({name, name, request.pooling});
      }
    }
    require(features.size() == columns.features.size(), "the data has " + std::to_string(columns.features.size()) + " features but the configuration names " + std::to_string(features.size()),
            {}, "list one feature per categorical column, in the same order");
    for (std::size_t f = 0; f < features.size(); ++f) {
      require(features[f].name == columns.features[f], "feature " + std::to_string(f) + " of the configuration is " + features[f].name + " but the data has " + columns.features[f],
              {}, "list the features in the order of the data");
    }
    return {std::move(tables), std::move(features)};
  }

  trainer_config config_;
  Comm comm_;
  policies policies_;
  schema columns_;
  std::optional<engine_type> engine_;
  std::function<std::unique_ptr<engine::run_saves>(engine_type&, std::shared_ptr<void const> const&)> open_saves_;
  std::unique_ptr<engine::run_saves> saves_;  // behind what it uses, so that it goes first
  std::shared_ptr<void const> loaded_;        // the chain of checkpoints that training goes on from
  Executor executor_;
  engine::schedule_tuner<Schedule> tuner_;
  bool started_ = false;
  std::uint64_t batches_read_ = 0;
  std::uint64_t epoch_ = 0;
  data::data_position position_;
  double loss_sum_ = 0;
  std::uint64_t loss_samples_ = 0;
  std::vector<std::string> complaints_;
};

}  // namespace nestpipe
