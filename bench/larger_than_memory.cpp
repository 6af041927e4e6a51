// Trains a factorisation machine on more rows than memory holds: a tiered store over a log on disk, or all in memory to compare.
//
//   bench.larger_than_memory [--storage tiered|memory] [--distinct N] [--vocabulary N] [--fast-bytes N] [--batch N] [--schedule nested|sequential]
//                            [--every STEPS] [--threads N] [--path FOLDER]
//
// Rows have dim 16 and the float of rowwise_adagrad. Samples have one bag of 1 to 64 ids, drawn uniformly from a vocabulary: steps are as many
// as it takes to meet N distinct ones. bench/larger_than_memory.sh runs it under a hard limit of memory.

#include "limits/disk.hpp"

#include <nestpipe/comm/self.hpp>
#include <nestpipe/data/synthetic.hpp>
#include <nestpipe/math/default.hpp>
#include <nestpipe/model/fm.hpp>
#include <nestpipe/optimizer/rowwise_adagrad.hpp>
#include <nestpipe/optimizer/sgd.hpp>
#include <nestpipe/schedule/any_of.hpp>
#include <nestpipe/schedule/nested.hpp>
#include <nestpipe/schedule/sequential.hpp>
#include <nestpipe/storage/any_of.hpp>
#include <nestpipe/storage/file_log.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/storage/tiered.hpp>
#include <nestpipe/trace/exposure.hpp>
#include <nestpipe/trainer.hpp>

#include <cmath>
#include <cstdio>
#include <fstream>
#include <string>

