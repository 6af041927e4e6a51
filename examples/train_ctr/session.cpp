#include "session.hpp"

#include "files.hpp"
#include "inputs.hpp"
#include "monitor.hpp"
#include "policies.hpp"
#include "report.hpp"

#include <nestpipe/checkpoint/background.hpp>
#include <nestpipe/checkpoint/numbered.hpp>
#include <nestpipe/checkpoint/checkpoint.hpp>
#include <nestpipe/engine/gather_trace.hpp>
#include <nestpipe/engine/measure_limits.hpp>
#include <nestpipe/trace/svg.hpp>

#include <chrono>
#include <cmath>
#include <filesystem>
#include <limits>
#include <random>
#include <sstream>
#include <thread>

namespace train_ctr {
namespace {

using clock = std::chrono::steady_clock;
using data_set = nestpipe::data::any_dataset;

double since(clock::time_point begin) { return std::chrono::duration<double>(clock::now() - begin).count(); }

/// Where the best epoch is kept: the user's directory, or one that goes away with the run.
class best_place {
 public:
  best_place(options const& o, trainer& t, std::size_t rank) : path_{o.save_best}, rank_{rank} {
    if (!path_.empty()) return;
    temporary_ = true;
    std::array<char, 512> name{};
    if (rank == 0) {
      std::random_device random;
      std::string const text = (std::filesystem::temp_directory_path() / ("train_ctr-" + std::to_string(::getpid()) + "-" + std::to_string(random()))).string();
      if (text.size() < name.size()) text.copy(name.data(), text.size());
    }
    t.engine().control().broadcast(std::as_writable_bytes(std::span{name}), 0, {"set up", 0});
    path_ = name.data();
  }
  best_place(best_place const&) = delete;
  best_place& operator=(best_place const&) = delete;
  ~best_place() {
    std::error_code ignored;
    if (temporary_ && rank_ == 0) std::filesystem::remove_all(path_, ignored);
  }
  std::string const& path() const { return path_; }

 private:
  std::string path_;
  std::size_t rank_;
  bool temporary_ = false;
};

/// The progress thread may ask this trainer for as long as this lives.
class watching {
 public:
  watching(monitor& m, trainer& t)
      : monitor_{m}, id_{m.add({[&t] { t.request_stop(); }, [&t] { return t.executor().place(); }, [&t] { return t.executor().idle_share(); }})} {}
  watching(watching const&) = delete;
  watching& operator=(watching const&) = delete;
  ~watching() { monitor_.remove(id_); }

