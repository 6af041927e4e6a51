#pragma once
/// @file
/// The stages of a step, once, whatever the schedule. `execute(op)` runs one; the order is somebody else's business.

#include <nestpipe/comm/comm.hpp>
#include <nestpipe/embedding/cluster.hpp>
#include <nestpipe/engine/agreed_digest.hpp>
#include <nestpipe/engine/batch.hpp>
#include <nestpipe/engine/config.hpp>
#include <nestpipe/engine/dense_part.hpp>
#include <nestpipe/engine/exchanger.hpp>
#include <nestpipe/engine/feed.hpp>
#include <nestpipe/engine/look_ahead.hpp>
#include <nestpipe/engine/micro_batch.hpp>
#include <nestpipe/engine/micro_groups.hpp>
#include <nestpipe/engine/not_finite.hpp>
#include <nestpipe/engine/parts.hpp>
#include <nestpipe/engine/reduction_buckets.hpp>
#include <nestpipe/engine/router.hpp>
#include <nestpipe/engine/row_part.hpp>
#include <nestpipe/engine/save_hooks.hpp>
#include <nestpipe/engine/step_work.hpp>
#include <nestpipe/engine/version_ledger.hpp>
#include <nestpipe/exec/stage.hpp>
#include <nestpipe/exec/worker_pool.hpp>
#include <nestpipe/reduction/reduction.hpp>

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cmath>
#include <exception>

namespace nestpipe::engine {

/// The engine of one rank. Stages of different lanes run at the same time; what they share is ordered by events.
/// @tparam Space  where windows, landing buffers and embedding arithmetic are: see engine/parts.hpp
template <class Model, class Storage, class Comm, class RowOptimizer, class DenseOptimizer, class Reduction, class Space = exec::host>
class engine {
  using parts_type = parts<Space>;

 public:
  using channel_type = comm::channel_t<Comm>;
  using rows_type = typename parts_type::template rows<Storage, RowOptimizer>;
  using window_type = typename parts_type::window;
  using buffer_type = typename parts_type::buffer;

  /// Collective: opens the channels. @throws config_error on values that do not fit together
  engine(engine_config config, Model model, Storage const& storage, Comm comm, RowOptimizer const& row_optimizer,
         DenseOptimizer const& dense_optimizer, Reduction reduction)
      : config_{checked(std::move(config), comm.size())},
        groups_{config_.micro_batches, config_.threads},
        helpers_{config_.threads},
        model_{std::move(model)},
        comm_{std::move(comm)},
        rows_{storage, row_optimizer},
        dense_{dense_optimizer},
        reduction_{std::move(reduction)},
        router_{comm_.channel("route"), shape(config_, comm_.size(), rows_.admits()), config_.windows > 1},
        exchanger_{comm_.channel("exchange")},
        reduce_channel_{comm_.channel("reduce")},
        control_{comm_.channel("control")},
        input_{comm_.channel("input")} {
    model_.attach({config_.schema, config_.layout, config_.task});
    rows_.open(config_.layout, config_.seed, static_cast<std::uint32_t>(comm_.rank()), static_cast<std::uint32_t>(comm_.size()), config_.shards);
    dense_.open(model_.parameters(), config_.seed);
    // One float more than there are parameters: the loss travels with the gradient, in the same fixed order.
    reduction_.open({dense_.size() + 1, config_.micro_batches, comm_.rank(), comm_.size()});
    if constexpr (rows_type::stamped) ledger_.open(config_.layout.tables().size(), config_.slots);
    buckets_ = reduction_buckets(model_, dense_.size(), config_.dense_buckets);
    gradient_.resize(dense_.size());
    slots_.resize(config_.slots);
    look_ahead_.open(config_.slots);
    for (std::size_t t = 0; t < rows_.tables(); ++t) stored_floats_.push_back(rows_.stored_floats(t));
    windows_.resize(config_.windows);
    micro_ = std::vector<micro_type>(groups_.buffers());
    landing_ = std::vector<buffer_type>(groups_.buffers());
    key_gradients_ = std::vector<buffer_type>(groups_.buffers());
    micro_loss_.assign(groups_.buffers(), 0.0f);
    for (auto& w : windows_) rows_.shape(w);
  }

