// How well the simulator predicts: calibrated on two sequential runs of bench/exposure's emulated set-up, it says what a step of
// the ten configurations of simulator/configurations.hpp takes; then they are run.
//
//   bench.simulator [--ranks N] [--repeats N] [--json FILE]

#include "simulator/configurations.hpp"

#include <nestpipe/comm/threads.hpp>
#include <nestpipe/sim/profile.hpp>
#include <nestpipe/sim/simulate.hpp>

#include <fstream>
#include <pthread.h>
#include <sched.h>

namespace {

using namespace bench;
namespace sim = np::sim;
using np::comm::threads;

struct arguments {
  std::size_t ranks = 2, repeats = 3;
  std::string json;
};

arguments parse(int argc, char** argv) {
  arguments a;
  for (int i = 1; i < argc; ++i) {
    std::string const flag = argv[i];
    auto const value = [&] {
      np::require(i + 1 < argc, flag + " needs a value");
      return std::string{argv[++i]};
    };
    if (flag == "--ranks") a.ranks = std::max<std::size_t>(1, std::stoul(value()));
    else if (flag == "--repeats") a.repeats = std::max<std::size_t>(1, std::stoul(value()));
    else if (flag == "--json") a.json = value();
    else throw np::config_error{"unknown flag " + flag, {}, "see the head of bench/simulator.cpp"};
  }
  return a;
}

// The repeat with the median step.
outcome measure(arguments const& a, setup const& s, named_schedule const& chosen, double rate) {
  std::vector<outcome> all;
  for (std::size_t k = 0; k < a.repeats; ++k) {
    threads::run(a.ranks, [&](threads& comm) {
      outcome mine = train(comm, s, chosen, rate);
      if (comm.rank() == 0) all.push_back(std::move(mine));
    });
  }
  std::sort(all.begin(), all.end(), [](outcome const& x, outcome const& y) { return x.median() < y.median(); });
  return std::move(all[all.size() / 2]);
}

struct sequential_run {
  sim::measured_run run;
  double link_share = 0;  // of the exchange: on the link, so proportional to what its bandwidth costs
};

sequential_run calibrated(arguments const& a, setup s, std::size_t micro_batches, double rate) {
  s.micro_batches = micro_batches;
  outcome const o = measure(a, s, {"sequential", np::schedule::sequential{}}, rate);
  sequential_run r;
  auto const& mine = o.timeline.front().intervals;
  r.run.times = np::trace::times_between(mine, s.warm_up, s.steps - 2, r.run.steps);
  r.run.micro_batches = static_cast<std::uint32_t>(micro_batches);
  r.run.step_seconds = (r.run.times.compute + r.run.times.idle()) / static_cast<double>(r.run.steps);
  r.link_share = std::min(1.0, o.link_seconds / o.exchange);
  std::printf("calibration: sequential, %zu micro-batches: %.2f ms a step, exchange %.2f ms\n", micro_batches, r.run.step_seconds * 1e3, o.exchange * 1e3);
  return r;
}

sim::measured_run with_exchange(sequential_run const& r, double factor) {
  sim::measured_run run = r.run;
  for (auto const s : {exec::stage::exchange_rows, exec::stage::exchange_gradients}) run.times.total[static_cast<std::size_t>(s)] *= 1 + r.link_share * (factor - 1);
  // The rest of the step stays, so that what is handed over does too.
  for (auto const s : {exec::stage::exchange_rows, exec::stage::exchange_gradients})
    run.step_seconds += (run.times.total[static_cast<std::size_t>(s)] - r.run.times.total[static_cast<std::size_t>(s)]) / static_cast<double>(run.steps);
  return run;
}

int run(arguments const& a) {
  sched_param priority{};
  priority.sched_priority = 10;  // threads made later inherit it
  bool const raised = pthread_setschedparam(pthread_self(), SCHED_FIFO, &priority) == 0;
  std::printf("emulated link, lookup and compute; %zu ranks (threads); %s priority\n", a.ranks, raised ? "real-time" : "normal");
  setup base;
  base.steps = 16;
  base.warm_up = 5;
  double rate = 0;
  threads::run(a.ranks, [&](threads& comm) {
    double const r = calibrate(comm, base);
    if (comm.rank() == 0) rate = r;
  });
  sequential_run const few = calibrated(a, base, 2, rate);
  sequential_run const many = calibrated(a, base, 16, rate);

  std::printf("%-32s %5s %10s | %12s %12s %8s\n", "schedule", "N", "exchange x", "predicted ms", "measured ms", "error");
  std::string json = "{\"what\":\"simulator calibrated on sequential runs of emulated work\",\"results\":[";
  std::size_t within = 0;
  auto const configurations = ten_configurations();
  for (auto const& c : configurations) {
    sim::profile p = sim::fit(with_exchange(few, c.exchange), with_exchange(many, c.exchange));
    p.micro_batches = static_cast<std::uint32_t>(c.micro_batches);
    p.early_share = base.stream(a.ranks, 16).measure(base.samples * a.ranks / c.micro_batches).early;
    sim::virtual_lanes<sim::profile> lanes{p, 1, p.hand_over};
    double const predicted = sim::simulate(c.chosen.schedule, lanes, {.batches = 30, .warm_up = 12, .micro_batches = p.micro_batches}).step_seconds;
    setup s = base;
    s.micro_batches = c.micro_batches;
    double const measured = measure(a, s, c.chosen, rate / c.exchange).median();
    double const error = predicted / measured - 1;
    within += std::abs(error) <= 0.1;
    std::printf("%-32s %5zu %10.2f | %12.2f %12.2f %+7.1f %%\n", c.chosen.name.c_str(), c.micro_batches, c.exchange, predicted * 1e3, measured * 1e3, error * 100);
    std::fflush(stdout);
    json += (json.back() == '[' ? "\n" : ",\n") + std::string{"{\"schedule\":\""} + c.chosen.name + "\",\"micro_batches\":" + std::to_string(c.micro_batches) +
            ",\"exchange_factor\":" + std::to_string(c.exchange) + ",\"predicted_seconds\":" + std::to_string(predicted) + ",\"measured_seconds\":" + std::to_string(measured) + "}";
  }
  std::printf("%zu of %zu within 10 %%\n", within, configurations.size());
  if (!a.json.empty()) {
    std::ofstream out{a.json};
    out << json << "\n]}\n";
    if (!out) throw np::error{"cannot write", a.json};
  }
  return within == configurations.size() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (np::config_error const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
