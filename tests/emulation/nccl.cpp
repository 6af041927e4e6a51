// NCCL for ranks that are threads: every call is a host function on its emulated stream, which meets the other ranks there.

#include <nccl.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstring>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <utility>
#include <vector>

namespace emulation {
namespace {

enum class call : std::uint8_t { send, receive, all_gather, broadcast, all_reduce };
struct request {
  call what;
  std::byte const* from;
  std::byte* to;
  std::size_t bytes;
  int peer;
};

/// A send that waits for its receiver.
struct parcel {
  std::byte const* from;
  std::size_t bytes;
  bool taken = false;
};

/// One collective as all ranks see it.
struct round {
  std::vector<request const*> of;
  std::size_t here = 0, gone = 0;
};

struct world {
  std::mutex lock;
  std::condition_variable changed;
  std::size_t size = 0, joined = 0, aborted = 0;
  std::map<std::pair<int, int>, std::deque<std::shared_ptr<parcel>>> parcels;  // (from, to)
  std::map<std::uint64_t, round> rounds;
};

std::atomic<double> patience{20};
std::mutex registry_lock;
std::map<std::uint64_t, std::shared_ptr<world>> registry;
std::uint64_t last_id = 0;

}  // namespace

struct nccl_rank {
  std::shared_ptr<world> all;
  int rank = 0;
  std::uint64_t rounds = 0;  // collectives queued so far
  std::atomic<ncclResult_t> state{ncclSuccess};
  std::atomic<bool> aborted{false};
};

namespace {

struct bundle {
  std::shared_ptr<nccl_rank> owner;  // stays until its work is done, whoever destroys it
  std::vector<request> requests;
  std::vector<std::uint64_t> round_of;
};
std::map<nccl_rank*, std::shared_ptr<nccl_rank>> owners;  // under registry_lock

struct queued {
  nccl_rank* comm;
  cudaStream_t stream;
  request what;
};
thread_local int group_depth = 0;
thread_local std::vector<queued> group;

// Copies between device memories on a stream of their own, as NCCL's kernels do.
void copy(void* to, void const* from, std::size_t bytes, cudaMemcpyKind kind) {
  if (bytes == 0 || to == from) return;
  thread_local cudaStream_t own = nullptr;
  if (own == nullptr) (void)cudaStreamCreateWithFlags(&own, cudaStreamNonBlocking);
  (void)cudaMemcpyAsync(to, from, bytes, kind, own);
  (void)cudaStreamSynchronize(own);
}

/// False when this rank's communicator has been aborted, or nobody comes.
template <class Ready>
bool await(nccl_rank& me, std::unique_lock<std::mutex>& guard, Ready ready) {
  bool const came = me.all->changed.wait_for(guard, std::chrono::duration<double>(patience.load()), [&] { return ready() || me.aborted.load(); });
  if (came && !me.aborted) return true;
  if (!came) me.state = ncclRemoteError;
  return false;
}

bool point_to_point(nccl_rank& me, std::vector<request> const& requests) {
  world& w = *me.all;
  std::unique_lock guard{w.lock};
  std::vector<std::shared_ptr<parcel>> mine;
  for (auto const& r : requests) {
    if (r.what != call::send) continue;
    mine.push_back(std::make_shared<parcel>(parcel{r.from, r.bytes}));
    w.parcels[{me.rank, r.peer}].push_back(mine.back());
  }
  w.changed.notify_all();
  for (auto const& r : requests) {
    if (r.what != call::receive) continue;
    auto& line = w.parcels[{r.peer, me.rank}];
    if (!await(me, guard, [&] { return !line.empty(); })) return false;
    auto const p = line.front();
    line.pop_front();
    if (p->bytes != r.bytes) {  // NCCL would hang, or write past the end
      me.state = ncclInvalidUsage;
      return false;
    }
    guard.unlock();
    copy(r.to, p->from, r.bytes, cudaMemcpyDeviceToDevice);
    guard.lock();
    p->taken = true;
    w.changed.notify_all();
  }
  return await(me, guard, [&] {
    for (auto const& p : mine) {
      if (!p->taken) return false;
    }
    return true;
  });
}

bool collective(nccl_rank& me, request const& r, std::uint64_t number) {
  world& w = *me.all;
  std::unique_lock guard{w.lock};
  round& now = w.rounds[number];
  now.of.resize(w.size);
  now.of[static_cast<std::size_t>(me.rank)] = &r;
  ++now.here;
  w.changed.notify_all();
  if (!await(me, guard, [&] { return now.here == w.size; })) return false;
  for (auto const* other : now.of) {
    if (other->what != r.what || other->bytes != r.bytes) {
      me.state = ncclInvalidUsage;
      return false;
    }
  }
  std::vector<request const*> const of = now.of;
  guard.unlock();
  float* sum = nullptr;
  if (r.what == call::all_gather) {
    for (std::size_t k = 0; k < of.size(); ++k) copy(r.to + k * r.bytes, of[k]->from, r.bytes, cudaMemcpyDeviceToDevice);
  } else if (r.what == call::broadcast) {
    copy(r.to, of[static_cast<std::size_t>(r.peer)]->from, r.bytes, cudaMemcpyDeviceToDevice);
  } else {
    void* memory = nullptr;
    (void)cudaHostAlloc(&memory, 2 * r.bytes, cudaHostAllocDefault);
    sum = static_cast<float*>(memory);
    float* const one = sum + r.bytes / sizeof(float);
    std::memset(sum, 0, r.bytes);
    for (auto const* other : of) {
      copy(one, other->from, r.bytes, cudaMemcpyDeviceToHost);
      for (std::size_t i = 0; i < r.bytes / sizeof(float); ++i) sum[i] += one[i];
    }
  }
  guard.lock();
  ++now.gone;
  w.changed.notify_all();
  bool const all_gone = await(me, guard, [&] { return now.gone == w.size; });  // nobody reads any more
  guard.unlock();
  if (sum != nullptr) {
    if (all_gone) copy(r.to, sum, r.bytes, cudaMemcpyHostToDevice);
    (void)cudaFreeHost(sum);
  }
  return all_gone;
}

void run(void* argument) {
  std::unique_ptr<bundle> const b{static_cast<bundle*>(argument)};
  nccl_rank& me = *b->owner;
  if (me.aborted || me.state != ncclSuccess) return;
  if (!point_to_point(me, b->requests)) return;
  for (std::size_t i = 0; i < b->requests.size(); ++i) {
    if (b->round_of[i] != 0 && !collective(me, b->requests[i], b->round_of[i])) return;
  }
}

ncclResult_t add(ncclComm_t comm, cudaStream_t stream, request r) {
  if (comm == nullptr || comm->aborted) return ncclInvalidArgument;
  bool const alone = group_depth == 0;
  if (alone) (void)ncclGroupStart();
  group.push_back({comm, stream, r});
  return alone ? ncclGroupEnd() : ncclSuccess;
}

std::size_t size_of(ncclDataType_t type) { return type == ncclFloat32 ? sizeof(float) : 1; }

}  // namespace

void nccl_patience(double seconds) { patience = seconds; }

}  // namespace emulation

