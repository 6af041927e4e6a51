// The emulated device: fibers for threads, shadow memory for every byte kernels touch, queues for streams. One lock for all of it.
//
// The compiler calls __tsan_* before every load and store of the code under test (it is compiled with -fsanitize=thread and linked with
// this file instead of the sanitizer's library); this file itself is compiled without.
#include "emulation.hpp"

#include <cuda_runtime.h>

#include <cxxabi.h>
#include <dlfcn.h>
#include <link.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <cstdio>
#include <cstdlib>
#include <deque>
#include <mutex>
#include <numeric>
#include <thread>
#include <unordered_map>
#include <vector>

#if !defined(__x86_64__)
#include <ucontext.h>
#endif

extern "C" char __executable_start, data_start;

namespace emulation {
namespace {

using address = std::uintptr_t;

// ---- fibers -----------------------------------------------------------------------------------------------------------
constexpr std::size_t stack_bytes = std::size_t{64} << 10;

#if defined(__x86_64__)
extern "C" void nestpipe_emulation_switch(void** save, void* load);
asm(R"(
.text
.type nestpipe_emulation_switch,@function
nestpipe_emulation_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp,(%rdi)
  movq %rsi,%rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
)");
struct context {
  void* sp = nullptr;
};
void switch_to(context& from, context& to) { nestpipe_emulation_switch(&from.sp, to.sp); }
void prepare(context& c, std::byte* stack, void (*entry)()) {
  auto* top = reinterpret_cast<void**>(stack + stack_bytes);
  *--top = nullptr;  // the entry never returns; keeps the stack aligned as at a call
  *--top = reinterpret_cast<void*>(entry);
  for (int i = 0; i < 6; ++i) *--top = nullptr;
  c.sp = top;
}
#else
struct context {
  ucontext_t u;
};
void switch_to(context& from, context& to) { swapcontext(&from.u, &to.u); }
void prepare(context& c, std::byte* stack, void (*entry)()) {
  getcontext(&c.u);
  c.u.uc_stack.ss_sp = stack;
  c.u.uc_stack.ss_size = stack_bytes;
  c.u.uc_link = nullptr;
  makecontext(&c.u, entry, 0);
}
#endif

enum class state : std::uint8_t { ready, in_block, in_warp, done };

struct fiber {
  context at;
  std::byte* stack = nullptr;
  unsigned number = 0;   // in its block
  state now = state::ready;
  std::uint16_t block_epoch = 0;
  std::uint16_t warp_epoch = 0;
  meeting kind{};
  unsigned mask = 0;
  std::uint64_t mine = 0;
  std::uint64_t all[32];
  where spot{};
};

// ---- memory -----------------------------------------------------------------------------------------------------------
constexpr std::size_t arena_bytes = std::size_t{1} << 32;
constexpr std::size_t granule = 256;   // allocations start on one, and one lies free behind each

struct touched {
  std::uint32_t block = 0;    // serial number over all launches; 0: never
  std::uint16_t thread = 0;   // several: more than one thread has read
  std::uint16_t block_epoch = 0;
  std::uint16_t warp_epoch = 0;
  bool atomic = false;
};
constexpr std::uint16_t several = 0xffff;
struct cell {
  touched write, read;
  bool filled = false;
};

struct allocation {
  address begin = 0;
  std::size_t bytes = 0;
  bool live = true;
  std::vector<cell> shadow;
};

struct arena {
  char const* name;
  bool device;
  address begin = 0, next = 0;
  std::vector<std::uint32_t> owner;       // per granule: allocation + 1
  std::deque<allocation> allocations;

  arena(char const* n, bool d) : name{n}, device{d} {
    void* const p = ::mmap(nullptr, arena_bytes, d ? PROT_NONE : PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) std::abort();
    begin = reinterpret_cast<address>(p);
    next = begin + granule;
  }
  bool holds(address a) const { return a - begin < arena_bytes; }
  bool open(bool on) const {
    std::size_t const used = (next - begin + 4095) / 4096 * 4096;
    return ::mprotect(reinterpret_cast<void*>(begin), used, on ? PROT_READ | PROT_WRITE : PROT_NONE) == 0;
  }
  void* allocate(std::size_t bytes) {
    std::size_t const room = (bytes + granule - 1) / granule * granule + granule;
    if (room < bytes || next - begin + room > arena_bytes) return nullptr;
    allocation a;
    a.begin = next;
    a.bytes = bytes;
    allocations.push_back(std::move(a));
    owner.resize((next - begin + room) / granule, 0);
    for (std::size_t g = 0; g * granule < bytes || g == 0; ++g) owner[(next - begin) / granule + g] = static_cast<std::uint32_t>(allocations.size());
    void* const p = reinterpret_cast<void*>(next);
    next += room;
    return p;
  }
  allocation* of(address a) {
    std::size_t const g = (a - begin) / granule;
    if (g >= owner.size()) return nullptr;
    return owner[g] == 0 ? nullptr : &allocations[owner[g] - 1];
  }
  // Why `bytes` bytes at `a` may not be touched; empty when they may.
  std::string complaint(address a, std::size_t bytes) {
    allocation const* const x = of(a);
    if (x == nullptr || a + bytes > x->begin + x->bytes) {
      allocation const* before = x;
      for (auto const& y : allocations) {
        if (x == nullptr && y.begin <= a) before = &y;
      }
      std::string text = "out of bounds of " + std::string{name} + " memory";
      if (before != nullptr) text += ", " + std::to_string(a - before->begin) + " bytes into an allocation of " + std::to_string(before->bytes);
      return text;
    }
    if (!x->live) return std::string{name} + " memory used after it was freed";
    return {};
  }
};

}  // namespace

// ---- streams ----------------------------------------------------------------------------------------------------------
struct stream;
struct item {
  enum class what : std::uint8_t { kernel, copy, fill, wait, release, host } kind{};
  dim3 grid, block;
  std::unique_ptr<closure> kernel;
  void const* code = nullptr;
  void* to = nullptr;
  void const* from = nullptr;
  std::size_t bytes = 0;
  cudaMemcpyKind direction = cudaMemcpyDefault;
  int value = 0;
  std::shared_ptr<stream> other;
  std::uint64_t position = 0;
  cudaHostFn_t function = nullptr;
};
struct stream : std::enable_shared_from_this<stream> {
  std::deque<item> queue;
  std::uint64_t issued = 0, executed = 0;
  bool busy = false;
};
struct event {
  std::shared_ptr<stream> on;
  std::uint64_t position = 0;
};

namespace {

struct machine {
  std::recursive_mutex lock;
  std::condition_variable_any changed;
  settings how;
  counters seen;
  std::vector<std::shared_ptr<stream>> streams;
  arena device{"device", true};
  arena pinned{"pinned host", false};
  std::vector<cell> shared;          // shadow of the running thread's static thread-local memory
  std::vector<std::byte*> stacks;
  std::uint32_t block_serial = 0;
  std::uint64_t random = 88172645463325252ULL;
  cudaError_t last = cudaSuccess;
  bool poisoned = false;             // a kernel went wrong: every later call fails, as on a device
  int open_depth = 0;
  address opened_to = 0;