 private:
  monitor& monitor_;
  std::size_t id_;
};

std::uint64_t sum_over_ranks(trainer& t, std::size_t ranks, std::uint64_t mine) {
  std::vector<std::uint64_t> all(ranks);
  t.engine().control().all_gather(std::as_bytes(std::span{&mine, 1}), std::as_writable_bytes(std::span{all}), {"report", t.engine().step()});
  std::uint64_t sum = 0;
  for (std::uint64_t const n : all) sum += n;
  return sum;
}

np::storage::tier_counters tiers_over_ranks(trainer& t, std::size_t ranks) {
  auto const mine = tiers_of(t);
  std::vector<np::storage::tier_counters> all(ranks);
  t.engine().control().all_gather(std::as_bytes(std::span{&mine, 1}), std::as_writable_bytes(std::span{all}), {"report", t.engine().step()});
  np::storage::tier_counters sum;
  for (auto const& one : all) sum += one;
  return sum;
}

/// All ranks' scores on rank 0, as CSV by row number.
std::string gather_scores(trainer& t, std::size_t ranks, std::size_t rank, nestpipe::predictions const& mine) {
  struct scored {
    std::uint64_t row;
    float score;
    float unused;
  };
  std::size_t const outputs = t.engine().model().outputs();
  std::vector<std::uint64_t> counts(ranks);
  std::uint64_t const n = mine.row.size();
  auto& channel = t.engine().control();
  channel.all_gather(std::as_bytes(std::span{&n, 1}), std::as_writable_bytes(std::span{counts}), {"predict", 0});
  std::uint64_t const most = *std::max_element(counts.begin(), counts.end());
  std::vector<scored> send(most), all(most * ranks);
  for (std::size_t i = 0; i < n; ++i) send[i] = {mine.row[i], mine.score[i * outputs], 0};
  channel.all_gather(std::as_bytes(std::span{send}), std::as_writable_bytes(std::span{all}), {"predict", 0});
  if (rank != 0) return {};
  std::vector<scored> sorted;
  for (std::size_t r = 0; r < ranks; ++r) sorted.insert(sorted.end(), all.begin() + static_cast<std::ptrdiff_t>(r * most), all.begin() + static_cast<std::ptrdiff_t>(r * most + counts[r]));
  std::sort(sorted.begin(), sorted.end(), [](scored const& a, scored const& b) { return a.row < b.row; });
  std::string text = "row,score\n";
  char line[64];
  for (auto const& s : sorted) text.append(line, static_cast<std::size_t>(std::snprintf(line, sizeof line, "%llu,%.9g\n", static_cast<unsigned long long>(s.row), static_cast<double>(s.score))));
  return text;
}

/// What all ranks' lanes did, as rank 0 draws it.
void draw(options const& o, trainer& t, std::size_t rank) {
  std::vector<nestpipe::trace::rank_intervals> const drawn = nestpipe::engine::gather_trace(t);
  if (rank != 0) return;
  if (!o.trace.empty()) {
    std::ostringstream out;
    nestpipe::trace::write_chrome(out, drawn);
    write_whole(o.trace, out.str());
  }
  if (!o.timeline.empty()) {
    nestpipe::trace::svg_options svg;  // a few batches near the end: as many as one can read
    std::uint64_t last = 0;
    for (auto const& i : drawn[0].intervals) last = std::max(last, i.what.batch);
    svg.first_batch = last > 8 ? last - 8 : 0;
    svg.last_batch = last > 3 ? last - 3 : last;
    svg.title = o.model + ", schedule " + o.schedule + ", " + std::to_string(o.ranks) + " x " + std::to_string(o.micro_batches) + " micro-batches, " + t.engine().comm().label();
    std::ostringstream out;
    nestpipe::trace::write_svg(out, drawn, svg);
    write_whole(o.timeline, out.str());
  }
}

/// Of the steps of this run on this machine, from short measurements now.
double least_seconds(options const& o, trainer& t, std::size_t ranks) {
  nestpipe::engine::step_work const work = t.engine().work();
  auto const limits = nestpipe::engine::measure_limits<nestpipe::math::automatic>(work, t.engine().rows().stored_bytes());
  double const cores = static_cast<double>(std::max(1U, std::thread::hardware_concurrency())) / static_cast<double>(ranks);
  return nestpipe::engine::floor_seconds(work, limits, {o.schedule != "sequential" && o.executor == "threads", cores, static_cast<double>(o.threads), ranks});
}

/// Better by the measure that epochs are chosen by: AUC, or for a regression the root mean square error.
bool better(options const& o, nestpipe::metric::summary const& a, nestpipe::metric::summary const& b) {
  if (o.regression) return a.rmse < b.rmse || (std::isnan(b.rmse) && !std::isnan(a.rmse));
  return a.auc > b.auc || (std::isnan(b.auc) && !std::isnan(a.auc));
}

/// A checkpoint as it is, or the last of a folder of them.
std::string checkpoint_to_resume(std::string const& directory) {
  std::error_code none;
  if (std::filesystem::exists(std::filesystem::path{directory} / "manifest.json", none)) return directory;
  auto const last = np::checkpoint::latest(directory);
  return last ? last->string() : directory;  // which load will refuse by name
}

report run(options const& o, inputs const& in, any_comm comm, monitor& watch, std::optional<exec::op>& failed) {
  std::size_t const rank = comm.rank();
  std::size_t const ranks = comm.size();
  bool const first = rank == 0;
  nestpipe::trainer_config config = make_config(o);
  config.data_transform = in.transform;
  config.data_order = in.order;
  if (first) config.on_step = [&watch](nestpipe::progress const& p) { watch.step(p); };
  std::optional<trainer> t;
  t.emplace(config, comm, make_policies(o));
  choose_executor(o, t->executor());
  t->attach(in.train.schema());
  if (!o.resume.empty()) t->load(checkpoint_to_resume(o.resume));
  if (o.save_every != 0) {
    np::checkpoint::save_plan plan;
    plan.directory = o.save;
    plan.every = o.save_every;
    plan.keep = o.keep;
    plan.incremental = o.incremental;
    t->save_while_training(plan);
  }
  std::optional<watching> watched_trainer{std::in_place, watch, *t};
  std::uint64_t const steps_before = t->engine().step();
  auto const enter = [&](phase p) {
    if (first) watch.enter(p);
  };

  report r;
  r.best_auc = in.best_auc;
  r.row_numbers = numbers_of(make_optimizer(o.rows));
  r.dense_numbers = numbers_of(make_optimizer(o.dense_part));
  r.features = in.train.schema().features.size();
  r.dense_columns = in.train.schema().dense;
  std::optional<best_place> best;
  bool best_is_last = true;
  std::uint64_t without_better = 0;
  double outside = 0;  // seconds of this fit that were not training
  bool const keep_best = in.valid.has_value() && (!o.save_best.empty() || (in.test.has_value() && o.epochs > 1));

  auto const end_epoch = [&](std::uint64_t epoch, nestpipe::fit_result const& so_far) {
    auto const begin = clock::now();
    epoch_record e{epoch, t->engine().step(), so_far.loss, so_far.seconds - outside, std::nullopt};
    for (auto const& earlier : r.epochs) e.seconds -= earlier.seconds;
    if (r.epochs.empty()) {
      r.skipped_lines = t->engine().malformed();
      r.data_rows = t->engine().data_rows();
    }
    bool go_on = true;
    if (in.valid) {
      enter(phase::scoring);
      e.valid = t->evaluate(*in.valid);
      if (first && !o.regression) watch.valid_auc(e.valid->auc);
      best_is_last = !r.valid || better(o, *e.valid, *r.valid);
      if (best_is_last) {
        r.valid = e.valid;
        r.best_epoch = epoch;
        without_better = 0;
        if (keep_best) {
          enter(phase::saving);
          if (!best) best.emplace(o, *t, rank);
          t->save(best->path());
        }
      } else {
        ++without_better;
      }
      go_on = o.patience == 0 || without_better < o.patience;
    }
    if (first && !o.quiet) watch.say(epoch_line(e));
    r.epochs.push_back(std::move(e));
    outside += since(begin);
    enter(phase::training);
    return go_on;
  };

  if (o.epochs > 0) {
    enter(phase::training);
    nestpipe::fit_result fit;
    try {
      fit = t->fit(in.train, end_epoch);
    } catch (...) {
      if (t->executor().failed()) failed = t->executor().place();
      throw;
    }
    r.steps = fit.steps;
    r.samples = fit.samples;
    r.stopped = fit.stopped;
    r.seconds = fit.seconds - outside;
    r.train_loss = fit.loss;
    if (first && r.steps == 0 && !r.stopped && steps_before != 0)
      watch.say("nothing left to train: " + o.resume + " is at step " + std::to_string(steps_before) + ", epoch " + std::to_string(t->position().epoch) + "; raise --epochs or --steps");
    bool const unfinished = r.epochs.empty() || r.epochs.back().steps != t->engine().step();
    if (unfinished && fit.steps > 0 && !fit.stopped) end_epoch(t->position().epoch, fit);
    if (r.epochs.empty()) {
      r.skipped_lines = t->engine().malformed();
      r.data_rows = t->engine().data_rows();
    }
  } else if (in.valid) {
    enter(phase::scoring);
    r.valid = t->evaluate(*in.valid);
  }
  r.total_steps = t->engine().step();
  if (r.steps == 0 && !r.stopped && o.epochs > 0 && steps_before == 0) throw nestpipe::data_error{"no samples to train on", {}, "check the data and the split"};

  enter(phase::scoring);
  r.complaints = in.train.complaints();
  r.digest = t->parameters_digest().text();
  r.tiers = tiers_over_ranks(*t, ranks);
  r.unique_rows = sum_over_ranks(*t, ranks, t->engine().rows().rows());
  r.refused_occurrences = sum_over_ranks(*t, ranks, t->engine().rows().admission_results().refused_occurrences);
  r.dropped_gradients = sum_over_ranks(*t, ranks, t->engine().rows().admission_results().dropped_gradients);
  r.dense_parameters = t->engine().dense().size();
  r.times = t->stage_times();
  if (first && !o.report.empty()) r.floor_seconds = least_seconds(o, *t, ranks);
  if (!o.trace.empty() || !o.timeline.empty()) draw(o, *t, rank);
  if (!o.save.empty()) {
    enter(phase::saving);
    std::string at = o.save;
    if (o.save_every != 0) {
      at = t->save_numbered();
    } else {
      t->save(o.save);
    }
    if (first && !o.quiet) watch.say("saved to " + at);
  }
  if (r.stopped) {
    if (first) watch.say("stopped by a signal after step " + std::to_string(r.total_steps) + (o.save.empty() ? "; give --save to keep the parameters" : ""));
  } else if (in.test) {
    if (!best_is_last && best) {
      // Into a new trainer: the rows of later epochs must not be there.
      watched_trainer.reset();
      config.on_step = nullptr;
      t.reset();
      t.emplace(config, comm, make_policies(o));
      t->attach(in.train.schema());
      t->load(best->path());
    }
    enter(phase::scoring);
    r.test = t->evaluate(*in.test);
    if (!o.predict.empty()) {
      std::string const text = gather_scores(*t, ranks, rank, t->predict(*in.test));
      if (first) write_whole(o.predict, text);
    }
  }
  enter(phase::done);
  if (first) {
    r.rss_at = watch.rss_at();
    if (!o.report.empty()) write_whole(o.report, to_json(o, r));
  }
  return r;
}

/// Collective over `comm`. On rank 0 the report is complete, and files are written. A failure says on which rank and where.
report run_rank(options const& o, inputs const& in, real_comm transport, monitor& watch) {
  any_comm comm{std::move(transport), {o.link_latency, o.link_bandwidth > 0 ? o.link_bandwidth : std::numeric_limits<double>::infinity(), {}}};
  std::size_t const rank = comm.rank();
  bool const alone = comm.size() == 1;
  std::optional<exec::op> failed;
  try {
    return run(o, in, std::move(comm), watch, failed);
  } catch (nestpipe::comm_error const&) {
    throw;  // says where by itself
  } catch (nestpipe::config_error const&) {
    throw;
  } catch (std::exception const& e) {
    if (alone) throw;
    std::string where = o.mpi ? std::string{} : "rank " + std::to_string(rank);  // under MPI the line begins with the rank
    if (failed) where += std::string{where.empty() ? "" : ", "} + "stage " + std::string{exec::name(failed->what)} + ", batch " + std::to_string(failed->batch + 1);
    throw nestpipe::error{e.what(), where};
  }
}

int finish(options const& o, report const& r, monitor& watch) {
  if (!o.quiet) {
    for (auto const& line : r.complaints) watch.say("malformed: " + line);
  }
  watch.say("\n" + to_table(o, r));
  return 0;
}

}  // namespace

namespace {

// No output may be an input or another output. @throws config_error
void check_apart(options const& o) {
  std::vector<std::pair<std::string, std::filesystem::path>> seen;
  auto const add = [&](std::string const& flag, std::string const& path, bool output) {
    if (path.empty() || path == "-" || path == "synthetic") return;
    std::error_code none;
    std::filesystem::path const real = std::filesystem::weakly_canonical(path, none);
    if (!std::filesystem::is_regular_file(real, none) && std::filesystem::exists(real, none) && !std::filesystem::is_directory(real, none)) return;
    for (auto const& [other, there] : seen) np::require(!output || there != real, flag + " and " + other + " name one file", path, "name another");
    seen.emplace_back(flag, real);
  };
  for (auto const& p : o.data) add("--data", p, false);
  for (auto const& p : o.valid) add("--valid", p, false);
  for (auto const& p : o.test) add("--test", p, false);
  for (auto const& [flag, path] : {std::pair{"--report", &o.report}, std::pair{"--predict", &o.predict}, std::pair{"--trace", &o.trace},
                                   std::pair{"--timeline", &o.timeline}, std::pair{"--save", &o.save}, std::pair{"--save-best", &o.save_best}})
    add(flag, *path, true);
}

}  // namespace

int train(int argc, char** argv, options const& o) {
  monitor watch{o};
  check_writable(o.report, "the report");
  check_writable(o.predict, "the scores");
  check_writable(o.trace, "the trace");
  check_writable(o.timeline, "the timeline");
  check_apart(o);
  check_checkpoint_place(o.save, o.save_every != 0);
  check_checkpoint_place(o.save_best);
  inputs const in = open_inputs(o);
  if (o.mpi) {
#if defined(NESTPIPE_WITH_MPI)
    return np::comm::mpi::run(argc, argv, [&](np::comm::mpi& comm) {
      report const r = run_rank(o, in, comm, watch);
      return comm.rank() == 0 ? finish(o, r, watch) : 0;
    });
#endif
  }
  (void)argc, (void)argv;
  if (o.ranks == 1) return finish(o, run_rank(o, in, np::comm::self{}, watch), watch);
  report result;
  np::comm::threads::run(o.ranks, [&](np::comm::threads& comm) {
    report r = run_rank(o, in, comm, watch);
    if (comm.rank() == 0) result = std::move(r);
  });
  return finish(o, result, watch);
}

bool first_of_machine() {
#if defined(NESTPIPE_WITH_MPI)
  return launched().size == 0 || np::comm::mpi::local_rank() == 0;
#else
  return true;
#endif
}

}  // namespace train_ctr