using namespace emulation;  // NOLINT: the functions below are global, as NCCL's

char const* ncclGetErrorString(ncclResult_t code) {
  switch (code) {
    case ncclSuccess: return "no error";
    case ncclInvalidArgument: return "invalid argument";
    case ncclInvalidUsage: return "invalid usage";
    case ncclRemoteError: return "remote process exited or there was a network error";
    case ncclInProgress: return "in progress";
    default: return "internal error";
  }
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  std::lock_guard const guard{registry_lock};
  std::memset(id, 0, sizeof *id);
  ++last_id;
  std::memcpy(id->internal, &last_id, sizeof last_id);
  registry[last_id] = std::make_shared<world>();
  return ncclSuccess;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  std::uint64_t number = 0;
  std::memcpy(&number, id.internal, sizeof number);
  auto const me = std::make_shared<nccl_rank>();
  {
    std::lock_guard const guard{registry_lock};
    auto const found = registry.find(number);
    if (found == registry.end() || rank < 0 || rank >= size) return ncclInvalidArgument;
    me->all = found->second;
    me->rank = rank;
    owners[me.get()] = me;
  }
  std::unique_lock guard{me->all->lock};
  me->all->size = static_cast<std::size_t>(size);
  ++me->all->joined;
  me->all->changed.notify_all();
  if (!await(*me, guard, [&] { return me->all->joined == me->all->size; })) return ncclRemoteError;
  *comm = me.get();
  return ncclSuccess;
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  std::lock_guard const guard{registry_lock};
  owners.erase(comm);
  return ncclSuccess;
}
ncclResult_t ncclCommAbort(ncclComm_t comm) {
  {
    std::lock_guard const guard{comm->all->lock};
    comm->aborted = true;
  }
  comm->all->changed.notify_all();
  return ncclCommDestroy(comm);
}
ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* code) {
  *code = comm->state;
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group_depth;
  return ncclSuccess;
}
ncclResult_t ncclGroupEnd() {
  if (group_depth == 0) return ncclInvalidUsage;
  if (--group_depth != 0) return ncclSuccess;
  std::vector<queued> const calls = std::exchange(group, {});
  while (true) {
    // All calls of one communicator go together.
    std::unique_ptr<bundle> b;
    cudaStream_t stream = nullptr;
    static thread_local std::vector<nccl_rank*> seen;
    for (auto const& c : calls) {
      bool const before = std::find(seen.begin(), seen.end(), c.comm) != seen.end();
      if (b == nullptr && !before) {
        b = std::make_unique<bundle>();
        std::lock_guard const guard{registry_lock};
        b->owner = owners.at(c.comm);
        stream = c.stream;
      }
      if (b == nullptr || b->owner.get() != c.comm) continue;
      if (c.stream != stream) return ncclInvalidUsage;  // allowed by NCCL, not used by us
      b->requests.push_back(c.what);
      b->round_of.push_back(c.what.what == call::send || c.what.what == call::receive ? 0 : ++c.comm->rounds);
    }
    if (b == nullptr) {
      seen.clear();
      return ncclSuccess;
    }
    seen.push_back(b->owner.get());
    if (cudaLaunchHostFunc(stream, run, b.release()) != cudaSuccess) return ncclUnhandledCudaError;
  }
}

ncclResult_t ncclSend(void const* from, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream, {call::send, static_cast<std::byte const*>(from), nullptr, count * size_of(type), peer});
}
ncclResult_t ncclRecv(void* to, std::size_t count, ncclDataType_t type, int peer, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream, {call::receive, nullptr, static_cast<std::byte*>(to), count * size_of(type), peer});
}
ncclResult_t ncclAllGather(void const* from, void* to, std::size_t count, ncclDataType_t type, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream, {call::all_gather, static_cast<std::byte const*>(from), static_cast<std::byte*>(to), count * size_of(type), 0});
}
ncclResult_t ncclBroadcast(void const* from, void* to, std::size_t count, ncclDataType_t type, int root, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream, {call::broadcast, static_cast<std::byte const*>(from), static_cast<std::byte*>(to), count * size_of(type), root});
}
ncclResult_t ncclAllReduce(void const* from, void* to, std::size_t count, ncclDataType_t type, ncclRedOp_t, ncclComm_t comm, cudaStream_t stream) {
  return add(comm, stream, {call::all_reduce, static_cast<std::byte const*>(from), static_cast<std::byte*>(to), count * size_of(type), 0});
}
