#include "report.hpp"

#include <nestpipe/core/version.hpp>

#include <nlohmann/json.hpp>

#include <sys/resource.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

namespace train_ctr {
namespace {

using json = nlohmann::ordered_json;  // a number that is not finite is written as null

std::string text(char const* format, double value) {
  if (!std::isfinite(value)) return "n/a";
  char buffer[64];
  std::snprintf(buffer, sizeof buffer, format, value);
  return buffer;
}

json of(std::optional<nestpipe::metric::summary> const& s, double nestpipe::metric::summary::* member) { return s ? json((*s).*member) : json(nullptr); }

json curve(report const& r, double nestpipe::metric::summary::* member) {
  json a = json::array();
  for (auto const& e : r.epochs) a.push_back(of(e.valid, member));
  return a;
}

json optimizer(std::string const& name, optimizer_numbers const& numbers) {
  json j{{"name", name}};
  for (auto const& [number, value] : numbers) j[number] = value;
  return j;
}

json configuration(options const& o, report const& r) {
  json buckets = json::object();
  for (auto const& [name, k] : o.buckets) buckets[name] = k;
  return {{"command_line", o.given},
          {"data", o.data},
          {"valid", o.valid},
          {"test", o.test},
          {"format", o.format},
          {"label", o.label},
          {"categorical", o.categorical},
          {"dense", o.dense},
          {"positive", o.positive},
          {"standardize", o.standardize},
          {"bucketize", buckets},
          {"split", o.split},
          {"raw_dense", o.raw_dense},
          {"train_rows", o.train_rows},
          {"min_count", o.min_count},
          {"shuffle_window", o.shuffle_window},
          {"task", o.regression ? "regression" : "binary"},
          {"strict", o.strict},
          {"files", o.files},
          {"model", o.model},
          {"dim", o.dim},
          {"hidden", o.hidden},
          {"bottom", o.bottom},
          {"storage", o.storage},
          {"memory_budget", o.memory_budget},
          {"slow_tier", o.slow_tier},
          {"look_ahead", o.look_ahead},
          {"shards", o.shards},
          {"optimizer", optimizer(o.rows.name, r.row_numbers)},
          {"dense_optimizer", optimizer(o.dense_part.name, r.dense_numbers)},
          {"warmup_steps", o.warmup_steps},
          {"decay_start", o.decay_start},
          {"decay_steps", o.decay_steps},
          {"decay_power", o.decay_power},
          {"decay_end", o.decay_end},
          {"row_clip", o.row_clip},
          {"dense_clip", o.dense_clip},
          {"batch_size", o.batch_size},
          {"epochs", o.epochs},
          {"steps", o.steps},
          {"patience", o.patience},
          {"seed", o.seed},
          {"save_every", o.save_every},
          {"keep", o.keep},
          {"incremental", o.incremental},
          {"schedule", o.schedule},
          {"executor", o.executor},
          {"reduction", o.reduction},
          {"transport", o.mpi ? "mpi" : o.ranks == 1 ? "self" : "threads"},
          {"ranks", o.ranks},
          {"micro_batches", o.micro_batches},
          {"cluster", o.cluster},
          {"cluster_groups", o.cluster_groups},
          {"reuse_rows", o.reuse_rows},
          {"tune_steps", o.tune_steps},
          {"link_latency", o.link_latency},
          {"link_bandwidth", o.link_bandwidth},
          {"threads", o.threads}};
}

std::uint64_t peak_rss() {
  rusage usage{};
  ::getrusage(RUSAGE_SELF, &usage);
  return static_cast<std::uint64_t>(usage.ru_maxrss) * 1024;
}

double per_second(report const& r) { return r.seconds > 0 ? static_cast<double>(r.samples) / r.seconds : 0; }

}  // namespace

std::string to_json(options const& o, report const& r) {
  using summary = nestpipe::metric::summary;
  json stages = json::object(), exposed = json::object(), rss = json::object(), losses = json::array();
  for (std::size_t s = 0; s < exec::stage_count; ++s) {
    std::string const name{exec::name(static_cast<exec::stage>(s))};
    stages[name] = r.times.total[s];
    exposed[name] = r.times.exposed[s];
  }
  for (auto const& [step, bytes] : r.rss_at) rss[std::to_string(step)] = bytes;
  for (auto const& e : r.epochs) losses.push_back(e.train_loss);
  json j{{"program", "train_ctr"},
         {"version", std::to_string(nestpipe::version.major_number) + "." + std::to_string(nestpipe::version.minor_number) + "." + std::to_string(nestpipe::version.patch_number)},
         {"samples", r.samples},
         {"steps", r.steps},
         {"total_steps", r.total_steps},
         {"seconds", r.seconds},
         {"floor_seconds", r.floor_seconds},
         {"samples_per_second", per_second(r)},
         {"train_loss", r.train_loss},
         {"valid_auc", of(r.valid, &summary::auc)},
         {"valid_logloss", of(r.valid, &summary::log_loss)},
         {"valid_error", of(r.valid, &summary::error)},
         {"valid_rmse", of(r.valid, &summary::rmse)},
         {"test_auc", of(r.test, &summary::auc)},
         {"test_logloss", of(r.test, &summary::log_loss)},
         {"test_error", of(r.test, &summary::error)},
         {"test_rmse", of(r.test, &summary::rmse)},
         {"test_normalized_entropy", of(r.test, &summary::normalized_entropy)},
         {"test_calibration", of(r.test, &summary::calibration)},
         {"valid_samples", r.valid ? json(r.valid->samples) : json(nullptr)},
         {"test_samples", r.test ? json(r.test->samples) : json(nullptr)},
         {"best_epoch", r.best_epoch ? json(*r.best_epoch) : json(nullptr)},
         {"best_possible_auc", r.best_auc ? json(*r.best_auc) : json(nullptr)},
         {"epochs", {{"train_loss", losses}, {"valid_auc", curve(r, &summary::auc)}, {"valid_logloss", curve(r, &summary::log_loss)}}},
         {"parameters_digest", r.digest},
         {"unique_rows", r.unique_rows},
         {"refused_occurrences", r.refused_occurrences},
         {"dropped_gradients", r.dropped_gradients},
         {"tiers", o.storage != "tiered" ? json(nullptr)
                                         : json{{"hit_rate", r.tiers.hit_rate()},
                                                {"hits", r.tiers.hits},
                                                {"misses", r.tiers.misses},
                                                {"capacity_rows", r.tiers.capacity},
                                                {"rows_up", r.tiers.rows_up},
                                                {"rows_down", r.tiers.rows_down},
                                                {"evicted", r.tiers.evicted},
                                                {"bytes_up", r.tiers.bytes_up},
                                                {"bytes_down", r.tiers.bytes_down},
                                                {"slow_reads", r.tiers.slow_reads},
                                                {"slow_writes", r.tiers.slow_writes},
                                                {"read_seconds", r.tiers.read_seconds},
                                                {"write_seconds", r.tiers.write_seconds},
                                                {"rows_beyond_budget", r.tiers.most_beyond}}},
         {"dense_parameters", r.dense_parameters},
         {"stage_seconds", stages},
         {"exposed_seconds", exposed},
         {"compute_seconds", r.times.compute},
         {"idle_seconds", r.times.idle()},
         {"stale_reads", nullptr},  // not counted in this version; every schedule here is exact
         {"peak_rss_bytes", peak_rss()},
         {"rss_bytes_at_step", rss},
         {"data_rows", r.data_rows},
         {"skipped_lines", r.skipped_lines},
         {"malformed_examples", r.complaints},
         {"stopped", r.stopped},
         {"configuration", configuration(o, r)}};
  return j.dump(2, ' ', false, json::error_handler_t::replace) + "\n";
}

std::string epoch_line(epoch_record const& e) {
  std::string line = "epoch " + std::to_string(e.epoch) + ": step " + std::to_string(e.steps) + ", train loss " + text("%.5f", e.train_loss);
  if (e.valid) {
    if (std::isfinite(e.valid->auc) || e.valid->positives > 0 || !std::isfinite(e.valid->rmse))
      line += ", valid AUC " + text("%.5f", e.valid->auc) + ", valid log loss " + text("%.5f", e.valid->log_loss);
    else
      line += ", valid RMSE " + text("%.5f", e.valid->rmse);
  }
  return line + ", " + text("%.1f", e.seconds) + " s";
}

std::string to_table(options const& o, report const& r) {
  std::string out;
  auto const row = [&](std::string name, std::string const& value) {
    name.resize(std::max<std::size_t>(name.size(), 26), ' ');
    out += "  " + name + value + "\n";
  };
  row("model", o.model + ", " + std::to_string(r.features) + " features, " + std::to_string(r.dense_columns) + " dense columns");
  row("ranks x micro-batches", std::to_string(o.ranks) + " x " + std::to_string(o.micro_batches) + (o.mpi ? " (MPI)" : "") + ", schedule " + o.schedule + ", lanes " + o.executor);
  if (o.link_latency > 0 || o.link_bandwidth > 0)
    row("emulated links", text("%g", o.link_latency) + " s a message, " + (o.link_bandwidth > 0 ? text("%g", o.link_bandwidth) + " bytes/s" : "no limit of bandwidth"));
  row("samples, steps", std::to_string(r.samples) + ", " + std::to_string(r.steps));
  row("samples/s", text("%.0f", per_second(r)) + " (" + text("%.1f", r.seconds) + " s of training)");
  row("exposed time", text("%.1f", 100 * r.times.idle() / std::max(r.times.idle() + r.times.compute, 1e-9)) + " % (compute " + text("%.1f", r.times.compute) + " s, idle " + text("%.1f", r.times.idle()) + " s)");
  row("loss", text("%.5f", r.train_loss));
  auto const metrics = [&](char const* name, std::optional<nestpipe::metric::summary> const& s) {
    if (!s) return;
    if (o.regression) {
      row(std::string{name} + " RMSE", text("%.5f", s->rmse) + " (" + std::to_string(s->samples) + " samples)");
      return;
    }
    row(std::string{name} + " AUC", text("%.5f", s->auc) + (r.best_auc ? "   (best possible " + text("%.5f", *r.best_auc) + ")" : ""));
    row(std::string{name} + " log loss", text("%.5f", s->log_loss));
    row(std::string{name} + " error", text("%.2f", 100 * s->error) + " %");
  };
  if (r.best_epoch && r.epochs.size() > 1) row("best epoch", std::to_string(*r.best_epoch));
  metrics("valid", r.valid);
  metrics("test", r.test);
  row("rows, dense parameters", std::to_string(r.unique_rows) + ", " + std::to_string(r.dense_parameters));
  if (o.storage == "tiered") {
    row("fast tier", text("%.2f", 100 * r.tiers.hit_rate()) + " % hits, " + std::to_string(r.tiers.evicted) + " rows evicted, " + std::to_string(r.tiers.rows_up) + " up, " +
                         std::to_string(r.tiers.rows_down) + " down");
    row("waited for the slow tier", text("%.2f", r.tiers.read_seconds) + " s reading, " + text("%.2f", r.tiers.write_seconds) + " s writing");
  }
  if (r.skipped_lines > 0) row("malformed lines", std::to_string(r.skipped_lines) + " of " + std::to_string(r.data_rows) + " skipped");
  row("parameters digest", r.digest);
  return out;
}

}  // namespace train_ctr