  engine(engine const&) = delete;
  engine& operator=(engine const&) = delete;

  /// Runs one stage. Called by an executor's lanes.
  void execute(exec::op const& o) {
    auto const begin = std::chrono::steady_clock::now();
    try {
      run(o);
    } catch (...) {
      std::uint64_t none = 0;  // of several that fail, the first is the cause
      failing_.compare_exchange_strong(none, (static_cast<std::uint64_t>(o.what) + 1) << 56 | (o.what <= exec::stage::route ? o.batch + 1 : slots_[o.batch % slots_.size()].info.step));
      throw;
    }
    stage_seconds_[static_cast<std::size_t>(o.what)] += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  }

  /// A lane failed: the other ranks must not wait for this one.
  void failed(std::exception_ptr cause) noexcept {
    try {
      std::rethrow_exception(cause);
    } catch (comm_error const& e) {  // says where by itself
      comm_.abort(e.what());
    } catch (std::exception const& e) {
      comm_.abort(e.what() + failing_stage());
    } catch (...) {
      comm_.abort("unknown exception" + failing_stage());
    }
  }

  // What the trainer sets at a boundary, when no lane runs.

  /// Batches of `epoch` come next, from `first_index` on; batch numbers go on counting.
  void begin(feed source, std::uint64_t epoch, std::uint64_t first_index) {
    feed_ = std::move(source);
    last_routed_ = nullptr;
    epoch_ = epoch;
    epoch_base_ = next_batch_ - first_index;
  }
  /// The step after which the next boundary must be (as seen by every rank alike); 0: none but the end of the epoch.
  void boundary_at(std::uint64_t step) { boundary_step_ = step; }
  /// Whether the first exchange of a batch comes in two portions from now on; the same on every rank.
  void use_early_rows(bool on) {
    require(!on || config_.windows == 2, "early rows need two windows", "schedule", "use dual_buffer");
    config_.early_rows = on;
  }
  void rate_factors(optimizer::rate_schedule rows, optimizer::rate_schedule dense) {
    row_rate_ = rows;
    dense_rate_ = dense;
  }
  /// Who saves parameters while training goes on; null for nobody. Must outlive its use.
  void use_saves(save_hooks* hooks) { saves_ = hooks; }
  /// Asks for a boundary at the next routed batch of any rank.
  void request_stop() { stop_requested_.store(true, std::memory_order_relaxed); }
  void clear_stop() { stop_requested_.store(false, std::memory_order_relaxed); }
  void set_progress(std::uint64_t step, std::uint64_t samples) {
    step_ = step;
    samples_ = samples;
  }

  /// The window of a batch in flight; for tools and tests, from within an op of that batch.
  window_type& window_of(std::uint64_t batch) { return window(slots_[batch % slots_.size()]); }

  std::uint64_t next_batch() const { return next_batch_; }
  batch_info const& info(std::uint64_t batch) const { return slots_[batch % slots_.size()].info; }
  engine_config const& config() const { return config_; }
  /// What one op of the schedule handles of a batch's micro-batches.
  micro_groups const& groups() const { return groups_; }
  /// The threads of this rank beside its lanes.
  exec::worker_pool& helpers() { return helpers_; }
  std::uint64_t step() const { return step_; }
  std::uint64_t samples() const { return samples_; }
  /// Data rows and malformed rows routed so far, over all ranks.
  std::uint64_t data_rows() const { return data_rows_; }
  std::uint64_t malformed() const { return malformed_; }
  /// Mean loss of the batch that was updated last, the same on every rank.
  double batch_loss() const { return batch_loss_; }
  std::array<double, exec::stage_count> const& stage_seconds() const { return stage_seconds_; }
  Model const& model() const { return model_; }
  /// Parts of the dense reduction, in the order in which backward has them. The loss is the element behind the parameters.
  std::span<model::parameter_range const> buckets() const { return buckets_; }
  auto& rows() { return rows_; }
  auto const& rows() const { return rows_; }
  auto& dense() { return dense_; }
  auto const& dense() const { return dense_; }
  Comm& comm() { return comm_; }
  channel_type& control() { return control_; }
  channel_type& input() { return input_; }