  std::uint64_t draw() {
    random ^= random << 13;
    random ^= random >> 7;
    random ^= random << 17;
    return random;
  }
};
machine& m() {
  static machine* const one = new machine;  // outlives every static object that still frees something
  return *one;
}

// Faults: recorded for whoever expects one, else the end.
std::mutex fault_lock;
std::string fault_text;
int expecting = 0;
thread_local sigjmp_buf* way_out = nullptr;

// What the running kernel is, on the host thread that runs it.
struct launch {
  item const* work = nullptr;
  std::vector<fiber> fibers;
  context scheduler;
  fiber* now = nullptr;
  uint3 block{};
  std::uint32_t serial = 0, first_serial = 0;
  unsigned alive = 0;
  bool failed = false;
  address tls = 0;
  std::size_t tls_bytes = 0;
};
thread_local launch* running = nullptr;
// Set while this file's own code works for a kernel's thread: templates it uses (strings, algorithms) may be linked from the code under
// test, whose accesses are reported here too.
thread_local bool inside = false;

std::string name_of(void const* code) {
  Dl_info info{};
  if (::dladdr(code, &info) == 0 || info.dli_sname == nullptr) return "a kernel without a name (link with -rdynamic)";
  int status = 0;
  char* const text = abi::__cxa_demangle(info.dli_sname, nullptr, nullptr, &status);
  std::string name = status == 0 ? text : info.dli_sname;
  std::free(text);
  auto const cut = name.find('(');
  return cut == std::string::npos ? name : name.substr(0, cut);
}

void record(std::string const& text) {
  std::lock_guard const guard{fault_lock};
  if (expecting == 0) {
    std::fprintf(stderr, "emulated device: %s\n", text.c_str());
    std::fflush(nullptr);
    std::abort();
  }
  if (fault_text.empty()) fault_text = text;
}

// A fault of the host's own making: back to fault_of, if it is below us on this thread.
void host_fault(std::string const& text) {
  record(text);
  if (way_out != nullptr) siglongjmp(*way_out, 1);
}

struct abandoned {};

// A fault of the running kernel: its threads are never resumed.
[[noreturn]] void kernel_fault(std::string const& what) {
  inside = true;
  launch& l = *running;
  std::string text = what + " (kernel " + name_of(l.work->code) + ", block " + std::to_string(l.block.x) + "," + std::to_string(l.block.y) + ", thread " +
                     std::to_string(l.now == nullptr ? 0 : l.now->number) + ")";
  record(text);
  l.failed = true;
  if (l.now != nullptr) {
    fiber& f = *l.now;
    l.now = nullptr;
    inside = false;
    switch_to(f.at, l.scheduler);
  }
  inside = false;
  throw abandoned{};  // found between threads: run_block ends
}

void yield() {
  launch& l = *running;
  fiber& f = *l.now;
  l.now = nullptr;
  inside = false;
  switch_to(f.at, l.scheduler);
}

std::string at_line(where w) {
  std::string file = w.file_name();
  return file.substr(file.rfind('/') + 1) + ":" + std::to_string(w.line());
}

bool conflict(touched const& a, bool atomic, bool shared) {
  launch const& l = *running;
  fiber const& f = *l.now;
  if (a.block < l.first_serial || (a.atomic && atomic)) return false;
  if (a.block != l.serial) return !shared;  // each block has its own
  if (a.block_epoch != f.block_epoch) return false;
  if (a.thread == several) return true;
  if (a.thread == f.number) return false;
  return !(a.thread / 32 == f.number / 32 && a.warp_epoch < f.warp_epoch);
}

void touch(cell* cells, std::size_t bytes, bool write, bool atomic, bool must_be_filled, char const* memory, bool shared = false) {
  launch const& l = *running;
  fiber const& f = *l.now;
  for (std::size_t i = 0; i < bytes; ++i) {
    cell& c = cells[i];
    if (must_be_filled && !c.filled && (!write || atomic)) kernel_fault(std::string{"read of "} + memory + " memory that nobody has written");
    bool const race = conflict(c.write, atomic, shared) || (write && conflict(c.read, atomic, shared));
    if (race) {
      touched const& other = conflict(c.write, atomic, shared) ? c.write : c.read;
      kernel_fault(std::string{"race on "} + memory + " memory with " +
                   (other.block != l.serial ? "another block" : other.thread == several ? "other threads" : "thread " + std::to_string(other.thread)) + ": no barrier in between");
    }
    touched const mine{l.serial, static_cast<std::uint16_t>(f.number), f.block_epoch, f.warp_epoch, atomic};
    if (write) {
      c.write = mine;
      c.filled = true;
    }
    if (!write || atomic) {
      bool const same_time = c.read.block == l.serial && c.read.block_epoch == f.block_epoch && c.read.thread != f.number;
      bool const earlier_in_launch = c.read.block >= l.first_serial && c.read.block != l.serial;
      if (same_time || (earlier_in_launch && !shared)) {
        bool const only_atomic = atomic && c.read.atomic;
        c.read = mine;
        c.read.thread = several;
        c.read.atomic = only_atomic;
      } else {
        c.read = mine;
      }
    }
  }
}

void touch_arena(arena& a, address p, std::size_t bytes, bool write, bool atomic) {
  std::string const wrong = a.complaint(p, bytes);
  if (!wrong.empty()) kernel_fault((write ? "write " : "read ") + wrong);
  allocation& x = *a.of(p);
  if (x.shadow.empty()) x.shadow.resize(x.bytes);
  touch(x.shadow.data() + (p - x.begin), bytes, write, atomic, a.device, a.name);
}

void kernel_access_inside(address p, std::size_t bytes, bool write, bool atomic) {
  launch& l = *running;
  if (p - reinterpret_cast<address>(l.now->stack) < stack_bytes) return;  // its own locals
  if (m().device.holds(p)) {
    touch_arena(m().device, p, bytes, write, atomic);
  } else if (m().pinned.holds(p)) {
    touch_arena(m().pinned, p, bytes, write, atomic);
  } else if (p - l.tls < l.tls_bytes) {
    touch(m().shared.data() + (p - l.tls), bytes, write, atomic, false, "shared", true);
  } else if (!write && p - reinterpret_cast<address>(l.work->kernel.get()) < l.work->kernel->bytes) {
    // its parameters
  } else if (!write && p >= reinterpret_cast<address>(&__executable_start) && p < reinterpret_cast<address>(&data_start)) {
    // constants
  } else {
    kernel_fault(std::string{write ? "write" : "read"} + " of host memory that no device can reach");
  }
}

void kernel_access(address p, std::size_t bytes, bool write, bool atomic) {
  inside = true;
  kernel_access_inside(p, bytes, write, atomic);
  inside = false;
}

void access(void const* at, std::size_t bytes, bool write, bool must_align = true) {
  if (inside) return;
  auto const p = reinterpret_cast<address>(at);
  launch* const l = running;
  if (l != nullptr && l->now != nullptr) {
    if (must_align && bytes <= 16 && (p & (bytes - 1)) != 0 && (inside = true)) kernel_fault("misaligned access of " + std::to_string(bytes) + " bytes");
    kernel_access(p, bytes, write, false);
    return;
  }
  if (l != nullptr) return;
  if (m().device.holds(p)) host_fault(std::string{"the host "} + (write ? "writes" : "reads") + " device memory without a copy");
  if (m().pinned.holds(p)) {
    std::string wrong;
    {
      std::lock_guard const guard{m().lock};
      wrong = m().pinned.complaint(p, bytes);
    }
    if (!wrong.empty()) host_fault(std::string{"the host "} + (write ? "writes " : "reads ") + wrong);
  }
}

// ---- running a kernel -------------------------------------------------------------------------------------------------
void fiber_main() {
  launch& l = *running;
  try {
    l.work->kernel->run();
  } catch (...) {
    kernel_fault("an exception leaves the kernel");
  }
  l.now->now = state::done;
  --l.alive;
  yield();
}

std::vector<unsigned> order_of(std::size_t n) {
  std::vector<unsigned> list(n);
  std::iota(list.begin(), list.end(), 0U);
  if (m().how.threads == order::descending) std::reverse(list.begin(), list.end());
  if (m().how.threads == order::shuffled) {
    for (std::size_t i = n; i > 1; --i) std::swap(list[i - 1], list[m().draw() % i]);
  }
  return list;
}

void release_block(launch& l) {
  fiber const* first = nullptr;
  for (auto const& f : l.fibers) {
    if (f.now == state::done) continue;
    if (first == nullptr) first = &f;
    if (f.spot.line() != first->spot.line())
      kernel_fault("threads wait at different barriers: thread " + std::to_string(first->number) + " at " + at_line(first->spot) + ", thread " + std::to_string(f.number) + " at " +
                   at_line(f.spot));
  }
  if (l.alive != l.fibers.size())
    kernel_fault("barrier in divergent code: " + std::to_string(l.fibers.size() - l.alive) + " of " + std::to_string(l.fibers.size()) + " threads have ended without it, " +
                 at_line(first->spot));
  for (auto& f : l.fibers) {
    f.now = state::ready;
    ++f.block_epoch;
  }
}

void run_block(launch& l, std::vector<unsigned> const& turn) {
  l.alive = static_cast<unsigned>(l.fibers.size());
  for (unsigned i = 0; i < l.fibers.size(); ++i) {
    fiber& f = l.fibers[i];
    f.number = i;
    f.now = state::ready;
    f.block_epoch = f.warp_epoch = 0;
    prepare(f.at, f.stack, fiber_main);
  }
  while (l.alive != 0) {
    bool moved = false;
    for (unsigned const i : turn) {
      fiber& f = l.fibers[i];
      if (f.now != state::ready) continue;
      moved = true;
      l.now = &f;
      switch_to(l.scheduler, f.at);
      l.now = nullptr;
      if (l.failed) return;
    }
    if (moved) continue;
    bool all_in_block = true;
    fiber const* stuck = nullptr;
    for (auto const& f : l.fibers) {
      if (f.now == state::in_warp) {
        all_in_block = false;
        stuck = &f;
      }
    }
    try {
      if (!all_in_block) kernel_fault("lanes wait at " + at_line(stuck->spot) + " for lanes of their mask that never come");
      release_block(l);
    } catch (abandoned const&) {
      return;
    }
  }
}

// The static thread-local memory of the program on this thread: where __shared__ variables are.
int find_tls(dl_phdr_info* info, std::size_t, void* data) {
  auto* const l = static_cast<launch*>(data);
  for (int i = 0; i < info->dlpi_phnum; ++i) {
    if (info->dlpi_phdr[i].p_type != PT_TLS) continue;
    l->tls = reinterpret_cast<address>(info->dlpi_tls_data);
    l->tls_bytes = info->dlpi_phdr[i].p_memsz;
  }
  return 1;  // the first is the program itself
}

void run_kernel(item const& work) {
  auto& machine = m();
  launch l;
  l.work = &work;
  std::size_t const threads = std::size_t{work.block.x} * work.block.y * work.block.z;
  while (machine.stacks.size() < threads) {
    constexpr std::size_t batch = 64;
    void* const p = ::mmap(nullptr, batch * stack_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p == MAP_FAILED) std::abort();
    for (std::size_t i = 0; i < batch; ++i) machine.stacks.push_back(static_cast<std::byte*>(p) + i * stack_bytes);
  }
  l.fibers.resize(threads);
  for (std::size_t i = 0; i < threads; ++i) l.fibers[i].stack = machine.stacks[i];
  ::dl_iterate_phdr(find_tls, &l);
  if (machine.shared.size() < l.tls_bytes) machine.shared.resize(l.tls_bytes);
  std::size_t const blocks = std::size_t{work.grid.x} * work.grid.y * work.grid.z;
  l.first_serial = machine.block_serial + 1;
  auto const block_turn = order_of(blocks);
  auto const thread_turn = order_of(threads);
  launch* const outer = running;
  running = &l;
  for (std::size_t i = 0; i < blocks && !l.failed; ++i) {
    unsigned const b = block_turn[i];
    l.block = {b % work.grid.x, b / work.grid.x % work.grid.y, b / work.grid.x / work.grid.y};
    l.serial = ++machine.block_serial;
    run_block(l, thread_turn);
  }
  running = outer;
  if (l.failed) machine.poisoned = true;
}

struct opened {
  opened() {
    bool const open_already = !m().how.closed_pages && m().opened_to == m().device.next;
    if (m().open_depth++ == 0 && !open_already) m().device.open(true);
    m().opened_to = m().device.next;
  }
  ~opened() {
    if (--m().open_depth == 0 && m().how.closed_pages) m().device.open(false);
  }
  opened(opened const&) = delete;
  opened& operator=(opened const&) = delete;
};

// One end of a copy: in bounds, and in the kind of memory that the call names.
bool check_end(void const* p, std::size_t bytes, bool on_device, char const* call) {
  auto const a = reinterpret_cast<address>(p);
  arena& home = on_device ? m().device : m().pinned;
  if (!home.holds(a)) {
    record(std::string{call} + (on_device ? ": not an address of device memory" : ": host memory that is not pinned makes the copy wait for the host"));
    return false;
  }
  std::string const wrong = home.complaint(a, bytes);
  if (!wrong.empty()) record(std::string{call} + ": " + wrong);
  return wrong.empty();
}

void mark_filled(void* p, std::size_t bytes) {
  auto const a = reinterpret_cast<address>(p);
  arena& home = m().device.holds(a) ? m().device : m().pinned;
  allocation& x = *home.of(a);
  if (x.shadow.empty()) x.shadow.resize(x.bytes);
  for (std::size_t i = 0; i < bytes; ++i) x.shadow[a - x.begin + i].filled = true;
}

void run_until(stream& s, std::uint64_t position);

// Runs the next item, unless `position` is reached already, maybe by another thread. A stream that waits for another is busy, so
// whoever needs less than what it waits for must not wait for it.
void run_next(stream& s, std::uint64_t position) {
  std::unique_lock guard{m().lock};
  m().changed.wait(guard, [&] { return s.executed >= position || !s.busy; });
  if (s.executed >= position || s.queue.empty()) return;
  s.busy = true;
  item work = std::move(s.queue.front());
  s.queue.pop_front();
  --m().seen.pending;
  bool const dead = m().poisoned;
  switch (work.kind) {
    case item::what::kernel:
      if (!dead) {
        opened const now;
        run_kernel(work);
      }
      break;
    case item::what::copy: {
      if (dead || work.bytes == 0) break;
      opened const now;
      bool const to_device = work.direction == cudaMemcpyHostToDevice || work.direction == cudaMemcpyDeviceToDevice;
      bool const from_device = work.direction == cudaMemcpyDeviceToHost || work.direction == cudaMemcpyDeviceToDevice;
      if (!check_end(work.to, work.bytes, to_device, "cudaMemcpyAsync, target") || !check_end(work.from, work.bytes, from_device, "cudaMemcpyAsync, source")) {
        m().poisoned = true;
        break;
      }
      std::memmove(work.to, work.from, work.bytes);
      mark_filled(work.to, work.bytes);
      break;
    }
    case item::what::fill: {
      if (dead || work.bytes == 0) break;
      opened const now;
      if (!check_end(work.to, work.bytes, true, "cudaMemsetAsync")) {
        m().poisoned = true;
        break;
      }
      std::memset(work.to, work.value, work.bytes);
      mark_filled(work.to, work.bytes);
      break;
    }
    case item::what::wait:
      guard.unlock();
      run_until(*work.other, work.position);
      guard.lock();
      break;
    case item::what::release: {
      allocation* const x = m().device.of(reinterpret_cast<address>(work.to));
      if (x != nullptr) {
        x->live = false;
        x->shadow = {};
      }
      break;
    }
    case item::what::host:
      if (!dead) {
        guard.unlock();
        work.function(work.to);
        guard.lock();
      }
      break;
  }
  ++s.executed;
  s.busy = false;
  m().changed.notify_all();
}

void run_until(stream& s, std::uint64_t position) {
  for (;;) {
    {
      std::lock_guard const guard{m().lock};
      if (s.executed >= position) return;
    }
    run_next(s, position);
  }
}

/// One item, if there is one that nobody is at.
void run_one(stream& s) {
  std::uint64_t position = 0;
  {
    std::lock_guard const guard{m().lock};
    if (s.busy || s.queue.empty()) return;
    position = s.executed + 1;
  }
  run_next(s, position);
}

void run_everything() {
  std::vector<std::shared_ptr<stream>> all;
  {
    std::lock_guard const guard{m().lock};
    all = m().streams;
  }
  for (auto const& s : all) run_until(*s, s->issued);
}

cudaError_t answer(cudaError_t e = cudaSuccess) {
  if (m().poisoned) e = cudaErrorIllegalAddress;
  if (m().how.devices == 0) e = cudaErrorNoDevice;
  if (e != cudaSuccess) m().last = e;
  return e;
}

cudaError_t push(cudaStream_t s, item work) {
  std::vector<std::shared_ptr<stream>> now;  // whose next item runs at once
  {
    std::lock_guard const guard{m().lock};
    if (m().how.devices == 0) return answer();
    if (s == nullptr) {
      record("work on the default stream");
      return answer(cudaErrorInvalidResourceHandle);
    }
    s->queue.push_back(std::move(work));
    ++s->issued;
    ++m().seen.pending;
    if (m().how.streams == pace::random) {
      for (std::uint64_t n = m().draw() % 4; n > 0; --n) now.push_back(m().streams[m().draw() % m().streams.size()]);
    }
  }
  if (m().how.streams == pace::eager) run_until(*s, s->issued);
  for (auto const& other : now) run_one(*other);
  return answer();
}

void on_segv(int, siginfo_t* info, void*) {
  auto const a = reinterpret_cast<address>(info->si_addr);
  if (m().device.holds(a)) {
    host_fault("the host touches device memory without a copy");
  } else {
    std::fprintf(stderr, "emulated device: invalid address %p%s\n", info->si_addr, running != nullptr && running->now != nullptr ? " in a kernel" : "");
  }
  std::abort();
}
void watch() {
  m();
  struct sigaction s {};  // each time: the test framework puts its own in place for every test case
  s.sa_sigaction = on_segv;
  s.sa_flags = SA_SIGINFO | SA_NODEFER;
  ::sigaction(SIGSEGV, &s, nullptr);
}

}  // namespace

// ---- for tests --------------------------------------------------------------------------------------------------------
void use(settings s) {
  watch();
  run_everything();
  std::lock_guard const guard{m().lock};
  m().how = s;
  m().opened_to = 0;
  m().device.open(false);
  m().random = s.seed * 0x9e3779b97f4a7c15ULL + 1;
}
settings current() { return m().how; }
counters count() {
  std::lock_guard const guard{m().lock};
  return m().seen;
}

std::string fault_of(std::function<void()> const& f) {
  watch();
  {
    std::lock_guard const guard{fault_lock};
    ++expecting;
    fault_text.clear();
  }
  sigjmp_buf here;
  sigjmp_buf* const outer = way_out;
  way_out = &here;
  if (sigsetjmp(here, 1) == 0) {
    try {
      f();
    } catch (std::exception const&) {
      // what the library makes of the error code
    }
    run_everything();
  }
  way_out = outer;
  run_everything();
  std::lock_guard const guard{fault_lock};
  --expecting;
  m().poisoned = false;
  m().last = cudaSuccess;
  return fault_text;
}

// ---- for kernels ------------------------------------------------------------------------------------------------------
unsigned coordinate_of(place p, unsigned axis) {
  if (running == nullptr || running->now == nullptr) return 0;
  launch const& l = *running;
  dim3 const size = l.work->block;
  unsigned const n = l.now->number;
  auto const pick = [axis](unsigned x, unsigned y, unsigned z) { return axis == 0 ? x : axis == 1 ? y : z; };
  switch (p) {
    case place::thread_index: return pick(n % size.x, n / size.x % size.y, n / size.x / size.y);
    case place::block_index: return pick(l.block.x, l.block.y, l.block.z);
    case place::block_size: return pick(size.x, size.y, size.z);
    default: return pick(l.work->grid.x, l.work->grid.y, l.work->grid.z);
  }
}
unsigned lane() { return running->now->number % 32; }

void meet_warp(meeting kind, unsigned mask, std::uint64_t mine, std::uint64_t (&all)[32], where at) {
  inside = true;
  launch& l = *running;
  fiber& f = *l.now;
  unsigned const first = f.number / 32 * 32;
  if ((mask >> (f.number % 32) & 1U) == 0) kernel_fault("a lane calls a warp function with a mask that leaves it out, " + at_line(at));
  f.kind = kind;
  f.mask = mask;
  f.mine = mine;
  f.spot = at;
  f.now = state::in_warp;
  bool complete = true;
  for (unsigned i = 0; i < 32; ++i) {
    if ((mask >> i & 1U) == 0) continue;
    if (first + i >= l.fibers.size()) {
      if (mask == 0xffffffffU) continue;  // the last warp of a block may be short
      kernel_fault("a warp function waits for lane " + std::to_string(i) + ", which the block does not have, " + at_line(at));
    }
    fiber const& other = l.fibers[first + i];
    if (other.now == state::done) kernel_fault("a warp function waits for lane " + std::to_string(i) + ", which has ended, " + at_line(at));
    complete = complete && other.now == state::in_warp;
    if (other.now == state::in_warp && (other.mask != mask || other.kind != kind || other.spot.line() != at.line()))
      kernel_fault("lanes of a warp meet in different places: " + at_line(at) + " and " + at_line(other.spot));
  }
  if (!complete) {
    yield();
  } else {
    std::uint16_t epoch = 0;
    for (unsigned i = 0; i < 32 && first + i < l.fibers.size(); ++i) {
      if ((mask >> i & 1U) != 0) epoch = std::max(epoch, l.fibers[first + i].warp_epoch);
    }
    std::uint64_t brought[32] = {};
    for (unsigned i = 0; i < 32 && first + i < l.fibers.size(); ++i) {
      if ((mask >> i & 1U) != 0) brought[i] = l.fibers[first + i].mine;
    }
    for (unsigned i = 0; i < 32 && first + i < l.fibers.size(); ++i) {
      if ((mask >> i & 1U) == 0) continue;
      fiber& other = l.fibers[first + i];
      std::copy_n(brought, 32, other.all);
      other.now = state::ready;
      // Only __syncwarp orders memory.
      if (kind == meeting::sync) other.warp_epoch = static_cast<std::uint16_t>(epoch + 1);
    }
  }
  inside = true;
  std::copy_n(f.all, 32, all);
  inside = false;
}

void meet_block(where at) {
  fiber& f = *running->now;
  f.spot = at;
  f.now = state::in_block;
  yield();
}

void atomic_access(void const* p, std::size_t bytes) {
  if (running == nullptr || running->now == nullptr) return;
  if ((reinterpret_cast<address>(p) & (bytes - 1)) != 0 && (inside = true)) kernel_fault("misaligned atomic");
  kernel_access(reinterpret_cast<address>(p), bytes, true, true);
}

namespace {
template <class T>
std::uint64_t apply(atomic_kind kind, T* p, std::uint64_t v) {
  T const value = static_cast<T>(v), old = *p;
  switch (kind) {
    case atomic_kind::add: *p = static_cast<T>(static_cast<std::make_unsigned_t<T>>(old) + static_cast<std::make_unsigned_t<T>>(value)); break;
    case atomic_kind::exchange: *p = value; break;
    case atomic_kind::maximum: *p = std::max(old, value); break;
    case atomic_kind::minimum: *p = std::min(old, value); break;
    case atomic_kind::bit_or: *p = static_cast<T>(old | value); break;
    case atomic_kind::bit_and: *p = static_cast<T>(old & value); break;
  }
  return static_cast<std::uint64_t>(old);
}
}  // namespace

std::uint64_t atomic_integer(atomic_kind kind, void* p, std::size_t bytes, bool is_signed, std::uint64_t value) {
  atomic_access(p, bytes);
  if (bytes == 4) return is_signed ? apply(kind, static_cast<std::int32_t*>(p), value) : apply(kind, static_cast<std::uint32_t*>(p), value);
  return is_signed ? apply(kind, static_cast<std::int64_t*>(p), value) : apply(kind, static_cast<std::uint64_t*>(p), value);
}
std::uint64_t atomic_compare(void* p, std::size_t bytes, std::uint64_t expected, std::uint64_t value) {
  atomic_access(p, bytes);
  std::uint64_t old = 0;
  std::memcpy(&old, p, bytes);
  std::uint64_t const mask = bytes == 8 ? ~std::uint64_t{0} : 0xffffffffU;
  if ((old & mask) == (expected & mask)) std::memcpy(p, &value, bytes);
  return old;
}
float atomic_add_float(float* p, float value) {
  atomic_access(p, sizeof *p);
  float const old = *p;
  *p = old + value;
  return old;
}
double atomic_add_double(double* p, double value) {
  atomic_access(p, sizeof *p);
  double const old = *p;
  *p = old + value;
  return old;
}

cudaError_t enqueue(cudaStream_t s, dim3 grid, dim3 block, std::size_t, std::unique_ptr<closure> kernel, void const* code) {
  std::size_t const threads = std::size_t{block.x} * block.y * block.z;
  if (threads == 0 || threads > 1024 || grid.x == 0 || grid.x > 0x7fffffffU || grid.y == 0 || grid.y > 65535 || grid.z == 0 || grid.z > 65535)
    return answer(cudaErrorInvalidConfiguration);
  item work;
  work.kind = item::what::kernel;
  work.grid = grid;
  work.block = block;
  work.kernel = std::move(kernel);
  work.code = code;
  {
    std::lock_guard const guard{m().lock};
    ++m().seen.launches;
  }
  return push(s, std::move(work));
}

}  // namespace emulation

