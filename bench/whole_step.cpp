// Training steps of two usual models on synthetic samples, all in memory: samples a second, and how much of a step is matrix
// products. bench/peer_torch.py runs this program and the same models in PyTorch on the same samples.
//
//   bench.whole_step [--model dlrm|deepfm] [--dim N] [--batch N] [--ranks N] [--threads N] [--micro-batches N] [--schedule NAME]
//                    [--storage dense|hashed] [--rows-optimizer adagrad|rowwise_adagrad] [--steps N] [--warm-up N] [--cores N]
//                    [--rows N] [--write-samples FILE]
//
// --cores N keeps the whole process on the first N cores it may use. One line of JSON on standard output.

#include "whole_step/samples.hpp"

#include <nestpipe/comm/any_of.hpp>
#include <nestpipe/comm/self.hpp>
#include <nestpipe/comm/threads.hpp>
#include <nestpipe/engine/measure_limits.hpp>
#include <nestpipe/math/default.hpp>
#include <nestpipe/model/any_of.hpp>
#include <nestpipe/model/deepfm.hpp>
#include <nestpipe/model/dlrm.hpp>
#include <nestpipe/optimizer/adagrad.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/optimizer/any_of.hpp>
#include <nestpipe/optimizer/rowwise_adagrad.hpp>
#include <nestpipe/schedule/any_of.hpp>
#include <nestpipe/schedule/nested.hpp>
#include <nestpipe/schedule/prefetch.hpp>
#include <nestpipe/storage/any_of.hpp>
#include <nestpipe/storage/dense.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/trainer.hpp>

#include <atomic>
#include <cstdio>
#include <ctime>
#include <map>
#include <sched.h>
#include <sys/resource.h>

namespace {

using namespace bench;

std::atomic<std::uint64_t> product_nanoseconds{0};

/// The best backend, with the processor time of its products added up.
struct timed {
  static constexpr char const* name = np::math::automatic::name;

  template <class Scalar>
  static void gemm(bool transpose_a, bool transpose_b, std::size_t m, std::size_t n, std::size_t k, Scalar alpha, Scalar const* a,
                   std::size_t lda, Scalar const* b, std::size_t ldb, Scalar beta, Scalar* c, std::size_t ldc) {
    std::uint64_t const begin = now();
    np::math::automatic::gemm<Scalar>(transpose_a, transpose_b, m, n, k, alpha, a, lda, b, ldb, beta, c, ldc);
    product_nanoseconds.fetch_add(now() - begin, std::memory_order_relaxed);
  }

