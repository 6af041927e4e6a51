// Step times of the schedules on a real model: dlrm on zipf-distributed keys, real lookup and compute, with the bytes of every
// exchange on a real link (under mpirun, one rank per process) or on an emulated one (threads of this process).
//
//   bench.real_link [--schedule NAME] [--ranks N] [--micro-batches N] [--samples N] [--dim N] [--width N] [--steps N] [--repeats N]
//                   [--compute SECONDS] [--lookup SECONDS] [--link-latency SECONDS] [--link-bandwidth BYTES_PER_SECOND] [--read-latency SECONDS] [--report FILE.json]
//
// --compute and --lookup make the stages of a step take so long at least (they sleep for the rest, as a host does while an
// accelerator works): real bytes on a real link beside emulated work. Without --schedule all of them run, and their digests must be equal. bench/netns_compare.sh runs it over rate-limited links.

#include "exposure/paced.hpp"

#include <nestpipe/comm/emulated_link.hpp>
#include <nestpipe/comm/threads.hpp>
#include <nestpipe/data/synthetic.hpp>
#include <nestpipe/math/default.hpp>
#include <nestpipe/model/dlrm.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/optimizer/rowwise_adagrad.hpp>
#include <nestpipe/schedule/any_of.hpp>
#include <nestpipe/schedule/nested.hpp>
#include <nestpipe/schedule/prefetch.hpp>
#include <nestpipe/storage/emulated_latency.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/trace/exposure.hpp>
#include <nestpipe/trainer.hpp>

#if defined(NESTPIPE_BENCH_MPI)
#include <nestpipe/comm/mpi.hpp>
#endif

#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <limits>