// ---- the runtime ------------------------------------------------------------------------------------------------------
using namespace emulation;

char const* cudaGetErrorName(cudaError_t e) {
  switch (e) {
    case cudaSuccess: return "cudaSuccess";
    case cudaErrorInvalidValue: return "cudaErrorInvalidValue";
    case cudaErrorMemoryAllocation: return "cudaErrorMemoryAllocation";
    case cudaErrorInvalidConfiguration: return "cudaErrorInvalidConfiguration";
    case cudaErrorInsufficientDriver: return "cudaErrorInsufficientDriver";
    case cudaErrorNoDevice: return "cudaErrorNoDevice";
    case cudaErrorInvalidResourceHandle: return "cudaErrorInvalidResourceHandle";
    case cudaErrorNotReady: return "cudaErrorNotReady";
    case cudaErrorIllegalAddress: return "cudaErrorIllegalAddress";
  }
  return "unknown";
}
char const* cudaGetErrorString(cudaError_t e) { return cudaGetErrorName(e); }
cudaError_t cudaGetLastError() {
  cudaError_t const e = m().last;
  m().last = cudaSuccess;
  return e;
}
cudaError_t cudaPeekAtLastError() { return m().last; }
cudaError_t cudaGetDeviceCount(int* count) {
  watch();
  *count = m().how.devices;
  return answer();
}
cudaError_t cudaSetDevice(int device) {
  watch();
  return answer(device < m().how.devices ? cudaSuccess : cudaErrorInvalidValue);
}
cudaError_t cudaGetDevice(int* device) {
  *device = 0;
  return answer();
}
cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int) {
  *p = {};
  std::snprintf(p->name, sizeof p->name, "emulated");
  p->totalGlobalMem = arena_bytes;
  p->multiProcessorCount = 4;
  p->major = 9;
  return answer();
}
cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr what, int) {
  *value = what == cudaDevAttrMultiProcessorCount ? 4 : what == cudaDevAttrComputeCapabilityMajor ? 9 : 0;
  return answer();
}
cudaError_t cudaDeviceSynchronize() {
  run_everything();
  std::lock_guard const guard{m().lock};
  ++m().seen.device_waits;
  return answer();
}
cudaError_t cudaMemGetInfo(std::size_t* free, std::size_t* total) {
  *total = arena_bytes;
  *free = arena_bytes - (m().device.next - m().device.begin);
  return answer();
}
cudaError_t cudaDeviceGetDefaultMemPool(cudaMemPool_t* pool, int) {
  *pool = &m();
  return answer();
}
cudaError_t cudaMemPoolSetAttribute(cudaMemPool_t, cudaMemPoolAttr, void*) { return answer(); }