 private:
  static std::uint64_t now() {
    timespec t{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return static_cast<std::uint64_t>(t.tv_sec) * 1'000'000'000U + static_cast<std::uint64_t>(t.tv_nsec);
  }
};

using models = np::model::any_of<np::model::dlrm<float, timed>, np::model::deepfm<float, timed>>;
using stores = np::storage::any_of<np::storage::dense, np::storage::hashed<>>;
using schedules = np::schedule::any_of<np::schedule::sequential, np::schedule::prefetch, np::schedule::nested>;
using optimizers = np::optimizer::any_of<np::optimizer::adagrad, np::optimizer::rowwise_adagrad, np::optimizer::adam>;
using comm_type = np::comm::any_of<np::comm::self, np::comm::threads>;
using trainer_type = np::trainer<models, stores, comm_type, schedules, optimizers, optimizers>;

struct arguments {
  std::string model = "dlrm", schedule = "nested", storage = "dense", rows_optimizer = "adagrad", write;
  std::size_t dim = 16, batch = 2048, ranks = 1, threads = 1, micro_batches = 1, cores = 0;
  std::uint64_t steps = 60, warm_up = 12;
  sample_shape samples;
};

arguments parse(int argc, char** argv) {
  arguments a;
  std::map<std::string, std::string*> const texts{{"--model", &a.model}, {"--schedule", &a.schedule}, {"--storage", &a.storage}, {"--rows-optimizer", &a.rows_optimizer}, {"--write-samples", &a.write}};
  std::map<std::string, std::size_t*> const numbers{{"--dim", &a.dim},       {"--batch", &a.batch}, {"--ranks", &a.ranks},     {"--threads", &a.threads},     {"--micro-batches", &a.micro_batches},
                                                    {"--cores", &a.cores},   {"--steps", &a.steps}, {"--warm-up", &a.warm_up}, {"--rows", &a.samples.rows}};
  for (int i = 1; i < argc; i += 2) {
    std::string const flag = argv[i];
    np::require(i + 1 < argc, flag + " needs a value");
    if (auto const t = texts.find(flag); t != texts.end()) *t->second = argv[i + 1];
    else if (auto const n = numbers.find(flag); n != numbers.end()) *n->second = std::stoul(argv[i + 1]);
    else throw np::config_error{"unknown flag " + flag, {}, "see the head of bench/whole_step.cpp"};
  }
  return a;
}

void keep_to(std::size_t cores) {
  if (cores == 0) return;
  cpu_set_t allowed, chosen;
  CPU_ZERO(&chosen);
  sched_getaffinity(0, sizeof allowed, &allowed);
  for (std::size_t c = 0, taken = 0; c < CPU_SETSIZE && taken < cores; ++c) {
    if (!CPU_ISSET(c, &allowed)) continue;
    CPU_SET(c, &chosen);
    ++taken;
  }
  np::require(sched_setaffinity(0, sizeof chosen, &chosen) == 0, "cannot choose the cores", "--cores", "leave it out");
}

double cpu_seconds() {
  rusage u{};
  getrusage(RUSAGE_SELF, &u);
  auto const seconds = [](timeval const& t) { return static_cast<double>(t.tv_sec) + 1e-6 * static_cast<double>(t.tv_usec); };
  return seconds(u.ru_utime) + seconds(u.ru_stime);
}

models make_model(arguments const& a) {
  if (a.model == "deepfm") return np::model::deepfm<float, timed>{{.hidden = {512, 256}}};
  np::require(a.model == "dlrm", "unknown model " + a.model, "--model", "say dlrm or deepfm");
  return np::model::dlrm<float, timed>{{.bottom = {512, 256}, .top = {512, 256}}};
}

np::trainer_config make_config(arguments const& a, models const& m) {
  np::trainer_config c;
  c.dim = a.dim;
  c.batch_size = a.batch;
  c.micro_batches = a.micro_batches;
  c.threads = a.threads;
  c.steps = a.warm_up + a.steps;
  c.epochs = 1'000'000;
  auto const request = m.request(a.dim);
  for (std::size_t f = 0; f < a.samples.features; ++f) {
    std::string const name = "cat_" + std::to_string(f);
    c.tables.push_back({name, request.dim, request.init, 0.0f, a.samples.table_rows(f)});
    c.features.push_back({name, name, request.pooling});
  }
  return c;
}

schedules make_schedule(std::string const& name) {
  if (name == "sequential") return np::schedule::sequential{};
  if (name == "prefetch") return np::schedule::prefetch{};
  np::require(name == "nested", "unknown schedule " + name, "--schedule", "say sequential, prefetch or nested");
  return np::schedule::nested{};
}

struct measured {
  double wall = 0, processor = 0, products = 0, median_step = 0;
  double floor = 0, floor_lanes[np::exec::lane_count]{};
  np::trace::stage_times times;
  std::string digest;
};

/// The least time of a step on what this machine reached just now.
void judge(arguments const& a, trainer_type& trainer, measured& m) {
  auto const work = trainer.engine().work();
  auto const limits = np::engine::measure_limits<np::math::automatic>(work, trainer.engine().rows().stored_bytes());
  double const cores = static_cast<double>(a.cores == 0 ? std::thread::hardware_concurrency() : a.cores) / static_cast<double>(a.ranks);
  m.floor = np::engine::floor_seconds(work, limits, {a.schedule != "sequential", cores, static_cast<double>(a.threads), a.ranks}) / work.batches;
  auto const lanes = np::engine::lane_floors(work, limits, a.ranks);
  for (std::size_t l = 0; l < lanes.size(); ++l) m.floor_lanes[l] = lanes[l] / work.batches;
}

measured train(arguments const& a, np::data::in_memory const& samples, comm_type comm) {
  trainer_type::policies p;
  p.model = make_model(a);
  if (a.storage == "hashed") p.storage = np::storage::hashed<>{};
  p.schedule = make_schedule(a.schedule);
  p.row_optimizer = a.rows_optimizer == "rowwise_adagrad" ? optimizers{np::optimizer::rowwise_adagrad{}} : optimizers{np::optimizer::adagrad{}};
  p.dense_optimizer = np::optimizer::adam{};
  np::trainer_config config = make_config(a, p.model);
  std::vector<double> ends;
  ends.reserve(config.steps);
  measured m;
  double processor = 0;
  std::uint64_t products = 0;
  auto const now = [] { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); };
  bool const first = comm.rank() == 0;
  config.on_step = [&](np::progress const& s) {
    if (!first) return;
    if (s.step == a.warm_up) {
      processor = cpu_seconds();
      products = product_nanoseconds.load();
    }
    if (s.step >= a.warm_up) ends.push_back(now());
    if (s.step == a.warm_up + a.steps) {
      m.processor = cpu_seconds() - processor;
      m.products = 1e-9 * static_cast<double>(product_nanoseconds.load() - products);
    }
  };
  trainer_type trainer{config, std::move(comm), std::move(p)};
  trainer.fit(samples);
  m.digest = trainer.parameters_digest().text();
  m.times = trainer.stage_times();
  if (first) judge(a, trainer, m);
  if (!first) return m;
  m.wall = ends.back() - ends.front();
  std::vector<double> steps;
  for (std::size_t i = 1; i < ends.size(); ++i) steps.push_back(ends[i] - ends[i - 1]);
  std::nth_element(steps.begin(), steps.begin() + static_cast<std::ptrdiff_t>(steps.size() / 2), steps.end());
  m.median_step = steps[steps.size() / 2];
  return m;
}

void print(arguments const& a, measured const& m) {
  double const steps = static_cast<double>(a.steps);
  double const all = steps + static_cast<double>(a.warm_up);
  double const cores = static_cast<double>(a.cores == 0 ? 1 : a.cores);
  std::printf("{\"model\": \"%s\", \"dim\": %zu, \"batch\": %zu, \"schedule\": \"%s\", \"ranks\": %zu, \"threads\": %zu, \"micro_batches\": %zu, \"cores\": %zu, \"storage\": \"%s\", ",
              a.model.c_str(), a.dim, a.batch, a.schedule.c_str(), a.ranks, a.threads, a.micro_batches, a.cores, a.storage.c_str());
  std::printf("\"samples_per_second\": %.0f, \"step_ms\": %.3f, \"mean_step_ms\": %.3f, \"processor_ms\": %.3f, \"products_ms\": %.3f, \"outside_ms\": %.3f, ",
              static_cast<double>(a.batch) / m.median_step, 1e3 * m.median_step, 1e3 * m.wall / steps, 1e3 * m.processor / steps, 1e3 * m.products / steps,
              1e3 * (m.median_step - m.products / steps / cores));
  std::printf("\"floor_ms\": %.3f, \"floor_share\": %.3f, \"floor_lanes_ms\": {", 1e3 * m.floor, m.floor / m.median_step);
  for (std::size_t l = 0; l < np::exec::lane_count; ++l)
    std::printf("%s\"%s\": %.3f", l == 0 ? "" : ", ", std::string{np::exec::name(static_cast<np::exec::lane>(l))}.c_str(), 1e3 * m.floor_lanes[l]);
  std::printf("}, \"stage_ms\": {");
  for (std::size_t s = 0; s < np::exec::stage_count; ++s)
    std::printf("%s\"%s\": %.3f", s == 0 ? "" : ", ", std::string{np::exec::name(static_cast<np::exec::stage>(s))}.c_str(), 1e3 * m.times.total[s] / all);
  std::printf("}, \"digest\": \"%s\"}\n", m.digest.c_str());
}

int run(arguments const& a) {
  np::data::sample_columns columns = make_samples(a.samples);
  if (!a.write.empty()) {
    write_samples(a.write, columns);
    return 0;
  }
  np::data::in_memory const samples{std::move(columns)};
  keep_to(a.cores);
  measured result;
  if (a.ranks == 1) {
    result = train(a, samples, comm_type{np::comm::self{}});
  } else {
    np::comm::threads::run(a.ranks, [&](np::comm::threads& comm) {
      measured const m = train(a, samples, comm_type{comm});
      if (comm.rank() == 0) result = m;
    });
  }
  print(a, result);
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return run(parse(argc, argv));
  } catch (std::exception const& e) {
    std::fprintf(stderr, "%s\n", e.what());
    return 1;
  }
}
