// Memory stays flat: after warm-up a step allocates nothing, and the resident size does not grow.
// NESTPIPE_TEST_FULL=1 runs 2,000 steps with a larger batch.
#include <doctest/doctest.h>

#include <nestpipe/comm/threads.hpp>
#include <nestpipe/data/synthetic.hpp>
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/dlrm.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/optimizer/rowwise_adagrad.hpp>
#include <nestpipe/schedule/any_of.hpp>
#include <nestpipe/schedule/nested.hpp>
#include <nestpipe/schedule/prefetch.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/trainer.hpp>

#include <atomic>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <new>

#include <unistd.h>

namespace {

std::atomic<std::uint64_t> allocations{0};

void* counted(std::size_t bytes, std::size_t alignment) {
  allocations.fetch_add(1, std::memory_order_relaxed);
  void* const p = alignment <= alignof(std::max_align_t) ? std::malloc(bytes == 0 ? 1 : bytes) : std::aligned_alloc(alignment, (bytes + alignment - 1) / alignment * alignment);
  if (p == nullptr) throw std::bad_alloc{};
  return p;
}

}  // namespace

void* operator new(std::size_t n) { return counted(n, 0); }
void* operator new[](std::size_t n) { return counted(n, 0); }
void* operator new(std::size_t n, std::align_val_t a) { return counted(n, static_cast<std::size_t>(a)); }
void* operator new[](std::size_t n, std::align_val_t a) { return counted(n, static_cast<std::size_t>(a)); }
void operator delete(void* p) noexcept { std::free(p); }
void operator delete[](void* p) noexcept { std::free(p); }
void operator delete(void* p, std::size_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t) noexcept { std::free(p); }
void operator delete(void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::align_val_t) noexcept { std::free(p); }
void operator delete(void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }
void operator delete[](void* p, std::size_t, std::align_val_t) noexcept { std::free(p); }

namespace np = nestpipe;

namespace {

std::size_t resident_bytes() {
  std::FILE* const f = std::fopen("/proc/self/statm", "r");
  if (f == nullptr) return 0;
  unsigned long total = 0, resident = 0;
  int const n = std::fscanf(f, "%lu %lu", &total, &resident);
  std::fclose(f);
  return n == 2 ? resident * static_cast<std::size_t>(::sysconf(_SC_PAGESIZE)) : 0;
}

struct mark {
  std::uint64_t allocations = 0;
  std::size_t resident = 0;
};

using schedules = np::schedule::any_of<np::schedule::sequential, np::schedule::prefetch, np::schedule::nested>;

void check_flat(std::string const& name, schedules schedule, std::size_t ranks, std::uint64_t steps, std::size_t batch, std::size_t threads = 1) {
  std::array<std::uint64_t, 4> const at{steps / 4, steps / 2, steps * 3 / 4, steps};
  std::array<mark, 4> marks{};
  np::comm::threads::run(ranks, [&](np::comm::threads& comm) {
    using trainer_type = np::trainer<np::model::dlrm<float, np::math::plain>, np::storage::hashed<>, np::comm::threads, schedules, np::optimizer::rowwise_adagrad, np::optimizer::adam>;
    np::data::synthetic_options o;
    o.rows = batch * steps;
    o.features = 8;
    o.dense = 4;
    o.vocabulary = 300;  // all of it has been seen after the first quarter: then no row is new
    o.max_bag = 2;
    np::trainer_config c;
    c.batch_size = batch;
    c.micro_batches = 4 / ranks;
    c.threads = threads;
    c.dim = 8;
    if (comm.rank() == 0) {
      c.on_step = [&](np::progress const& p) {
        for (std::size_t i = 0; i < at.size(); ++i) {
          if (p.step == at[i]) marks[i] = {allocations.load(), resident_bytes()};
        }
      };
    }
    typename trainer_type::policies p;
    p.model = np::model::dlrm<float, np::math::plain>{{{8}, {8}, 0.05f}};
    p.schedule = schedule;
    trainer_type t{c, comm, p};
    CHECK(t.fit(np::data::synthetic{o}).steps == steps);
  });
  for (std::size_t i = 0; i < at.size(); ++i) {
    MESSAGE(name << ", step " << at[i] << ": " << marks[i].allocations - marks[0].allocations << " allocations since step " << at[0] << ", resident "
                 << static_cast<double>(marks[i].resident) / 1048576.0 << " MiB");
  }
  // Buffers meet a new largest micro-batch ever more rarely; one allocation in every step would show as steps / 2.
  CHECK(marks[3].allocations - marks[1].allocations <= steps / 10);
  CHECK(static_cast<double>(marks[3].resident) <= static_cast<double>(marks[1].resident) * 1.01 + 1048576.0);
}

}  // namespace

TEST_CASE("no allocation and no growth after warm-up") {
  bool const full = std::getenv("NESTPIPE_TEST_FULL") != nullptr;
  std::uint64_t const steps = full ? 2000 : 400;
  std::size_t const batch = full ? 2048 : 256;
  check_flat("sequential, 1 rank", np::schedule::sequential{}, 1, steps, batch);
  check_flat("prefetch, 2 ranks", np::schedule::prefetch{}, 2, steps, batch);
  check_flat("nested, 2 ranks", np::schedule::nested{}, 2, steps, batch);
  check_flat("nested, 1 rank of 3 threads", np::schedule::nested{}, 1, steps, batch, 3);
}