namespace {
cudaError_t allocate(arena& a, void** p, std::size_t bytes) {
  watch();
  std::lock_guard const guard{m().lock};
  if (m().how.devices == 0) return answer();
  *p = a.allocate(bytes);
  if (*p == nullptr) return answer(cudaErrorMemoryAllocation);
  if (&a == &m().device && m().open_depth != 0) a.open(true);
  ++m().seen.allocations;
  ++m().seen.live_allocations;
  return answer();
}
}  // namespace

cudaError_t cudaMallocAsync(void** p, std::size_t bytes, cudaStream_t s) {
  if (s == nullptr) record("cudaMallocAsync on the default stream");
  return allocate(m().device, p, bytes);
}
cudaError_t cudaFreeAsync(void* p, cudaStream_t s) {
  if (p == nullptr) return cudaSuccess;
  item work;
  work.kind = item::what::release;
  work.to = p;
  {
    std::lock_guard const guard{m().lock};
    --m().seen.live_allocations;
  }
  return push(s, std::move(work));
}
cudaError_t cudaMalloc(void** p, std::size_t bytes) {
  ++m().seen.device_waits;
  return allocate(m().device, p, bytes);
}
cudaError_t cudaFree(void* p) {
  if (p == nullptr) return answer();
  cudaDeviceSynchronize();
  std::lock_guard const guard{m().lock};
  allocation* const x = m().device.of(reinterpret_cast<address>(p));
  if (x == nullptr || !x->live) return answer(cudaErrorInvalidValue);
  x->live = false;
  --m().seen.live_allocations;
  return answer();
}
cudaError_t cudaHostAlloc(void** p, std::size_t bytes, unsigned) { return allocate(m().pinned, p, bytes); }
cudaError_t cudaFreeHost(void* p) {
  std::lock_guard const guard{m().lock};
  allocation* const x = m().pinned.of(reinterpret_cast<address>(p));
  if (x == nullptr || !x->live) return answer(cudaErrorInvalidValue);
  x->live = false;
  x->shadow = {};
  --m().seen.live_allocations;
  return answer();
}
cudaError_t cudaMemcpyAsync(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind, cudaStream_t s) {
  item work;
  work.kind = item::what::copy;
  work.to = to;
  work.from = from;
  work.bytes = bytes;
  bool const to_device = m().device.holds(reinterpret_cast<address>(to)), from_device = m().device.holds(reinterpret_cast<address>(from));
  work.direction = kind != cudaMemcpyDefault ? kind
                   : to_device               ? (from_device ? cudaMemcpyDeviceToDevice : cudaMemcpyHostToDevice)
                                             : (from_device ? cudaMemcpyDeviceToHost : cudaMemcpyHostToHost);
  {
    std::lock_guard const guard{m().lock};
    ++m().seen.copies;
    m().seen.copied_bytes += bytes;
  }
  return push(s, std::move(work));
}
cudaError_t cudaMemsetAsync(void* p, int value, std::size_t bytes, cudaStream_t s) {
  item work;
  work.kind = item::what::fill;
  work.to = p;
  work.value = value;
  work.bytes = bytes;
  return push(s, std::move(work));
}
cudaError_t cudaStreamCreateWithFlags(cudaStream_t* s, unsigned flags) {
  watch();
  std::lock_guard const guard{m().lock};
  if (m().how.devices == 0) return answer();
  if (flags != cudaStreamNonBlocking) record("a stream that waits for the default stream");
  m().streams.push_back(std::make_shared<stream>());
  *s = m().streams.back().get();
  return answer();
}
cudaError_t cudaStreamDestroy(cudaStream_t s) {
  run_until(*s, s->issued);  // a device would finish it too
  std::lock_guard const guard{m().lock};
  std::erase_if(m().streams, [s](auto const& p) { return p.get() == s; });
  return answer();
}
cudaError_t cudaStreamSynchronize(cudaStream_t s) {
  if (s == nullptr) {
    record("wait for the default stream");
    return answer(cudaErrorInvalidResourceHandle);
  }
  run_until(*s, s->issued);
  return answer();
}
cudaError_t cudaStreamQuery(cudaStream_t s) {
  run_one(*s);  // whoever polls must see progress
  return s->executed == s->issued ? answer() : cudaErrorNotReady;
}
cudaError_t cudaStreamWaitEvent(cudaStream_t s, cudaEvent_t e, unsigned) {
  item work;
  work.kind = item::what::wait;
  {
    std::lock_guard const guard{m().lock};
    if (e->on == nullptr) return answer();  // never recorded: nothing to wait for
    work.other = e->on;
    work.position = e->position;
  }
  return push(s, std::move(work));
}
cudaError_t cudaEventCreateWithFlags(cudaEvent_t* e, unsigned) {
  if (m().how.devices == 0) return answer();
  *e = new event;
  return answer();
}
cudaError_t cudaEventDestroy(cudaEvent_t e) {
  delete e;
  return answer();
}
cudaError_t cudaEventRecord(cudaEvent_t e, cudaStream_t s) {
  std::lock_guard const guard{m().lock};
  if (s == nullptr) {
    record("event on the default stream");
    return answer(cudaErrorInvalidResourceHandle);
  }
  e->on = s->shared_from_this();
  e->position = s->issued;
  return answer();
}
cudaError_t cudaEventSynchronize(cudaEvent_t e) {
  std::unique_lock guard{m().lock};
  auto const on = e->on;
  std::uint64_t const position = e->position;
  guard.unlock();
  if (on != nullptr) run_until(*on, position);
  return answer();
}
cudaError_t cudaEventQuery(cudaEvent_t e) {
  if (e->on == nullptr || e->on->executed >= e->position) return answer();
  run_one(*e->on);
  return e->on->executed >= e->position ? answer() : cudaErrorNotReady;
}
cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t, cudaEvent_t) {
  *ms = 1.0f;  // there is no time here
  return answer();
}
cudaError_t cudaLaunchHostFunc(cudaStream_t s, cudaHostFn_t f, void* data) {
  item work;
  work.kind = item::what::host;
  work.function = f;
  work.to = data;
  return push(s, std::move(work));
}