namespace {

namespace np = nestpipe;
namespace st = nestpipe::storage;
using schedules = np::schedule::any_of<np::schedule::nested, np::schedule::sequential>;
using two_tiers = st::tiered<st::fast_memory, st::file_log<>>;

struct arguments {
  std::string storage = "tiered", schedule = "nested", path;
  std::uint64_t distinct = 1000000, vocabulary = 1000000000, fast_bytes = std::uint64_t{512} << 20, every = 100;
  std::size_t batch = 2048, threads = 1;
};

arguments parse(int argc, char** argv) {
  arguments a;
  for (int i = 1; i < argc; ++i) {
    std::string const flag = argv[i];
    np::require(i + 1 < argc, flag + " needs a value");
    std::string const value = argv[++i];
    if (flag == "--storage") a.storage = value;
    else if (flag == "--schedule") a.schedule = value;
    else if (flag == "--path") a.path = value;
    else if (flag == "--distinct") a.distinct = std::stoull(value);
    else if (flag == "--vocabulary") a.vocabulary = std::stoull(value);
    else if (flag == "--fast-bytes") a.fast_bytes = std::stoull(value);
    else if (flag == "--every") a.every = std::stoull(value);
    else if (flag == "--batch") a.batch = std::stoull(value);
    else if (flag == "--threads") a.threads = std::stoull(value);
    else throw np::config_error{"unknown flag " + flag, {}, "see the head of bench/larger_than_memory.cpp"};
  }
  np::require(a.distinct < a.vocabulary, "--distinct must be below --vocabulary");
  return a;
}

/// MB of a line of /proc/self/status: VmRSS now, VmHWM at most.
double resident(std::string const& what) {
  std::ifstream in{"/proc/self/status"};
  for (std::string word; in >> word;) {
    if (word == what + ":") {
      double kb = 0;
      in >> kb;
      return kb / 1024;
    }
  }
  return 0;
}

template <class Storage>
void train(Storage storage, arguments const& a) {
  using trainer_type = np::trainer<np::model::fm<>, Storage, np::comm::self, schedules, np::optimizer::rowwise_adagrad, np::optimizer::sgd>;
  double const v = static_cast<double>(a.vocabulary);
  double const draws = v * std::log(v / (v - static_cast<double>(a.distinct)));
  auto const steps = static_cast<std::uint64_t>(draws / (32.5 * static_cast<double>(a.batch)) * 1.005) + 1;
  np::data::synthetic_options o;
  o.rows = steps * a.batch;
  o.features = 1;
  o.dense = 1;
  o.max_bag = 64;
  o.missing = 0;
  o.exponent = 0;
  o.vocabulary = a.vocabulary;
  np::trainer_config config;
  config.batch_size = a.batch;
  config.micro_batches = 4;
  config.threads = a.threads;
  config.dim = 15;  // and the linear weight: rows of 16
  auto const start = std::chrono::steady_clock::now();
  auto last = start;
  config.on_step = [&](np::progress const& p) {
    if (p.step % a.every != 0) return;
    auto const now = std::chrono::steady_clock::now();
    std::printf("step %7llu of %llu  %8.0f samples/s  resident %7.1f MB\n", static_cast<unsigned long long>(p.step), static_cast<unsigned long long>(steps),
                static_cast<double>(a.every * a.batch) / std::chrono::duration<double>(now - last).count(), resident("VmRSS"));
    std::fflush(stdout);
    last = now;
  };
  typename trainer_type::policies policies;
  policies.storage = storage;
  if (a.schedule == "sequential") policies.schedule = np::schedule::sequential{};
  np::comm::self comm;
  trainer_type trainer{config, comm, policies};
  std::size_t const kept = 2000;
  trainer.executor().recorder().keep(kept * 64);
  trainer.fit(np::data::synthetic{o});
  double const seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  Storage const& store = trainer.engine().rows().store(0);
  std::printf("%s, %s: %llu distinct rows, %llu steps of %zu samples in %.1f s: %.0f samples/s, %.0f ids/s; resident at most %.1f MB\n", a.storage.c_str(),
              a.schedule.c_str(), static_cast<unsigned long long>(store.size()), static_cast<unsigned long long>(steps), a.batch, seconds,
              static_cast<double>(steps * a.batch) / seconds, 32.5 * static_cast<double>(steps * a.batch) / seconds, resident("VmHWM"));
  std::uint64_t counted = 0;
  std::uint64_t const first = steps > 400 ? steps - 300 : steps / 4;
  auto const times = np::trace::times_between(trainer.executor().recorder().intervals(), first, steps, counted);
  auto const e = np::trace::summarize(times, std::max<std::uint64_t>(counted, 1));
  std::printf("last %llu steps, ms a step: compute %.1f; lookup %.1f, of which exposed %.1f; input %.1f, exposed %.1f; other %.1f\n",
              static_cast<unsigned long long>(counted), e.compute * 1e3, e.lookup.total * 1e3, e.lookup.exposed * 1e3, e.input.total * 1e3, e.input.exposed * 1e3,
              e.other * 1e3);
  if constexpr (requires { store.tiers(); }) {
    auto const t = store.tiers();
    auto const l = store.slow().log_counters();
    std::printf("fast tier %llu of %llu rows, hit rate %.3f; %.2f GB up in %.1f s, %.2f GB down in %.1f s\n", static_cast<unsigned long long>(t.rows),
                static_cast<unsigned long long>(t.capacity), t.hit_rate(), static_cast<double>(t.bytes_up) / 1e9, t.read_seconds,
                static_cast<double>(t.bytes_down) / 1e9, t.write_seconds);
    std::printf("slow tier: index %.2f bytes a row, file %.2f GB, %llu blocks read, %llu written and %llu again\n",
                static_cast<double>(l.index_bytes) / static_cast<double>(store.slow().size()), static_cast<double>(l.disk_bytes) / 1e9,
                static_cast<unsigned long long>(l.blocks_read), static_cast<unsigned long long>(l.blocks_written), static_cast<unsigned long long>(l.blocks_rewritten));
  }
  std::fflush(stdout);
}

void run(arguments const& a) {
  if (a.storage == "memory") {
    train(st::hashed<>{}, a);
    return;
  }
  st::file_log_options slow;
  slow.path = a.path;
  st::tier_options fast;
  fast.bytes = a.fast_bytes;
  train(two_tiers{fast, st::file_log<>{slow}}, a);
  auto const d = np::bench::measure_disk(a.path, std::uint64_t{1} << 30, 1);
  std::printf("disk: 1 MiB blocks: write %.0f MB/s, read %.0f MB/s; 4 KiB random reads a second: %.0f at depth 1, %.0f at 16, %.0f at 64\n",
              d.write_bytes / 1e6, d.read_bytes / 1e6, d.reads_1, d.reads_16, d.reads_64);
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(parse(argc, argv));
  } catch (std::exception const& e) {
    std::fprintf(stderr, "bench.larger_than_memory: %s\n", e.what());
    return 1;
  }
}
