// All-to-all and all-reduce of the transports, beside what they are made of: on threads, bare copies (and sums) between two barriers;
// under mpirun, the same calls of MPI alone. Bytes that one rank sends per second, its own block included.
//
//   bench.collectives [--full] [flags of Google Benchmark]                      2 ranks as threads
//   mpirun -np 2 bench.collectives [--full] [flags of Google Benchmark]         MPI, where the program was built with it

#include "limits/clock.hpp"
#include "limits/program.hpp"

#include <nestpipe/comm/threads.hpp>
#include <nestpipe/core/huge_memory.hpp>
#if defined(NESTPIPE_BENCH_MPI)
#include <nestpipe/comm/mpi.hpp>
#endif

#include <barrier>
#include <cstdlib>
#include <cstring>
#include <string>

namespace {

namespace np = nestpipe;

struct rates {
  double ours = 0, bare = 0;
};

/// `bytes` per pair of ranks, in turn: ours, bare. All ranks call; the times are those of the caller.
template <class Channel, class Ours, class Bare>
rates measure(Channel& channel, double bytes, std::size_t reps, Ours ours, Bare bare) {
  std::vector<double> mine, theirs;
  for (std::size_t r = 0; r < reps + 2; ++r) {
    channel.barrier({"bench", r});
    double const a = np::bench::seconds_of([&] { ours(r); });
    channel.barrier({"bench", r});
    double const b = np::bench::seconds_of([&] { bare(r); });
    if (r < 2) continue;  // first touches
    mine.push_back(a);
    theirs.push_back(b);
  }
  return {bytes / np::bench::median(mine), bytes / np::bench::median(theirs)};
}

void report(benchmark::State& state, rates const& r) {
  for (auto _ : state) state.SetIterationTime(1e-6);
  state.counters["rate"] = r.ours;
  state.counters["limit"] = r.bare;
  state.counters["ratio"] = r.bare > 0 ? r.ours / r.bare : 0;
}

std::size_t reps_for(std::size_t bytes) { return bytes > (std::size_t{1} << 20) ? 31 : 301; }

constexpr std::size_t ranks = 2;

struct block {
  explicit block(std::size_t bytes) : memory{bytes, "benchmark"} { std::memset(memory.data(), 1, bytes); }
  std::span<std::byte> bytes() const { return {memory.data(), memory.size()}; }
  np::huge_memory memory;
};

void threads_all_to_all(benchmark::State& state, std::size_t bytes) {
  rates result;
  std::barrier<> both{ranks};
  std::byte const* sent[ranks] = {};
  np::comm::threads::run(ranks, [&](np::comm::threads& comm) {
    auto channel = comm.channel("bench");
    block const out{ranks * bytes}, in{ranks * bytes};
    std::vector<std::size_t> const counts(ranks, bytes);
    sent[comm.rank()] = out.bytes().data();
    rates const r = measure(
        channel, static_cast<double>(ranks * bytes), reps_for(bytes),
        [&](std::size_t step) { channel.all_to_all_v(out.bytes(), counts, in.bytes(), counts, {"bench", step}); },
        [&](std::size_t) {
          both.arrive_and_wait();
          for (std::size_t k = 0; k < ranks; ++k) std::memcpy(in.bytes().data() + k * bytes, sent[k] + comm.rank() * bytes, bytes);
          both.arrive_and_wait();
        });
    if (comm.rank() == 0) result = r;
  });
  report(state, result);
}

void threads_all_reduce(benchmark::State& state, std::size_t bytes) {
  rates result;
  std::barrier<> both{ranks};
  float* shared[ranks] = {};
  np::comm::threads::run(ranks, [&](np::comm::threads& comm) {
    auto channel = comm.channel("bench");
    block const mine{bytes};
    std::size_t const n = bytes / sizeof(float);
    std::span<float> const values{reinterpret_cast<float*>(mine.bytes().data()), n};
    for (float& v : values) v = 0.0f;
    shared[comm.rank()] = values.data();
    rates const r = measure(
        channel, static_cast<double>(bytes), reps_for(bytes), [&](std::size_t step) { channel.all_reduce_sum(values, {"bench", step}); },
        [&](std::size_t) {  // each rank adds up its half and writes it to both
          both.arrive_and_wait();
          std::size_t const first = comm.rank() * n / ranks, last = (comm.rank() + 1) * n / ranks;
          for (std::size_t i = first; i < last; ++i) shared[0][i] = shared[1][i] = shared[0][i] + shared[1][i];
          both.arrive_and_wait();
        });
    if (comm.rank() == 0) result = r;
  });
  report(state, result);
}

#if defined(NESTPIPE_BENCH_MPI)
using mpi_channel = np::comm::channel_t<np::comm::mpi>;

void mpi_all_to_all(benchmark::State& state, np::comm::mpi* comm, mpi_channel* channel, std::size_t bytes) {
  std::size_t const n = comm->size();
  block const out{n * bytes}, in{n * bytes};
  std::vector<std::size_t> const counts(n, bytes);
  std::vector<int> const count(n, static_cast<int>(bytes));
  std::vector<int> place(n);
  for (std::size_t r = 0; r < n; ++r) place[r] = static_cast<int>(r * bytes);
  report(state, measure(
                    *channel, static_cast<double>(n * bytes), reps_for(bytes),
                    [&](std::size_t step) { channel->all_to_all_v(out.bytes(), counts, in.bytes(), counts, {"bench", step}); },
                    [&](std::size_t) {
                      MPI_Alltoallv(out.bytes().data(), count.data(), place.data(), MPI_BYTE, in.bytes().data(), count.data(), place.data(), MPI_BYTE, MPI_COMM_WORLD);
                    }));
}

void mpi_all_reduce(benchmark::State& state, mpi_channel* channel, std::size_t bytes) {
  block const mine{bytes};
  std::span<float> const values{reinterpret_cast<float*>(mine.bytes().data()), bytes / sizeof(float)};
  for (float& v : values) v = 0.0f;
  report(state, measure(
                    *channel, static_cast<double>(bytes), reps_for(bytes), [&](std::size_t step) { channel->all_reduce_sum(values, {"bench", step}); },
                    [&](std::size_t) { MPI_Allreduce(MPI_IN_PLACE, values.data(), static_cast<int>(values.size()), MPI_FLOAT, MPI_SUM, MPI_COMM_WORLD); }));
}

/// For ranks that keep quiet.
class no_report : public benchmark::BenchmarkReporter {
 public:
  bool ReportContext(Context const&) override { return true; }
  void ReportRuns(std::vector<Run> const&) override {}
};
#endif

template <class... Arguments>
void add(std::string const& name, std::size_t bytes, void (*function)(benchmark::State&, Arguments...), Arguments... arguments) {
  benchmark::RegisterBenchmark((name + "/bytes:" + std::to_string(bytes)).c_str(), function, arguments...)->UseManualTime()->Iterations(1);
}

std::vector<std::size_t> sizes(bool full) {
  std::vector<std::size_t> s{std::size_t{256} << 10, std::size_t{4} << 20};
  if (full) s.insert(s.end(), {1024, std::size_t{16} << 10, std::size_t{1} << 20, std::size_t{16} << 20});
  return s;
}

}  // namespace

