#pragma once
/// @file
/// Numbered checkpoints of a run, written while training goes on.
///
/// Behind a batch that is due, the compute lane copies the dense parameters and the lookup lane begins to take the rows out,
/// as they are at that moment (engine/row_snapshot.hpp); a thread of its own writes them (save_thread.hpp). No lane waits:
/// that a rank's files are complete, that the checkpoint is in its place, that something failed, travels with the counts of
/// `route`, so every rank knows it behind the same batch. What the files hold is what a save at a boundary there would hold.
///
/// *Incremental*: the keys of rows that change are noted, and a save writes those alone (a delta, which names the checkpoint
/// before it by directory and manifest checksum). A full one comes after `longest_chain` deltas, and when too many keys were
/// touched.

#include <nestpipe/checkpoint/checkpoint.hpp>
#include <nestpipe/checkpoint/save_plan.hpp>
#include <nestpipe/checkpoint/save_thread.hpp>
#include <nestpipe/engine/save_hooks.hpp>

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace nestpipe::checkpoint {

/// One per rank, for one engine. Members are collective with lanes idle, unless they are hooks.
template <class Engine>
class background_save final : public engine::run_saves, public engine::save_hooks, private engine::chunk_sink {
 public:
  /// @throws config_error  @param first_step  saves of this step and earlier ones are there already or not wanted
  background_save(Engine& engine, save_plan plan)
      : engine_{engine}, plan_{std::move(plan)}, thread_{engine.comm().rank(), engine.comm().size()}, last_step_{engine.step()} {
    require(!plan_.directory.empty(), "numbered checkpoints need a directory", "save plan", "name one");
    std::string nonce = rank() == 0 ? detail::fresh_id() : std::string(16, '0');
    engine_.control().broadcast(std::as_writable_bytes(std::span{nonce.data(), nonce.size()}), 0, at());
    parse_hex64(nonce, nonce_);
    detail::together(engine_.control(), rank(), ranks(), "cannot save to " + plan_.directory.string(), at(), [&] {
      if (rank() == 0) require_no_later(plan_.directory, engine_.step());
    });
    engine_.rows().note_touched(plan_.incremental);
    engine_.use_saves(this);
  }
  ~background_save() override {
    thread_.stop();
    engine_.use_saves(nullptr);
    engine_.rows().cancel_snapshot();
  }

  /// Training goes on from this chain: a delta may follow it, if it is one of this run's.
  void follow(std::vector<chain_link> const& chain) {
    last_step_ = engine_.step();
    due_ = false;
    std::error_code none;
    published_any_ = !chain.empty() && std::filesystem::equivalent(chain.back().directory.parent_path(), plan_.directory, none) &&
                     chain.back().directory.filename() == step_directory({}, chain.back().saved.step).filename();
    if (!published_any_ || !plan_.incremental) return;
    parent_ = {chain.back().directory.filename().string(), chain.back().checksum};
    chain_ = chain.size() - 1;
    std::uint64_t rows = 0;
    for (std::size_t t = 0; t < engine_.rows().tables(); ++t) rows += engine_.rows().store(t).size();
    set_limit(rows);
    engine_.rows().start_touched();
  }

  /// Saves now, unless there is nothing new, and waits for it. @return the directory. @throws as finish
  std::string save_now(data::data_position position) override {
    finish();
    std::filesystem::path const directory = step_directory(plan_.directory, engine_.step());
    if (last_step_ == engine_.step() && published_any_) return directory.string();
    std::uint64_t const mine = wants_all() ? 1 : 0;
    std::vector<std::uint64_t> all(ranks());
    engine_.control().all_gather(std::as_bytes(std::span{&mine, 1}), std::as_writable_bytes(std::span{all}), at());
    std::uint64_t wanting = 0;
    for (std::uint64_t const n : all) wanting += n;
    begin({engine_.step(), engine_.samples(), position}, wanting == 0 && !forgotten_);
    take_dense(engine_.dense().values(), engine_.dense().state());
    engine_.rows().begin_snapshot(take_rows());
    finish();
    return directory.string();
  }

  /// Waits for a save under way, if there is one.
  /// @throws error, config_error on all ranks if one could not write; the checkpoints before it stay
  void finish() override {
    if (!busy_) return;
    std::string const what = "cannot save the checkpoint " + directory_.string();
    engine_.rows().finish_snapshot();
    try {
      detail::together(engine_.control(), rank(), ranks(), what, at(), [&] { thread_.wait_written(); });
      detail::together(engine_.control(), rank(), ranks(), what, at(), [&] {
        if (rank() != 0) return;
        if (!told_) thread_.publish();
        thread_.wait_published();
      });
    } catch (...) {
      thread_.stop();
      busy_ = false;
      parent_ = {};
      throw;
    }
    published();
  }

  /// Whether a save failed during the last run of batches: then finish() throws.
  bool failed() const override { return failed_; }
  std::uint64_t saves() const override { return saves_; }
  /// Of the last step that is saved.
  std::uint64_t last_step() const override { return last_step_; }
  save_plan const& plan() const { return plan_; }

  // Hooks.

  void say(engine::batch_header& mine) override {
    mine.save_written = busy_ && thread_.written() ? 1 : 0;
    mine.save_published = busy_ && thread_.published() && rank() == 0 ? 1 : 0;
    mine.save_failed = busy_ && thread_.failed() ? 1 : 0;
    mine.save_all = wants_all() ? 1 : 0;
  }

  engine::save_decision agree(engine::batch_header const& total, engine::save_point const& behind, bool trained) override {
    if (busy_ && total.save_failed != 0) failed_ = true;
    if (failed_) return {false, true};
    if (busy_ && total.save_published != 0) {
      published();
    } else if (busy_ && total.save_written == ranks() && !told_) {
      told_ = true;
      if (rank() == 0) thread_.publish();
    }
    forgotten_ = forgotten_ || total.save_all != 0;
    if (!trained) return {};
    due_ = due_ || (plan_.every != 0 && behind.step % plan_.every == 0 && behind.step > last_step_);
    if (!due_ || busy_) return {};
    begin(behind, !forgotten_);
    return {true, false};
  }

  void take_dense(std::span<float const> values, std::span<float const> state) override { thread_.take_dense(values, state); }

  engine::snapshot_request take_rows() override {
    starting_ = false;
    std::uint64_t const ops = plan_.spread != 0 ? plan_.spread : plan_.every / 2;
    return {this, delta_, std::max<std::uint64_t>(ops, 1), plan_.least_bytes, plan_.chunk_bytes};
  }

 private:
  std::size_t rank() { return engine_.comm().rank(); }
  std::size_t ranks() { return engine_.comm().size(); }
  comm::call_site at() { return {"save", engine_.step()}; }

  bool wants_all() const { return plan_.incremental && !starting_ && engine_.rows().touched() > limit_.load(std::memory_order_relaxed); }
  void set_limit(std::uint64_t rows) {
    double const share = plan_.most_changed * static_cast<double>(rows);
    limit_ = share < static_cast<double>(plan_.most_touched) ? static_cast<std::uint64_t>(share) : plan_.most_touched;
  }

  // On the route lane or with lanes idle; alike on every rank.
  void begin(engine::save_point const& point, bool touched_known) {
    due_ = false;
    forgotten_ = false;
    starting_ = true;
    busy_ = true;
    told_ = false;
    directory_ = step_directory(plan_.directory, point.step);
    delta_ = plan_.incremental && touched_known && !parent_.directory.empty() && chain_ < plan_.longest_chain;
    step_ = point.step;
    save_job job;
    job.directory = detail::normal_directory(directory_);
    job.id = hex64(mix64(nonce_, ++begun_));
    job.described = describe(engine_, point.position);
    job.described.step = point.step;
    job.described.samples = point.samples;
    for (std::size_t t = 0; t < engine_.rows().tables(); ++t) job.places.push_back(detail::place_of(engine_, t, rank(), ranks()));
    if (delta_) job.described.parent = parent_;
    job.delta = delta_;
    job.keep = plan_.keep;
    thread_.begin(std::move(job));
  }

  void published() {
    busy_ = false;
    published_any_ = true;
    last_step_ = step_;
    ++saves_;
    chain_ = delta_ ? chain_ + 1 : 0;
    parent_ = {directory_.filename().string(), thread_.manifest_checksum()};
  }

  // As a sink: the thread's, but that the rows at the last save decide how many touched ones are too many.
  std::unique_ptr<engine::row_chunk> fresh() override { return thread_.fresh(); }
  void take(std::unique_ptr<engine::row_chunk> chunk) override { thread_.take(std::move(chunk)); }
  bool keeps_up() const override { return thread_.keeps_up(); }
  void complete(std::vector<std::uint64_t> rows, std::string problem) override {
    std::uint64_t sum = 0;
    for (std::uint64_t const n : rows) sum += n;
    set_limit(sum);
    thread_.complete(std::move(rows), std::move(problem));
  }

  Engine& engine_;
  save_plan plan_;
  save_thread thread_;
  std::uint64_t nonce_ = 0;
  std::uint64_t begun_ = 0;
  std::atomic<std::uint64_t> limit_{~std::uint64_t{0}};
  std::atomic<bool> starting_{false};  // between the decision to save and the moment that is saved: what is noted goes into it

  // Of the route lane; the same on every rank, but for the checksum of the parent.
  bool busy_ = false;
  bool told_ = false;      // all ranks have written
  bool due_ = false;
  bool delta_ = false;
  bool failed_ = false;
  bool forgotten_ = false; // the touched keys, on some rank
  bool published_any_ = false;
  std::uint64_t step_ = 0;       // of the save under way
  std::uint64_t last_step_ = 0;
  std::uint64_t saves_ = 0;
  std::filesystem::path directory_;
  parent_entry parent_;
  std::size_t chain_ = 0;        // deltas behind the last full one
};

/// What nestpipe::trainer calls.
template <class Engine>
struct background_access {
  static std::function<std::unique_ptr<engine::run_saves>(Engine&, std::shared_ptr<void const> const&)> opener(save_plan const& plan) {
    return [plan](Engine& e, std::shared_ptr<void const> const& loaded) -> std::unique_ptr<engine::run_saves> {
      auto saves = std::make_unique<background_save<Engine>>(e, plan);
      saves->follow(loaded == nullptr ? std::vector<chain_link>{} : *static_cast<std::vector<chain_link> const*>(loaded.get()));
      return saves;
    };
  }
};

}  // namespace nestpipe::checkpoint
