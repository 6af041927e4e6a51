#include "options.hpp"

#include <CLI/CLI.hpp>

#include <cmath>
#include <iostream>

namespace simulate_cluster {

namespace np = nestpipe;
using np::require;

namespace {

bool take(std::string& text, std::string const& suffix) {
  if (text.size() <= suffix.size() || !text.ends_with(suffix)) return false;
  text.resize(text.size() - suffix.size());
  return true;
}

}  // namespace

schedules schedule_named(std::string const& text) {
  std::string base = text;
  bool early = false, shared = false, split = false, any = false;
  for (bool more = true; more;) {
    more = false;
    if (take(base, "+early")) early = more = any = true;
    if (take(base, "+shared")) shared = more = any = true;
    if (take(base, "+split")) split = more = any = true;
  }
  bool const plain = take(base, "_plain");
  bool const dual = base == "dual_buffer" || base == "nested";
  bool const frozen = base == "frozen_window" || base == "nested";
  require(dual || frozen || base == "sequential" || base == "prefetch", "--schedule: there is no '" + text + "'", {},
          "choose sequential, prefetch, dual_buffer, frozen_window or nested; the last three also as NAME_plain");
  require(!any || plain, "--schedule: " + text + " has all its parts already", {}, "write " + base + "_plain+PART to switch one part on");
  require(!plain || dual || frozen, "--schedule: " + base + " has no parts to leave out", text);
  require((dual || (!early && !shared)) && (frozen || !split), "--schedule: " + text + " names a part that " + base + " has not", {},
          "early and shared are parts of dual_buffer and nested, split of frozen_window and nested");
  if (!plain) early = shared = split = true;
  if (base == "sequential") return np::schedule::sequential{};
  if (base == "prefetch") return np::schedule::prefetch{};
  np::schedule::frozen_window inner;
  inner.split_backward = split;
  if (base == "frozen_window") return inner;
  if (base == "nested") {
    np::schedule::nested s{inner};
    s.early = early;
    s.shared_first = shared;
    return s;
  }
  np::schedule::dual_buffer<> s;
  s.early = early;
  s.shared_first = shared;
  return s;
}

bool parse(int argc, char** argv, options& o) {
  CLI::App app{"simulate_cluster: step times of a cluster, from the schedules that train and the costs of a profile"};
  std::string law = "power";
  app.add_option("--profile", o.profiles,
                 "nestpipe-industrial, or a JSON file: the --report of a `train_ctr --schedule sequential` run (twice, with different --micro-batches, for latency and "
                 "bandwidth apart), or a described machine {\"parametric\": {...}}")
      ->required();
  app.add_option("--workers", o.workers, "one or more numbers of workers [those of the profile; nestpipe-industrial: 128 1536 10000 100000]")->expected(1, 64);
  app.add_option("--schedule", o.schedule_names,
                 "one or more of sequential, prefetch, dual_buffer, frozen_window, nested; NAME_plain: as published; NAME_plain+early, +shared, +split: with one part more [a list]")
      ->expected(1, 64);
  app.add_option("--micro-batches", o.micro_batches, "of a worker [those of the profile]");
  app.add_option("--report", o.report, "write the results as JSON");
  app.add_option("--timeline", o.timeline, "draw rank 0 in the last run of the list as SVG");
  app.add_option("--law", law, "nestpipe-industrial beyond its two sizes: power (y = a x^b) or line (y = a + b x) [power]");
  app.add_option("--link", o.link, "shared: keys, rows, gradients and the all-reduce queue on one link; separate: each has its own [shared for measured runs, else separate]");
  app.add_option("--early-share", o.early_share, "share of a first micro-batch's rows that the batch before does not touch [0.5]");
  app.add_option("--skew", o.skew, "standard deviation of the logarithm of an op's time, drawn for each op and rank [0: all ranks alike]");
  app.add_option("--seed", o.seed, "of --skew [1]");
  for (CLI::Option* option : app.get_options()) {  // CLI11 lets "-5" wrap around
    if (option->get_type_name() == "UINT") option->check([](std::string const& text) { return text.starts_with('-') ? "a count cannot be negative: " + text : std::string{}; }, "", "");
  }
  try {
    app.parse(argc, argv);
  } catch (CLI::CallForHelp const&) {
    std::cout << app.help();
    return false;
  } catch (CLI::ParseError const& e) {
    throw np::config_error{e.what(), {}, "simulate_cluster --help lists the flags"};
  }
  require(o.profiles.size() <= 2, "--profile can be given twice at most", std::to_string(o.profiles.size()) + " profiles");
  for (auto const& p : o.profiles) require(o.profiles.size() == 1 || p != "nestpipe-industrial", "nestpipe-industrial stands alone", {}, "give it, or files");
  require(app.count("--micro-batches") == 0 || (o.micro_batches > 0 && o.micro_batches <= 10'000), "--micro-batches is from 1 to 10000", std::to_string(o.micro_batches));
  for (std::size_t const w : o.workers) require(w > 0 && w <= 10'000'000, "--workers is from 1 to 10000000", std::to_string(w));
  require(law == "power" || law == "line", "--law: there is no '" + law + "'", {}, "choose power or line");
  if (law == "line") o.law = np::sim::industrial::law::line;
  require(o.link.empty() || o.link == "shared" || o.link == "separate", "--link: there is no '" + o.link + "'", {}, "choose shared or separate");
  require(o.early_share >= 0 && o.early_share <= 1, "--early-share is from 0 to 1", std::to_string(o.early_share));
  require(o.skew >= 0 && o.skew <= 2, "--skew is from 0 to 2", std::to_string(o.skew));
  for (auto const& s : o.schedule_names) schedule_named(s);
  return true;
}

}  // namespace simulate_cluster