  /// Violations counted on this rank; only with a storage that stamps rows (storage::audited). Lanes must be idle.
  storage::audit_counters audit_results() const
    requires rows_type::stamped
  {
    storage::audit_counters sum;
    sum.stale_reads = ledger_.stale_reads();
    for (std::size_t t = 0; t < rows_.tables(); ++t) {
      sum.use_after_evict += rows_.store(t).audit_results().use_after_evict;
      sum.lost_updates += rows_.store(t).audit_results().lost_updates;
    }
    return sum;
  }

  /// Bytes that this rank has sent as rows and received as gradients, its own share included, and those its landing buffers hold.
  struct exchange_bytes {
    std::uint64_t rows = 0, gradients = 0, landing = 0;
  };
  exchange_bytes exchanged() const {
    std::uint64_t floats = 0;
    for (auto const& l : landing_) floats += l.capacity();
    return {exchanger_.row_bytes(), exchanger_.gradient_bytes(), floats * sizeof(float)};
  }

  /// How much work this rank's steps were so far. Lanes must be idle.
  step_work work() const {
    step_work w = work_;
    w.micro_batches = static_cast<double>(config_.micro_batches);
    w.add_dense(model_);
    return w;
  }

  /// What clustering has saved of this rank's rows, over all batches read. Lanes must be idle.
  embedding::cluster_result const& clustered() const { return clustered_; }

  /// Called on the compute lane after every update: (step, samples of the batch, mean loss).
  std::function<void(std::uint64_t, std::uint64_t, double)> on_update;

  /// Scores samples without training: route, read rows (creating none), forward. Collective; lanes must be idle.
  /// @param sink  (row numbers, labels (n, label width), logits (n, outputs)) of this rank's samples, micro-batch by micro-batch
  template <class Sink>
  void score(feed& source, std::uint64_t epoch, Sink sink) {
    for (std::uint64_t b = 0;; ++b) {
      source.read(epoch, b, b, scoring_);
      batch_header const total = router_.route(config_.layout, scoring_, header(scoring_), {"route (evaluation)", b});
      rows_.retrieve(scoring_.owner, windows_[0], absent_row::missing, helpers_);
      for (std::size_t j = 0; j < config_.micro_batches; ++j) {
        exchanger_.rows(router_.shape(), scoring_, j, exec::portion::all, windows_[0], landing_[0], {"exchange_rows (evaluation)", b});
        sample_block const& block = scoring_.blocks[j];
        micro_[0].forward(model_, dense_.values().data(), config_.layout, block, scoring_.source.micro[j], landing_[0].data());
        sink(block, micro_[0].logits());
      }
      if (total.end == comm_.size()) return;
    }
  }

  /// The 128-bit digest of all rows and dense parameters. Collective; lanes must be idle.
  /// @throws error if the dense parameters of two ranks differ
  digest parameters_digest() {
    digest own;
    rows_.add_to(own);
    digest replica;
    dense_.add_to(replica);
    return agreed_digest(control_, own, replica, comm_.size(), step_);
  }

 private:
  using micro_type = typename parts_type::template micro<Model>;

  static embedding::route_shape shape(engine_config const& c, std::size_t world_size, bool count) {
    return {static_cast<std::uint32_t>(world_size), static_cast<std::uint32_t>(c.micro_batches),
            static_cast<std::uint32_t>(c.layout.tables().size()), c.shards, c.reuse_rows, count};
  }

