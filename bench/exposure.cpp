// What the schedules hide: threads of one process as ranks, with an emulated link and emulated lookup and compute (they sleep),
// a sequential step split as published for 1,536 workers (lookup 49.6 %, exchange 20.8 %, compute 29.6 % of 200 ms).
//
//   bench.exposure [--quick] [--ranks 2,4] [--repeats N] [--json FILE] [--plot FILE.svg] [--timeline FILE.svg] [--no-sweep | --no-table]
//                  [--only TEXT] [--normal-priority]
//
// Stages sleep, so a few per cent of one core are used; but a thread that wakes up late behind other programs makes a step
// longer. Where the system allows it the process therefore runs at real-time priority, and says so.

#include "exposure/experiment.hpp"
#include "exposure/plot.hpp"

#include <nestpipe/comm/threads.hpp>
#include <nestpipe/trace/svg.hpp>

#include <fstream>
#include <pthread.h>
#include <sched.h>

namespace {

using namespace bench;
using np::comm::threads;

struct arguments {
  bool quick = false, table = true, sweep = true, urgent = true;
  std::vector<std::size_t> ranks{2, 4};
  std::size_t repeats = 3;
  std::string json, plot, timeline, only;
};

arguments parse(int argc, char** argv) {
  arguments a;
  for (int i = 1; i < argc; ++i) {
    std::string const flag = argv[i];
    auto const value = [&] {
      np::require(i + 1 < argc, flag + " needs a value");
      return std::string{argv[++i]};
    };
    if (flag == "--quick") a.quick = true;
    else if (flag == "--no-sweep") a.sweep = false;
    else if (flag == "--no-table") a.table = false;
    else if (flag == "--normal-priority") a.urgent = false;
    else if (flag == "--json") a.json = value();
    else if (flag == "--plot") a.plot = value();
    else if (flag == "--timeline") a.timeline = value();
    else if (flag == "--only") a.only = value();
    else if (flag == "--repeats") a.repeats = std::max<std::size_t>(1, std::stoul(value()));
    else if (flag == "--ranks") {
      a.ranks.clear();
      std::string const list = value();
      for (std::size_t at = 0; at < list.size();) {
        std::size_t used = 0;
        a.ranks.push_back(std::stoul(list.substr(at), &used));
        at += used + 1;
      }
    } else throw np::config_error{"unknown flag " + flag, {}, "see the head of bench/exposure.cpp"};
  }
  return a;
}

struct row {
  std::size_t ranks = 0;
  std::string schedule;
  setup of;
  double rate = 0;  // of the link
  outcome result;
  double sequential = 0;
};

class program {
 public:
  explicit program(arguments a) : args_{std::move(a)} {}

  void run() {
    sched_param priority{};
    priority.sched_priority = 10;  // threads made later inherit it
    bool const raised = args_.urgent && pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority) == 0;
    std::printf("emulated link, lookup and compute: stages sleep, real bytes and gradients move; %s priority\n", raised ? "real-time" : "normal");
    for (std::size_t const ranks : args_.ranks) {
      if (args_.table) table(ranks);
    }
    if (args_.sweep) sweep(args_.ranks.front());
    if (!args_.json.empty()) write_json();
  }

 private:
  setup base() const {
    setup s;
    if (args_.quick) s.steps = 14;
    return s;
  }

  // The repeat whose mean step is the median; steps of all repeats.
  outcome measure(std::size_t ranks, setup const& s, named_schedule const& chosen, double rate, std::size_t repeats) {
    std::vector<outcome> all;
    for (std::size_t k = 0; k < repeats; ++k) {
      threads::run(ranks, [&](threads& comm) {
        outcome mine = train(comm, s, chosen, rate);
        if (comm.rank() == 0) all.push_back(std::move(mine));
      });
    }
    std::sort(all.begin(), all.end(), [](outcome const& a, outcome const& b) { return a.mean() < b.mean(); });
    outcome middle = std::move(all[all.size() / 2]);
    for (std::size_t k = 0; k < all.size(); ++k) {
      if (k != all.size() / 2) middle.steps.insert(middle.steps.end(), all[k].steps.begin(), all[k].steps.end());
    }
    return middle;
  }

  double rate_for(std::size_t ranks, setup const& s) {
    double rate = 0;
    threads::run(ranks, [&](threads& comm) {
      double const r = calibrate(comm, s);
      if (comm.rank() == 0) rate = r;
    });
    return rate;
  }

  row const& add(std::size_t ranks, setup const& s, named_schedule const& chosen, double rate, double sequential, std::size_t repeats = 0) {
    row r{ranks, chosen.name, s, rate, measure(ranks, s, chosen, rate, repeats == 0 ? args_.repeats : repeats), sequential};
    if (r.sequential == 0) r.sequential = r.result.median();
    rows_.push_back(std::move(r));
    print(rows_.back());
    return rows_.back();
  }

