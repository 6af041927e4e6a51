#include "report.hpp"

#include <nestpipe/core/version.hpp>
#include <nestpipe/trace/exposure.hpp>
#include <nestpipe/trace/svg.hpp>

#include <nlohmann/json.hpp>

#include <cmath>
#include <cstdio>
#include <fstream>

namespace simulate_cluster {

namespace np = nestpipe;
namespace exec = np::exec;
namespace ind = np::sim::industrial;
using json = nlohmann::ordered_json;

namespace {

// The model's inputs, word for word in the printed table and in the report.
constexpr char const* taken[] = {"TorchRec at 1,536: step 5793.83 ms, lookup 2870.99 ms, exchange 1207.85 ms", "TorchRec at 128: lookup 24.4 %, exchange 9.2 % of the step",
                                 "8 micro-batches; 512 samples a worker and batch at every size", "dual-buffer copy: its upper bound, 2 ms"};
constexpr char const* derived[] = {"compute 1714.99 ms at 1,536 (the rest of the step), the same at 128", "lookup and exchange at 128: the shares of compute / (1 - shares)"};
constexpr char const* assumed[] = {"lookup is read 25, stage 10, route 15, retrieve 30, write_back 20 %; compute is forward, input half, weight half of backward, a third each (neither moves the published schedules)",
                                   "half of a first micro-batch's rows can go early (--early-share); no separate time of the update"};
constexpr char const* fitted[] = {"nothing at 128 and 1,536; elsewhere the law of growth through these two points (--law), and for other micro-batches the exponent through 8 and 32 (1331.33 ms)"};
constexpr char const* left_out[] = {"the published residual of exposed lookup, 30.19 ms at 1,536 (1.6 % of the step): no source gives its cause, so dual_buffer and nested come out short by about as much"};

double seconds(machine const& m, std::size_t workers, std::string const& schedule) { return run(m, workers, ind::micro_batches, schedule).predicted.step_seconds; }

template <std::size_t N>
void list(char const* title, char const* const (&items)[N]) {
  for (std::size_t i = 0; i < N; ++i) std::printf("  %-10s %s\n", i == 0 ? title : "", items[i]);
}

json consistency(machine const& m) {
  json rows = json::array();
  for (auto const& p : ind::table) {
    double const at_small = seconds(m, 128, p.schedule);
    double const at_large = seconds(m, 1536, p.schedule);
    auto const published = [](double x) { return x > 0 ? json(x) : json(nullptr); };
    rows.push_back({{"schedule", p.schedule},
                    {"step_seconds_128", at_small},
                    {"published_step_seconds_128", published(p.step_small)},
                    {"step_seconds_1536", at_large},
                    {"published_step_seconds_1536", published(p.step_large)},
                    {"scaling_efficiency", at_small / at_large},
                    {"published_scaling_efficiency", published(p.efficiency)}});
  }
  return {{"label", "consistency check"}, {"taken", taken}, {"derived", derived}, {"assumed", assumed}, {"fitted", fitted}, {"left_out", left_out}, {"results", rows}};
}

std::ofstream create(std::string const& path) {
  std::ofstream out{path};
  if (!out) throw np::error{"cannot write", path, "check the folder and its permissions"};
  return out;
}

void finish(std::ofstream& out, std::string const& path) {
  out.close();
  if (!out) throw np::error{"writing failed", path, "check the space on the disk"};
}

}  // namespace

void print(machine const& m, std::vector<result> const& results, std::size_t base) {
  std::printf("profile %s; %s\n", m.name.c_str(), m.note.c_str());
  std::printf("%9s  %-24s %5s %11s %12s %12s %10s   %s\n", "workers", "schedule", "N", "step ms", "busiest ms", "idle ms", "efficiency", "exposed ms: input, lookup, rows, gradients, all-reduce");
  for (auto const& r : results) {
    auto const e = np::trace::summarize(r.predicted.per_step);
    std::printf("%9zu  %-24s %5u %11.3f %12.3f %12.3f %8.2f %%   %.2f, %.2f, %.2f, %.2f, %.2f%s\n", r.workers, r.schedule.c_str(), r.micro_batches, r.predicted.step_seconds * 1e3,
                r.busiest_lane * 1e3, e.idle() * 1e3, r.efficiency * 100, e.input.exposed * 1e3, e.lookup.exposed * 1e3, e.rows.exposed * 1e3, e.gradients.exposed * 1e3,
                e.all_reduce.exposed * 1e3, r.extrapolated ? "   extrapolation" : "");
  }
  std::printf("efficiency: step at %zu workers over step here, the batch of a worker kept; busiest: %s\n", base,
              m.ranks_differ ? "the lane longest at work, waiting for other ranks in its collectives included" : "the lane that no schedule can beat");
}

void print_consistency(machine const& m, options const& o) {
  std::printf("\nconsistency check (figures of one published system put into this library's schedules; nothing here is measured)\n");
  list("taken", taken);
  list("derived", derived);
  list("assumed", assumed);
  list("fitted", fitted);
  list("left out", left_out);
  std::printf("  %-22s %28s %30s %30s\n", "", "128: ms, published, diff", "1,536: ms, published, diff", "efficiency %, published, diff");
  json const checked = consistency(m);
  for (auto const& r : checked["results"]) {
    auto const cell = [&](char const* mine, char const* published, double scale, bool points) {
      double const x = r[mine].get<double>() * scale;
      if (r[published].is_null()) {
        std::printf("  %10.2f  %8s %8s", x, "-", "");
        return;
      }
      double const y = r[published].get<double>() * scale;
      double const difference = points ? x - y : (x / y - 1) * 100;
      std::printf("  %10.2f  %8.2f %+6.2f %s", x, y, std::abs(difference) < 5e-3 ? 0.0 : difference, points ? "pt" : "% ");
    };
    std::printf("  %-22s", r["schedule"].get<std::string>().c_str());
    cell("step_seconds_128", "published_step_seconds_128", 1e3, false);
    cell("step_seconds_1536", "published_step_seconds_1536", 1e3, false);
    cell("scaling_efficiency", "published_scaling_efficiency", 100, true);
    std::printf("\n");
  }
  std::printf("  (sequential at 1,536 is the sum of what was taken; published steps at 128 follow from the efficiencies; dual_buffer and frozen_window were derived by readers of the paper)\n");

  std::printf("\nbeyond the published system: what early rows (%.0f %% of a first micro-batch), the split backward and shared rows first add\n", o.early_share * 100);
  double const plain = seconds(m, 1536, "nested_plain");
  for (char const* s : {"nested_plain", "nested_plain+early", "nested_plain+split", "nested_plain+early+split", "nested_plain+shared", "nested"}) {
    double const x = seconds(m, 1536, s);
    std::printf("  1,536 workers  %-26s %10.2f ms  %+7.2f ms  %.3f x sequential\n", s, x * 1e3, (x - plain) * 1e3, seconds(m, 1536, "sequential") / x);
  }
  for (auto const l : {ind::law::power, ind::law::line}) {
    options other = o;
    other.law = l;
    machine const grown = open(other);
    if (l == ind::law::power) {
      auto const a = np::sim::fit_power(ind::small, ind::lookup_small, ind::large, ind::lookup_large);
      auto const b = np::sim::fit_power(ind::small, ind::exchange_small, ind::large, ind::exchange_large);
      std::printf("extrapolation, power law through 128 and 1,536: lookup %.2f ms x W^%.3f, exchange %.2f ms x W^%.3f\n", a.scale * 1e3, a.exponent, b.scale * 1e3, b.exponent);
    } else {
      auto const a = np::sim::fit_line(ind::small, ind::lookup_small, ind::large, ind::lookup_large);
      auto const b = np::sim::fit_line(ind::small, ind::exchange_small, ind::large, ind::exchange_large);
      std::printf("extrapolation, line through 128 and 1,536: lookup %.2f ms + %.4f ms x W, exchange %.2f ms + %.4f ms x W\n", a.base * 1e3, a.slope * 1e3, b.base * 1e3, b.slope * 1e3);
    }
    for (std::size_t const w : {10'000U, 100'000U}) {
      auto const before = run(grown, w, ind::micro_batches, "nested_plain");
      auto const after = run(grown, w, ind::micro_batches, "nested");
      std::printf("  %7zu workers  plain loop %10.1f ms, nested_plain %10.1f ms, nested %10.1f ms (%+.1f ms), busiest lane %10.1f ms\n", w, seconds(grown, w, "sequential") * 1e3,
                  before.predicted.step_seconds * 1e3, after.predicted.step_seconds * 1e3, (after.predicted.step_seconds - before.predicted.step_seconds) * 1e3, after.busiest_lane * 1e3);
    }
  }
  std::printf("  there a lane of its own sets the step: retrieve and write_back, by the assumed split of lookup, then the exchange; hiding more cannot help, and the split matters\n");
}

void write_report(options const& o, machine const& m, std::vector<result> const& results, std::size_t base) {
  json list = json::array();
  for (auto const& r : results) {
    json exposed = json::object(), total = json::object();
    for (std::size_t s = 0; s < exec::stage_count; ++s) {
      std::string const name{exec::name(static_cast<exec::stage>(s))};
      exposed[name] = r.predicted.per_step.exposed[s];
      total[name] = r.predicted.per_step.total[s];
    }
    list.push_back({{"workers", r.workers},
                    {"schedule", r.schedule},
                    {"micro_batches", r.micro_batches},
                    {"step_seconds", r.predicted.step_seconds},
                    {"exposed_seconds", exposed},
                    {"stage_seconds", total},
                    {"compute_seconds", r.predicted.per_step.compute},
                    {"busiest_lane_seconds", r.busiest_lane},
                    {"scaling_efficiency", r.efficiency},
                    {"extrapolation", r.extrapolated}});
  }
  json j{{"program", "simulate_cluster"},
         {"version", std::to_string(np::version.major_number) + "." + std::to_string(np::version.minor_number) + "." + std::to_string(np::version.patch_number)},
         {"profile", m.name},
         {"note", m.note},
         {"hand_over_seconds", m.hand_over},
         {"skew", o.skew},
         {"scaling_efficiency_of", base},
         {"results", list}};
  if (m.industrial) j["consistency_check"] = consistency(m);
  auto out = create(o.report);
  out << j.dump(2) << "\n";
  finish(out, o.report);
}

void write_timeline(options const& o, result const& r) {
  auto out = create(o.timeline);
  np::trace::svg_options svg;
  svg.first_batch = steady_batch();
  svg.last_batch = svg.first_batch + 3;
  svg.title = "simulated: " + r.schedule + ", " + std::to_string(r.workers) + " workers, rank 0";
  np::trace::rank_intervals const ranks[]{{0, r.intervals}};
  np::trace::write_svg(out, ranks, svg);
  finish(out, o.timeline);
}

}  // namespace simulate_cluster