  void run(exec::op const& o) {
    using exec::stage;
    batch_slot& slot = slots_[o.batch % slots_.size()];
    comm::call_site const at{exec::name(o.what).data(), slot.info.step};
    switch (o.what) {
      case stage::read: read(o.batch, slot); break;
      case stage::stage: break;  // host memory is the compute space
      case stage::route: route(o.batch, slot); break;
      case stage::retrieve:
        if constexpr (rows_type::looks_ahead) {
          look_ahead_.take([&](batch_slot const& coming) { rows_.expect(coming.info.step, coming.owner); });
          rows_.reached(slot.info.step);
        }
        rows_.retrieve(slot.owner, window(slot), absent_row::initial, helpers_);
        rows_.advance_snapshot();
        break;
      case stage::refresh:
        if (slot.before != nullptr) rows_.refresh(slot.shared, window(*slot.before), window(slot), helpers_);
        break;
      case stage::exchange_rows:
        for (std::size_t k = 0; k < groups_.size(o.part); ++k) {
          std::size_t const j = groups_.first(o.part) + k;
          if constexpr (rows_type::stamped) check_versions(slot, o, j);
          exchanger_.rows(router_.shape(), slot, j, o.rows, window(slot), landing(slot, o.part, k), at);
        }
        break;
      case stage::forward_backward: forward_backward(slot, o.part); break;
      case stage::weight_gradients: weight_gradients(slot, o); break;
      case stage::exchange_gradients:
        for (std::size_t k = 0; k < groups_.size(o.part); ++k)
          exchanger_.gradients(router_.shape(), slot, groups_.first(o.part) + k, key_gradients_[buffer(slot, o.part, k)], window(slot), at);
        break;
      case stage::reduce_dense: reduction_.reduce(reduce_channel_, buckets_[o.part].first, buckets_[o.part].last, at); break;
      case stage::update_rows:
        rows_.update(slot.owner, window(slot), o.rows == exec::portion::late ? &slot.after->shared : nullptr, o.rows,
                     {config_.row_clip_norm}, slot.info.step, row_rate_.factor(slot.info.step), helpers_);
        break;
      case stage::update_dense: update_dense(slot); break;
      case stage::write_back:
        rows_.write_back(slot.owner, window(slot), helpers_);
        if (slot.info.forget_touched) rows_.forget_touched();
        if (slot.info.save) rows_.begin_snapshot(saves_->take_rows());
        break;
    }
  }

  void read(std::uint64_t batch, batch_slot& slot) {
    feed_.read(epoch_, batch - epoch_base_, batch, slot);
    clustered_ += cluster_.apply(config_.layout, slot.blocks, config_.cluster, config_.cluster_groups / static_cast<std::uint32_t>(comm_.size()));
  }

  // Windows alternate over trained batches: one without samples uses none.
  window_type& window(batch_slot const& slot) { return windows_[slot.info.step % windows_.size()]; }

  std::size_t buffer(batch_slot const& slot, std::size_t group, std::size_t k) const { return groups_.buffer(slot.info.step, group, k); }

  // Rows that are used again stay for the whole batch, so the two buffers alternate over batches.
  buffer_type& landing(batch_slot const& slot, std::size_t group, std::size_t k) {
    return landing_[config_.reuse_rows ? slot.info.step % 2 : buffer(slot, group, k)];
  }

  batch_header header(batch_slot const& slot) const {
    batch_header h;
    for (auto const& block : slot.blocks) {
      h.samples += block.samples;
      h.malformed += block.malformed;
    }
    // Rows that all ranks have framed are counted once.
    h.rows = !slot.read.shared || comm_.rank() == 0 ? slot.read.rows : 0;
    h.end = slot.read.end ? 1 : 0;
    return h;
  }

  void route(std::uint64_t batch, batch_slot& slot) {
    batch_header mine = header(slot);
    mine.stop = stop_requested_.load(std::memory_order_relaxed) ? 1 : 0;
    if (saves_ != nullptr) saves_->say(mine);
    batch_header const total = router_.route(config_.layout, slot, mine, {"route", step_ + 1});
    if (total.samples != 0) ++step_;
    samples_ += total.samples;
    data_rows_ += total.rows;
    malformed_ += total.malformed;
    bool const end = total.end == comm_.size();
    save_decision decided;
    if (saves_ != nullptr) decided = saves_->agree(total, {step_, samples_, position_behind(batch, end)}, total.samples != 0);
    slot.info = {batch, step_, total.samples, total.rows, total.malformed, end, total.stop != 0,
                 end || total.stop != 0 || decided.failed || (boundary_step_ != 0 && step_ >= boundary_step_), decided.take, total.save_all != 0};
    next_batch_ = batch + 1;
    work_.add(config_.layout, slot, stored_floats_);
    check_readable(end);
    if (total.samples != 0) {
      if constexpr (storage::may_refuse<Storage>) rows_.admit(slot.owner);
      if constexpr (rows_type::stamped) ledger_.routed(slot, batch % slots_.size());
      follow(slot);
      if constexpr (rows_type::looks_ahead) look_ahead_.post(slot);
    }
  }