  void heading(std::size_t ranks, setup const& s, double rate) {
    auto const overlap = s.stream(ranks, 16).measure(s.samples * ranks / s.micro_batches);
    np::comm::link_options const link{s.latency, rate, {"exchange"}};
    std::printf("\n%zu ranks (threads), %zu micro-batches a rank, %zu samples a rank and batch; emulated lookup %.1f ms, compute %.1f ms; %s, %.1f ms of exchange\n", ranks,
                s.micro_batches, s.samples, s.lookup * 1e3, s.compute * 1e3, link.label().c_str(), s.exchange * 1e3);
    std::printf("keys zipf(1.05), sharing %s: %.0f distinct keys a batch, %.1f %% of them in the batch before; of the first micro-batches' rows %.1f %% can go early\n", name(s.share),
                overlap.distinct, overlap.shared * 100, overlap.early * 100);
    std::printf("lower bound (busiest lane) %.2f ms\n", s.lower_bound() * 1e3);
    std::printf("%-42s %9s %8s %8s | exposed ms (%% of step): %-13s %-13s %-13s %-13s %-13s | %7s %6s\n", "schedule", "step ms", "speed-up", "of bound", "input", "lookup", "rows", "gradients",
                "all-reduce", "other", "cores");
  }

  static void print(row const& r) {
    double const step = r.result.median();
    auto const& e = r.result.exposed;
    double const mean = std::max(r.result.mean(), 1e-9);
    auto const cell = [&](double x) {
      static thread_local std::array<std::array<char, 32>, 8> text;
      static thread_local std::size_t next = 0;
      auto& t = text[next++ % text.size()];
      std::snprintf(t.data(), t.size(), "%.2f (%.1f)", x * 1e3, x / mean * 100);
      return t.data();
    };
    std::printf("%-42s %9.2f %8.3f %8.3f |                         %-13s %-13s %-13s %-13s %-13s | %7.2f %6.2f\n", r.schedule.c_str(), step * 1e3, r.sequential / step,
                step / r.of.lower_bound(), cell(e.input.exposed), cell(e.lookup.exposed), cell(e.rows.exposed), cell(e.gradients.exposed), cell(e.all_reduce.exposed), e.other * 1e3,
                r.result.cores);
    std::fflush(stdout);
  }

  void table(std::size_t ranks) {
    using namespace np::schedule;
    std::vector<named_schedule> list{{"sequential", sequential{}}, {"prefetch", prefetch{}}};
    dual_buffer<> plain_dual;
    plain_dual.early = plain_dual.shared_first = false;
    list.push_back({"dual_buffer, nothing early", plain_dual});
    list.push_back({"dual_buffer", dual_buffer<>{}});
    frozen_window plain_frozen;
    plain_frozen.split_backward = false;
    list.push_back({"frozen_window, whole backward", plain_frozen});
    list.push_back({"frozen_window", frozen_window{}});
    for (int k = 0; k < 8; ++k) {
      bool const early = (k & 1) != 0, shared = (k & 2) != 0, split = (k & 4) != 0;
      std::string name = "nested";
      if (k != 7) name += k == 0 ? ", no part" : std::string{early ? ", early rows" : ""} + (shared ? ", shared first" : "") + (split ? ", split backward" : "");
      list.push_back({name, nested_with(early, shared, split)});
    }
    setup s = base();
    double const rate = rate_for(ranks, s);
    heading(ranks, s, rate);
    double sequential_step = 0;
    std::string digest;
    for (auto const& chosen : list) {
      if (!args_.only.empty() && chosen.name.find(args_.only) == std::string::npos && sequential_step != 0) continue;
      auto const& r = add(ranks, s, chosen, rate, sequential_step);
      if (sequential_step == 0) {
        sequential_step = r.result.median();
        digest = r.result.digest;
      }
      if (r.result.digest != digest) std::printf("  DIGEST DIFFERS: %s, not %s\n", r.result.digest.c_str(), digest.c_str());
    }
    auto const& best = rows_.back();
    double const mean = best.result.mean();
    auto const& e = best.result.exposed;
    std::printf("nested: %.3f x sequential (bar 3.19), %.1f %% above the bound (bar 6), exposed lookup %.2f %% (bar 1.5), exposed exchange %.2f %% (bar 4); all digests %s\n",
                best.sequential / best.result.median(), (best.result.median() / s.lower_bound() - 1) * 100, (e.input.exposed + e.lookup.exposed) / mean * 100,
                (e.rows.exposed + e.gradients.exposed) / mean * 100, digest.c_str());
    if (!args_.timeline.empty() && ranks == args_.ranks.front()) {
      std::ofstream out{args_.timeline};
      auto o = np::trace::during_steps(best.result.timeline, s.warm_up, s.warm_up + 2);
      o.title = "nested, " + std::to_string(ranks) + " ranks; emulated lookup and compute; " + np::comm::link_options{s.latency, rate, {"exchange"}}.label();
      np::trace::write_svg(out, best.result.timeline, o);
    }
    if (!args_.only.empty()) return;
    std::printf("\nas above, but 4 ms of the compute are update_rows");
    s.update = 4e-3;
    heading(ranks, s, rate);
    for (bool const shared : {false, true})
      add(ranks, s, {shared ? "nested, 4 ms update" : "nested, 4 ms update, not shared first", nested_with(true, shared, true)}, rate, sequential_step);
    s.update = 0;
    for (sharing const share : {sharing::none, sharing::full}) {
      s.share = share;
      double const again = rate_for(ranks, s);
      heading(ranks, s, again);
      double const step = add(ranks, s, list.front(), again, 0).result.median();
      add(ranks, s, {"nested, no part", nested_with(false, false, false)}, again, step);
      add(ranks, s, {"nested", nested_with(true, true, true)}, again, step);
    }
  }