namespace {

namespace np = nestpipe;
using schedules = np::schedule::any_of<np::schedule::sequential, np::schedule::prefetch, np::schedule::dual_buffer<>, np::schedule::frozen_window, np::schedule::nested>;

struct arguments {
  std::string schedule, report;
  std::size_t ranks = 2, micro_batches = 8, samples = 1024, dim = 16, width = 128, repeats = 3;
  std::uint64_t steps = 40;
  double link_latency = 0, link_bandwidth = std::numeric_limits<double>::infinity(), read_latency = 0, compute = 0, lookup = 0;
};

arguments parse(int argc, char** argv) {
  arguments a;
  for (int i = 1; i < argc; ++i) {
    std::string const flag = argv[i];
    np::require(i + 1 < argc, flag + " needs a value");
    std::string const value = argv[++i];
    auto const count = [&] { return static_cast<std::size_t>(std::stoull(value)); };
    if (flag == "--schedule") a.schedule = value;
    else if (flag == "--report") a.report = value;
    else if (flag == "--ranks") a.ranks = count();
    else if (flag == "--micro-batches") a.micro_batches = count();
    else if (flag == "--samples") a.samples = count();
    else if (flag == "--dim") a.dim = count();
    else if (flag == "--width") a.width = count();
    else if (flag == "--repeats") a.repeats = count();
    else if (flag == "--steps") a.steps = count();
    else if (flag == "--link-latency") a.link_latency = std::stod(value);
    else if (flag == "--link-bandwidth") a.link_bandwidth = std::stod(value);
    else if (flag == "--compute") a.compute = std::stod(value);
    else if (flag == "--lookup") a.lookup = std::stod(value);
    else if (flag == "--read-latency") a.read_latency = std::stod(value);
    else throw np::config_error{"unknown flag " + flag, {}, "see the head of bench/real_link.cpp"};
  }
  return a;
}

struct result {
  std::vector<double> steps;
  np::trace::exposure exposed;
  std::string digest;
  double megabytes = 0;
};

template <class Comm>
result train(Comm& inner, arguments const& a, schedules const& chosen) {
  using comm_type = np::comm::emulated_link<Comm>;
  using storage_type = np::storage::emulated_latency<np::storage::hashed<>>;
  using trainer_type = np::trainer<np::model::dlrm<>, storage_type, comm_type, schedules, np::optimizer::rowwise_adagrad, np::optimizer::adam, bench::paced<>>;
  comm_type comm{inner, {a.link_latency, a.link_bandwidth, {"exchange"}}};
  np::trainer_config config;
  config.batch_size = a.samples * comm.size();
  config.micro_batches = a.micro_batches;
  config.dim = a.dim;
  std::vector<std::chrono::steady_clock::time_point> updates;
  updates.reserve(static_cast<std::size_t>(a.steps));
  config.on_step = [&](np::progress const&) { updates.push_back(std::chrono::steady_clock::now()); };
  typename trainer_type::policies policies;
  policies.model = np::model::dlrm<>{{{a.width, a.width / 2}, {a.width, a.width / 2}, 0.05f}};
  policies.storage = storage_type{np::storage::hashed<>{}, {.read_latency = a.read_latency}};
  policies.schedule = chosen;
  trainer_type trainer{config, comm, policies};
  trainer.executor().recorder().keep(8192);
  auto& pace = trainer.executor().times;
  using np::exec::stage;
  pace[stage::forward_backward] = a.compute * 2 / 3 / static_cast<double>(a.micro_batches);
  pace[stage::weight_gradients] = a.compute / 3 / static_cast<double>(a.micro_batches);
  // As in bench.exposure: read, stage, route, retrieve, write_back.
  pace[stage::read] = a.lookup * 0.25;
  pace[stage::stage] = a.lookup * 0.10;
  pace[stage::route] = a.lookup * 0.15;
  pace[stage::retrieve] = a.lookup * 0.30;
  pace[stage::write_back] = a.lookup * 0.20;
  np::data::synthetic_options o;
  o.rows = config.batch_size * a.steps;
  trainer.fit(np::data::synthetic{o});
  result r;
  std::size_t const warm_up = updates.size() / 4;
  for (std::size_t i = std::max<std::size_t>(warm_up, 1); i < updates.size(); ++i) r.steps.push_back(std::chrono::duration<double>(updates[i] - updates[i - 1]).count());
  std::uint64_t counted = 0;
  auto const times = np::trace::times_between(trainer.executor().recorder().intervals(), warm_up, a.steps, counted);
  r.exposed = np::trace::summarize(times, counted);
  auto const moved = trainer.engine().exchanged();
  r.megabytes = static_cast<double>(moved.rows + moved.gradients) / 1e6 / static_cast<double>(a.steps);
  r.digest = trainer.parameters_digest().text();
  return r;
}

template <class Comm>
void compare(Comm& comm, arguments const& a, char const* transport) {
  std::vector<std::pair<std::string, schedules>> const all{{"sequential", np::schedule::sequential{}},
                                                          {"prefetch", np::schedule::prefetch{}},
                                                          {"dual_buffer", np::schedule::dual_buffer<>{}},
                                                          {"frozen_window", np::schedule::frozen_window{}},
                                                          {"nested", np::schedule::nested{}}};
  bool const speaks = comm.rank() == 0;
  if (speaks)
    std::printf("dlrm, %zu ranks (%s), %zu samples and %zu micro-batches a rank, dim %zu, layers of %zu; emulated compute %.1f ms, lookup %.1f ms; %s\n", comm.size(), transport, a.samples, a.micro_batches, a.dim,
                a.width, a.compute * 1e3, a.lookup * 1e3,
                np::comm::link_options{a.link_latency, a.link_bandwidth, {"exchange"}}.label().c_str());
  double sequential = 0;
  std::string digest;
  bool any = false;
  for (auto const& [name, schedule] : all) {
    if (!a.schedule.empty() && a.schedule != name) continue;
    any = true;
    std::vector<result> runs;
    for (std::size_t k = 0; k < std::max<std::size_t>(a.repeats, 1); ++k) runs.push_back(train(comm, a, schedule));
    if (!speaks) continue;
    auto const median = [](std::vector<double> v) {
      std::nth_element(v.begin(), v.begin() + static_cast<std::ptrdiff_t>(v.size() / 2), v.end());
      return v[v.size() / 2];
    };
    std::sort(runs.begin(), runs.end(), [&](result const& x, result const& y) { return median(x.steps) < median(y.steps); });
    auto const& middle = runs[runs.size() / 2];
    double const step = median(middle.steps);
    if (sequential == 0) sequential = step;
    auto const& e = middle.exposed;
    std::printf("%-14s %8.2f ms a step (of %zu runs: %.2f to %.2f) x%.3f | exposed ms: input %.2f lookup %.2f rows %.2f gradients %.2f all-reduce %.2f other %.2f | busy: compute %.2f exchange %.2f lookup %.2f | %.2f MB a step\n",
                name.c_str(), step * 1e3, runs.size(), median(runs.front().steps) * 1e3, median(runs.back().steps) * 1e3, sequential / step, e.input.exposed * 1e3, e.lookup.exposed * 1e3,
                e.rows.exposed * 1e3, e.gradients.exposed * 1e3, e.all_reduce.exposed * 1e3, e.other * 1e3, e.compute * 1e3, (e.rows.total + e.gradients.total) * 1e3,
                (e.lookup.total + e.input.total) * 1e3, middle.megabytes);
    std::fflush(stdout);
    if (digest.empty()) digest = middle.digest;
    if (middle.digest != digest) throw np::error{"digests differ", name + ": " + middle.digest + ", not " + digest, "report this: every exact schedule trains the same bits"};
    if (!a.report.empty()) {
      std::ofstream out{a.report};
      out << "{\"schedule\": \"" << name << "\", \"steps\": " << a.steps << ", \"step_seconds\": " << step << ", \"parameters_digest\": \"" << middle.digest << "\"}\n";
    }
  }
  np::require(any, "no schedule is called " + a.schedule);
  if (speaks) std::printf("digest %s\n", digest.c_str());
}

}  // namespace

int main(int argc, char** argv) {
#if defined(NESTPIPE_BENCH_MPI)
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMI_SIZE") != nullptr)
    return np::comm::mpi::run(argc, argv, [&](np::comm::mpi& comm) { compare(comm, parse(argc, argv), "MPI processes"); });
#endif
  try {
    arguments const a = parse(argc, argv);
    np::comm::threads::run(a.ranks, [&](np::comm::threads& comm) { compare(comm, a, "threads"); });
    return 0;
  } catch (np::config_error const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 2;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