  data::data_position position_behind(std::uint64_t batch, bool end) const {
    if (end) return {epoch_ + 1, 0};
    return {epoch_, (batch + 1 - epoch_base_) * (config_.per_rank_files ? config_.batch_size / comm_.size() : config_.batch_size)};
  }

  // Every row about to be sent must carry the last update before this batch.
  void check_versions(batch_slot const& slot, exec::op const& o, std::size_t j) {
    bool const split = slot.source.micro[j].split;
    if (!split && o.rows == exec::portion::early) return;
    std::vector<std::uint32_t> chosen;
    for (std::size_t r = 0; r < router_.shape().world_size; ++r) {
      for (std::size_t t = 0; t < rows_.tables(); ++t) {
        chosen.clear();
        for (std::uint32_t const s : slot.owner.row_list(router_.shape(), r, j, t)) {
          bool const late = split && slot.shared.late(t)[s] != 0;
          if (!split || o.rows == exec::portion::all || late == (o.rows == exec::portion::late)) chosen.push_back(s);
        }
        ledger_.sent(o.batch % slots_.size(), t, chosen, window(slot));
      }
    }
  }

  // Compares the batch with the trained one before it, whose rows may still be on their way to storage.
  void follow(batch_slot& slot) {
    // Past so many empty batches the slot of the last trained one is in use again; its rows are in storage by then.
    bool const near = last_routed_ != nullptr && slot.info.batch - last_routed_->info.batch < slots_.size();
    slot.before = near ? last_routed_ : nullptr;
    slot.after = nullptr;
    last_routed_ = slot.info.boundary ? nullptr : &slot;
    if (config_.windows == 1) return;
    std::size_t const tables = config_.layout.tables().size();
    if (slot.before == nullptr) {
      slot.shared.clear(slot.owner, tables);
      return;
    }
    slot.shared.build(slot.before->owner, slot.owner, tables);
    slot.before->after = &slot;
    if (config_.early_rows) router_.split_first(config_.layout, slot, {"route", slot.info.step});
  }

  // Every rank sees the same counts, so all of them stop together.
  void check_readable(bool end) const {
    if (samples_ != 0 || malformed_ == 0 || !(malformed_ >= 1000 || end)) return;
    auto const lines = feed_.complaints();
    throw data_error{"no usable line among the first " + std::to_string(malformed_), lines.empty() ? std::string{} : "first: " + lines.front(),
                     "check the format and the columns named on the command line"};
  }

  void forward_backward(batch_slot const& slot, std::size_t group) {
    typename parts_type::lane const lane{};
    helpers_.run(groups_.size(group), [&](std::size_t k) {
      [[maybe_unused]] auto const borrowed = lane.borrow();
      std::size_t const j = groups_.first(group) + k, at = buffer(slot, group, k);
      auto& micro = micro_[at];
      sample_block const& block = slot.blocks[j];
      auto const& route = slot.source.micro[j];
      float const* const values = dense_.values().data();
      float const* const rows = landing(slot, group, k).data();
      micro.forward(model_, values, config_.layout, block, route, rows);
      double const loss = micro.loss(model_, 1.0f / static_cast<float>(slot.info.samples));
      micro_loss_[at] = static_cast<float>(loss / static_cast<double>(slot.info.samples));
      // Looked for here, while nobody else writes these rows; update_dense tells.
      if constexpr (requires { landing(slot, group, k).span(); }) {  // rows in device memory are left out
        if (!std::isfinite(loss)) {
          std::size_t const table = table_not_finite(config_.layout, route, rows);
          if (table < config_.layout.tables().size()) table_not_finite_ = table;
        }
      }
      key_gradients_[at].resize(route.floats);
      micro.backward_inputs(model_, values, config_.layout, block, route, rows, key_gradients_[at].data());
    });
  }