  void sweep(std::size_t ranks) {
    std::vector<named_schedule> const list{{"sequential", np::schedule::sequential{}},
                                           {"dual_buffer", np::schedule::dual_buffer<>{}},
                                           {"frozen_window", np::schedule::frozen_window{}},
                                           {"nested, no part", nested_with(false, false, false)},
                                           {"nested", nested_with(true, true, true)}};
    std::vector<chart> charts(2);
    charts[0] = {"step time over micro-batches", "emulated lookup, exchange and compute", "micro-batches of a rank", "ms a step", true, {}};
    charts[1] = {"step time over exchange / compute", "8 micro-batches; emulated lookup, exchange and compute", "exchange / compute", "ms a step", false, {}};
    for (auto& c : charts) {
      for (auto const& l : list) c.lines.push_back({l.name, {}, {}, false});
      c.lines.push_back({"lower bound (busiest lane)", {}, {}, true});
    }
    auto const point = [&](chart& c, double x, setup const& s) {
      double const rate = rate_for(ranks, s);
      heading(ranks, s, rate);
      double step = 0;
      for (std::size_t i = 0; i < list.size(); ++i) {
        auto const& r = add(ranks, s, list[i], rate, step, 1);
        if (i == 0) step = r.result.median();
        c.lines[i].x.push_back(x);
        c.lines[i].y.push_back(r.result.median() * 1e3);
      }
      c.lines.back().x.push_back(x);
      c.lines.back().y.push_back(s.lower_bound() * 1e3);
    };
    for (std::size_t const n : {1U, 2U, 4U, 8U, 16U, 32U}) {
      setup s = base();
      s.micro_batches = n;
      point(charts[0], static_cast<double>(n), s);
    }
    for (double const ratio : {0.1, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0}) {
      setup s = base();
      s.exchange = s.compute * ratio;
      point(charts[1], ratio, s);
    }
    if (!args_.plot.empty()) {
      std::ofstream out{args_.plot};
      write_plot(out, charts);
    }
  }

  void write_json() const {
    std::ofstream out{args_.json};
    out.precision(6);
    out << "{\"what\":\"emulated link, lookup and compute\",\"results\":[";
    bool first = true;
    for (auto const& r : rows_) {
      auto const& e = r.result.exposed;
      out << (first ? "\n" : ",\n") << "{\"ranks\":" << r.ranks << ",\"schedule\":\"" << r.schedule << "\",\"micro_batches\":" << r.of.micro_batches << ",\"sharing\":\"" << name(r.of.share)
          << "\",\"lookup_seconds\":" << r.of.lookup << ",\"exchange_seconds\":" << r.of.exchange << ",\"compute_seconds\":" << r.of.compute << ",\"link_latency\":" << r.of.latency
          << ",\"link_bytes_per_second\":" << r.rate << ",\"step_seconds\":" << r.result.median() << ",\"step_seconds_mean\":" << r.result.mean() << ",\"speedup\":" << r.sequential / r.result.median()
          << ",\"lower_bound_seconds\":" << r.of.lower_bound() << ",\"exposed\":{\"input\":" << e.input.exposed << ",\"lookup\":" << e.lookup.exposed << ",\"rows\":" << e.rows.exposed
          << ",\"gradients\":" << e.gradients.exposed << ",\"all_reduce\":" << e.all_reduce.exposed << ",\"other\":" << e.other << "},\"compute_busy\":" << e.compute
          << ",\"exchange_busy\":" << r.result.exchange << ",\"bytes_per_step\":" << r.result.bytes << ",\"cores\":" << r.result.cores << ",\"digest\":\"" << r.result.digest << "\"}";
      first = false;
    }
    out << "\n]}\n";
  }

  arguments args_;
  std::vector<row> rows_;
};

}  // namespace

int main(int argc, char** argv) {
  try {
    program{parse(argc, argv)}.run();
    return 0;
  } catch (np::config_error const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