int main(int argc, char** argv) {
#if defined(NESTPIPE_BENCH_MPI)
  if (std::getenv("OMPI_COMM_WORLD_SIZE") != nullptr || std::getenv("PMI_SIZE") != nullptr) {
    return np::comm::mpi::run(argc, argv, [&](np::comm::mpi comm) {
      auto channel = comm.channel("bench");
      bool full = false;
      for (int i = 1; i < argc; ++i) full = full || std::string_view{argv[i]} == "--full";
      for (std::size_t const bytes : sizes(full)) {
        add("all_to_all/mpi", bytes, mpi_all_to_all, &comm, &channel, std::size_t{bytes});
        add("all_reduce/mpi", bytes, mpi_all_reduce, &channel, std::size_t{bytes});
      }
      int kept = 1;  // the flags are for the rank that prints
      benchmark::Initialize(comm.rank() == 0 ? &argc : &kept, argv);
      no_report silent;
      if (comm.rank() == 0) {
        benchmark::RunSpecifiedBenchmarks();
      } else {
        benchmark::RunSpecifiedBenchmarks(&silent);
      }
      benchmark::Shutdown();
    });
  }
#endif
  return np::bench::program(argc, argv, [](bool full) {
    for (std::size_t const bytes : sizes(full)) {
      add("all_to_all/threads", bytes, threads_all_to_all, std::size_t{bytes});
      add("all_reduce/threads", bytes, threads_all_reduce, std::size_t{bytes});
    }
  });
}