  void weight_gradients(batch_slot const& slot, exec::op const& o) {
    std::size_t const group = o.part, first = groups_.first(group), members = groups_.size(group);
    model::parameter_range const range = o.buckets == 1 ? model::parameter_range{0, dense_.size() + 1} : buckets_[o.bucket];
    helpers_.run(members, [&](std::size_t k) {
      std::size_t const at = buffer(slot, group, k);
      std::span<float> const leaf = reduction_.leaf(first + k);
      if (o.buckets == 1) {
        micro_[at].backward_weights(model_, dense_.values().data(), leaf.data());
      } else {
        micro_[at].backward_weights_bucket(model_, o.bucket, dense_.values().data(), leaf.data());
      }
      if (range.last == leaf.size()) leaf[dense_.size()] = micro_loss_[at];
    });
    // Every element is added up in ascending order of micro-batches; elements are independent of each other.
    if (config_.micro_batches > 1) {
      helpers_.ranges(range.size(), small_part, [&](std::size_t from, std::size_t to) {
        for (std::size_t k = 0; k < members; ++k) reduction_.add(first + k, range.first + from, range.first + to);
      });
    } else {
      reduction_.add(first, range.first, range.last);
    }
  }

  void update_dense(batch_slot const& slot) {
    std::span<float const> const sum = reduction_.result();
    batch_loss_ = sum[dense_.size()];
    if (!std::isfinite(batch_loss_)) {
      throw error{"the loss is not finite", "step " + std::to_string(slot.info.step) + where_not_finite(sum, dense_, config_.layout, table_not_finite_.load()),
                  "lower the learning rate, clip gradients, or check the dense columns"};
    }
    std::copy_n(sum.data(), gradient_.size(), gradient_.data());
    dense_.update(gradient_.span(), {config_.dense_clip_norm}, slot.info.step, dense_rate_.factor(slot.info.step), helpers_);
    if (slot.info.save) saves_->take_dense(dense_.values(), dense_.state());
    if (on_update) on_update(slot.info.step, slot.info.samples, batch_loss_);
  }

  std::string failing_stage() const {
    std::uint64_t const where = failing_.load();
    if (where == 0) return {};
    auto const what = static_cast<exec::stage>((where >> 56) - 1);
    return " (in " + std::string{exec::name(what)} + (what <= exec::stage::route ? ", batch " : ", step ") + std::to_string(where & 0xffffffffffffffULL) + ")";
  }

  static constexpr std::size_t small_part = 16'384;  // floats: less is not worth waking a thread for

  engine_config config_;
  micro_groups groups_;
  exec::worker_pool helpers_;
  Model model_;
  Comm comm_;
  rows_type rows_;
  version_ledger ledger_;  // used when rows carry stamps
  look_ahead look_ahead_;  // used when stores look ahead
  dense_part<DenseOptimizer> dense_;
  Reduction reduction_;
  router<channel_type> router_;
  typename parts_type::template exchange<channel_type> exchanger_;
  channel_type reduce_channel_;
  channel_type control_;
  channel_type input_;

  feed feed_;
  embedding::cluster cluster_;  // used on the input lane only
  embedding::cluster_result clustered_;
  std::uint64_t epoch_ = 0;
  std::uint64_t epoch_base_ = 0;  // number of the epoch's batch 0
  std::uint64_t next_batch_ = 0;
  std::uint64_t boundary_step_ = 0;
  std::atomic<bool> stop_requested_{false};
  save_hooks* saves_ = nullptr;
  std::atomic<std::size_t> table_not_finite_{~std::size_t{0}};
  std::atomic<std::uint64_t> failing_{0};  // stage + 1 in the first byte, then batch or step
  optimizer::rate_schedule row_rate_, dense_rate_;

  std::vector<batch_slot> slots_;
  batch_slot scoring_;
  batch_slot* last_routed_ = nullptr;  // the last trained batch of this run
  std::vector<window_type> windows_;
  // By buffer of a group's member.
  std::vector<micro_type> micro_;
  std::vector<buffer_type> landing_;
  std::vector<buffer_type> key_gradients_;
  std::vector<float> micro_loss_;
  std::vector<model::parameter_range> buckets_;
  exec::buffer<float> gradient_;

  // Counted in route, on the route lane.
  std::uint64_t step_ = 0;
  std::uint64_t samples_ = 0;
  std::uint64_t data_rows_ = 0;
  std::uint64_t malformed_ = 0;
  step_work work_;
  std::vector<std::size_t> stored_floats_;
  double batch_loss_ = 0;
  std::array<double, exec::stage_count> stage_seconds_{};
};

}  // namespace nestpipe::engine