// ---- what the compiler calls ------------------------------------------------------------------------------------------
#define NESTPIPE_EMULATED_ACCESS(n)                                                          \
  void __tsan_read##n(void* p) { access(p, n, false); }                                     \
  void __tsan_write##n(void* p) { access(p, n, true); }                                     \
  void __tsan_unaligned_read##n(void* p) { access(p, n, false, false); }                    \
  void __tsan_unaligned_write##n(void* p) { access(p, n, true, false); }                    \
  void __tsan_volatile_read##n(void* p) { access(p, n, false); }                            \
  void __tsan_volatile_write##n(void* p) { access(p, n, true); }                            \
  void __tsan_unaligned_volatile_read##n(void* p) { access(p, n, false, false); }           \
  void __tsan_unaligned_volatile_write##n(void* p) { access(p, n, true, false); }

#define NESTPIPE_EMULATED_ATOMIC(bits, type)                                                                                        \
  type __tsan_atomic##bits##_load(type const volatile* p, int) { return __atomic_load_n(p, __ATOMIC_SEQ_CST); }                     \
  void __tsan_atomic##bits##_store(type volatile* p, type v, int) { __atomic_store_n(p, v, __ATOMIC_SEQ_CST); }                     \
  type __tsan_atomic##bits##_exchange(type volatile* p, type v, int) { return __atomic_exchange_n(p, v, __ATOMIC_SEQ_CST); }        \
  type __tsan_atomic##bits##_fetch_add(type volatile* p, type v, int) { return __atomic_fetch_add(p, v, __ATOMIC_SEQ_CST); }        \
  type __tsan_atomic##bits##_fetch_sub(type volatile* p, type v, int) { return __atomic_fetch_sub(p, v, __ATOMIC_SEQ_CST); }        \
  type __tsan_atomic##bits##_fetch_and(type volatile* p, type v, int) { return __atomic_fetch_and(p, v, __ATOMIC_SEQ_CST); }        \
  type __tsan_atomic##bits##_fetch_or(type volatile* p, type v, int) { return __atomic_fetch_or(p, v, __ATOMIC_SEQ_CST); }          \
  int __tsan_atomic##bits##_compare_exchange_strong(type volatile* p, type* expected, type v, int, int) {                           \
    return __atomic_compare_exchange_n(p, expected, v, false, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                                  \
  }                                                                                                                                 \
  int __tsan_atomic##bits##_compare_exchange_weak(type volatile* p, type* expected, type v, int, int) {                             \
    return __atomic_compare_exchange_n(p, expected, v, true, __ATOMIC_SEQ_CST, __ATOMIC_SEQ_CST);                                   \
  }

extern "C" {
void __tsan_init() {}
void __tsan_func_entry(void*) {}
void __tsan_func_exit() {}
void __tsan_vptr_update(void**, void*) {}
void __tsan_vptr_read(void**) {}
void __tsan_read_range(void* p, unsigned long n) { access(p, n, false, false); }
void __tsan_write_range(void* p, unsigned long n) { access(p, n, true, false); }
void __tsan_atomic_thread_fence(int) { __atomic_thread_fence(__ATOMIC_SEQ_CST); }
void __tsan_atomic_signal_fence(int) {}
NESTPIPE_EMULATED_ACCESS(1)
NESTPIPE_EMULATED_ACCESS(2)
NESTPIPE_EMULATED_ACCESS(4)
NESTPIPE_EMULATED_ACCESS(8)
NESTPIPE_EMULATED_ACCESS(16)
NESTPIPE_EMULATED_ATOMIC(8, unsigned char)
NESTPIPE_EMULATED_ATOMIC(16, unsigned short)
NESTPIPE_EMULATED_ATOMIC(32, unsigned)
NESTPIPE_EMULATED_ATOMIC(64, unsigned long)
}
