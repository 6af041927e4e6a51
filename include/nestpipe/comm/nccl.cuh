#pragma once
/// @file
/// Ranks with a GPU each, talking through NCCL. Needs CUDA and NCCL (target nestpipe::nccl).

#if !__has_include(<nccl.h>)
#error "nestpipe/comm/nccl.cuh needs NCCL: install libnccl-dev (or NVIDIA's own) and link nestpipe::nccl, or use nestpipe/comm/mpi.hpp"
#endif

#include <nestpipe/comm/comm.hpp>
#include <nestpipe/comm/detail/file_meeting.hpp>
#include <nestpipe/comm/detail/nccl_issuer.cuh>
#include <nestpipe/comm/detail/tcp_meeting.hpp>
#include <nestpipe/comm/message.hpp>
#include <nestpipe/exec/cuda/buffer.cuh>

#include <nccl.h>

#include <algorithm>
#include <chrono>
#include <string>

namespace nestpipe::comm {

struct nccl_options {
  int device = -1;                                              ///< -1: LOCAL_RANK, else the rank, modulo the machine's devices
  std::chrono::nanoseconds deadline = std::chrono::minutes{5};  ///< of a collective, and of coming together
};

namespace detail {

/// What all channels of a rank share.
class nccl_world {
 public:
  nccl_world(meeting m, nccl_options settings) : meet{std::move(m)}, options{settings}, device{chosen(settings, meet.rank)}, issuer{device} {
    NESTPIPE_CUDA_TRY(cudaSetDevice(device));
    exec::keep_device_memory();
  }

  meeting meet;
  nccl_options options;
  int device;
  nccl_issuer issuer;

 private:
  static int chosen(nccl_options const& o, std::size_t rank) {
    exec::require_cuda_device();
    if (o.device >= 0) return o.device;
    std::size_t const place = std::getenv("LOCAL_RANK") != nullptr ? environment_number("LOCAL_RANK") : rank;
    return static_cast<int>(place % static_cast<std::size_t>(exec::cuda_devices()));
  }
};

/// A NCCL communicator with a stream for calls on host memory.
class nccl_channel {
 public:
  /// Collective.
  nccl_channel(std::shared_ptr<nccl_world> world, std::string_view name) : world_{std::move(world)}, name_{name} {
    ncclUniqueId id{};
    if (rank() == 0) check(ncclGetUniqueId(&id), "ncclGetUniqueId");
    world_->meet.broadcast({reinterpret_cast<std::byte*>(&id), sizeof id});
    world_->issuer.run([&] { check(ncclCommInitRank(&comm_, static_cast<int>(size()), id, static_cast<int>(rank())), "ncclCommInitRank"); });
  }
  nccl_channel(nccl_channel const&) = delete;
  nccl_channel& operator=(nccl_channel const&) = delete;
  ~nccl_channel() {
    if (comm_ == nullptr) return;
    if (world_->meet.failure() != nullptr) {
      (void)ncclCommAbort(comm_);
    } else {
      (void)ncclCommDestroy(comm_);
    }
  }

  std::size_t rank() const { return world_->meet.rank; }
  std::size_t size() const { return world_->meet.size; }
  std::string const& name() const { return name_; }
  cudaStream_t stream() const { return stream_.get(); }

  /// Has f(communicator) called in a group on the issuing thread.
  template <class F>
  void issue(operation op, call_site at, F f) {
    if (first_failure const* const e = world_->meet.failure()) give_up(echo(e->rank(), e->reason(), rank(), at));
    require_open(op, at);
    try {
      world_->issuer.run([&] {
        check(ncclGroupStart(), "ncclGroupStart");
        f(comm_);
        check(ncclGroupEnd(), "ncclGroupEnd");
      });
    } catch (error const& e) {
      give_up(misuse(op, name_, rank(), at, e.what()));
    }
  }

  /// Waits until `event` is complete, for the failure of another rank, or for the deadline, whichever is first. @throws aborted, comm_error
  void wait(cudaEvent_t event, operation op, call_site at) {
    auto const start = std::chrono::steady_clock::now();
    std::chrono::microseconds pause{20};
    for (unsigned polls = 0;; ++polls) {
      cudaError_t const state = cudaEventQuery(event);
      ncclResult_t asynchronous = ncclSuccess;
      if (state == cudaSuccess || polls % 16 == 15) check(ncclCommGetAsyncError(comm_, &asynchronous), "ncclCommGetAsyncError");
      auto const waited = std::chrono::steady_clock::now() - start;
      if (state == cudaSuccess && (asynchronous == ncclSuccess || asynchronous == ncclInProgress)) return;
      if (state != cudaSuccess && state != cudaErrorNotReady) NESTPIPE_CUDA_TRY(state);
      if (first_failure const* const e = world_->meet.failure()) give_up(echo(e->rank(), e->reason(), rank(), at));
      if (waited > world_->options.deadline) give_up(overdue(op, name_, world_->options.deadline, rank(), at, {}));
      if (asynchronous != ncclSuccess && asynchronous != ncclInProgress)
        give_up(misuse(op, name_, rank(), at, std::string{"NCCL: "} + ncclGetErrorString(asynchronous)));
      if (waited > std::chrono::microseconds{50}) {  // then sleep between looks, in the operating system
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 3 / 2, std::chrono::microseconds{200});
      }
    }
  }

  static void check(ncclResult_t code, char const* call) {
    if (code != ncclSuccess && code != ncclInProgress) throw comm_error{std::string{call} + " failed: " + ncclGetErrorString(code)};
  }

  // For calls on host memory.
  exec::pinned_buffer<std::byte> host_send, host_receive;
  exec::buffer<std::byte, exec::cuda> device_send, device_receive;
  exec::cuda_event done;

 private:
  void require_open(operation op, call_site at) const {
    if (comm_ == nullptr) throw misuse(op, name_, rank(), at, "the channel has failed before");
  }
  template <class E>
  [[noreturn]] void give_up(E const& e) {
    world_->meet.abort(e.what());
    if (comm_ != nullptr) (void)ncclCommAbort(std::exchange(comm_, nullptr));  // ends kernels that wait for a rank that never comes
    throw e;
  }

  std::shared_ptr<nccl_world> world_;
  std::string name_;
  exec::cuda_stream stream_;
  ncclComm_t comm_ = nullptr;
};

}  // namespace detail

/// The communicator of one rank with one device. Models @ref communicator for host memory, and has, for device memory, calls that are
/// queued on a stream and return at once.
///
/// A channel is a NCCL communicator; all calls of a rank are made by one thread, in the order in which its lanes come. NCCL asks that
/// ranks start collectives of different communicators on one device in the same order, or not at the same time: an executor that runs
/// lanes at the same time must see to that (the order in which a schedule issues ops is the same on every rank).
/// A collective that does not end within the deadline, or a failure of another rank, aborts the communicators: kernels that wait end.
class nccl {
 public:
  using options = nccl_options;

  class channel_type {
   public:
    explicit channel_type(std::shared_ptr<detail::nccl_channel> state) : state_{std::move(state)} {}

    // On host memory: through page-locked and device memory; blocks until done.

    void all_to_all_v(std::span<std::byte const> send, std::span<std::size_t const> send_bytes, std::span<std::byte> recv,
                      std::span<std::size_t const> recv_bytes, call_site at) {
      auto& s = *state_;
      detail::check_all_to_all_v(s.size(), s.name(), s.rank(), at, send.size(), send_bytes, recv.size(), recv_bytes);
      std::size_t const in = detail::total(recv_bytes), out = detail::total(send_bytes);
      staged(send.first(out), recv.first(in), operation::all_to_all_v, at, [&](std::byte const* from, std::byte* to, cudaStream_t stream) {
        all_to_all_v(from, send_bytes, to, recv_bytes, stream, at);
      });
    }
    void all_gather(std::span<std::byte const> send, std::span<std::byte> recv, call_site at) {
      auto& s = *state_;
      detail::check_all_gather(s.size(), s.name(), s.rank(), at, send.size(), recv.size());
      staged(send, recv, operation::all_gather, at, [&](std::byte const* from, std::byte* to, cudaStream_t stream) { all_gather(from, to, send.size(), stream, at); });
    }
    void broadcast(std::span<std::byte> bytes, std::size_t root, call_site at) {
      auto& s = *state_;
      detail::check_broadcast(s.size(), s.name(), s.rank(), at, root);
      std::span<std::byte const> const out = s.rank() == root ? std::span<std::byte const>{bytes} : std::span<std::byte const>{};
      staged(out, bytes, operation::broadcast, at, [&](std::byte const* from, std::byte* to, cudaStream_t stream) {
        if (s.rank() == root) exec::copy_on_device(to, from, bytes.size(), stream);
        broadcast(to, bytes.size(), root, stream, at);
      });
    }
    void all_reduce_sum(std::span<float> values, call_site at) {
      auto const bytes = std::as_writable_bytes(values);
      staged(bytes, bytes, operation::all_reduce_sum, at, [&](std::byte const* from, std::byte* to, cudaStream_t stream) {
        exec::copy_on_device(to, from, bytes.size(), stream);
        all_reduce_sum(reinterpret_cast<float*>(to), values.size(), stream, at);
      });
    }
    void barrier(call_site at) {
      float one = 1;
      all_reduce_sum({&one, 1}, at);
    }

    // On device memory: queued on `stream`. Sizes are host memory, read at once. Collective as the others; wait() tells of failures.

    /// Grouped sends and receives; the own block is copied. `send` and `recv` do not overlap.
    void all_to_all_v(std::byte const* send, std::span<std::size_t const> send_bytes, std::byte* recv, std::span<std::size_t const> recv_bytes,
                      cudaStream_t stream, call_site at) {
      auto& s = *state_;
      std::size_t const own = s.rank();
      exec::copy_on_device(recv + detail::total(recv_bytes.first(own)), send + detail::total(send_bytes.first(own)), send_bytes[own], stream);
      s.issue(operation::all_to_all_v, at, [&](ncclComm_t comm) {
        std::byte const* from = send;
        std::byte* to = recv;
        for (std::size_t r = 0; r < s.size(); ++r) {
          int const peer = static_cast<int>(r);
          if (r != own && send_bytes[r] != 0) s.check(ncclSend(from, send_bytes[r], ncclUint8, peer, comm, stream), "ncclSend");
          if (r != own && recv_bytes[r] != 0) s.check(ncclRecv(to, recv_bytes[r], ncclUint8, peer, comm, stream), "ncclRecv");
          from += send_bytes[r];
          to += recv_bytes[r];
        }
      });
    }
    /// @param bytes  of each rank
    void all_gather(std::byte const* send, std::byte* recv, std::size_t bytes, cudaStream_t stream, call_site at) {
      if (bytes == 0) return;
      auto& s = *state_;
      s.issue(operation::all_gather, at, [&](ncclComm_t comm) { s.check(ncclAllGather(send, recv, bytes, ncclUint8, comm, stream), "ncclAllGather"); });
    }
    void broadcast(std::byte* bytes, std::size_t n, std::size_t root, cudaStream_t stream, call_site at) {
      if (n == 0) return;
      auto& s = *state_;
      s.issue(operation::broadcast, at, [&](ncclComm_t comm) { s.check(ncclBroadcast(bytes, bytes, n, ncclUint8, static_cast<int>(root), comm, stream), "ncclBroadcast"); });
    }
    /// In place; the order of the sum is NCCL's (reduction::native).
    void all_reduce_sum(float* values, std::size_t n, cudaStream_t stream, call_site at) {
      if (n == 0) return;
      auto& s = *state_;
      s.issue(operation::all_reduce_sum, at, [&](ncclComm_t comm) { s.check(ncclAllReduce(values, values, n, ncclFloat32, ncclSum, comm, stream), "ncclAllReduce"); });
    }
    /// Blocks until all that is queued on `stream` so far is done. @throws aborted, comm_error as a collective on host memory does
    void wait(cudaStream_t stream, operation op, call_site at) {
      state_->done.record(stream);
      state_->wait(state_->done.get(), op, at);
    }

   private:
    template <class F>
    void staged(std::span<std::byte const> send, std::span<std::byte> recv, operation op, call_site at, F queue) {
      auto& s = *state_;
      cudaStream_t const stream = s.stream();
      s.host_send.resize(send.size());
      s.host_receive.resize(recv.size());
      s.device_send.resize(send.size(), stream);
      s.device_receive.resize(recv.size(), stream);
      if (!send.empty()) std::memcpy(s.host_send.data(), send.data(), send.size());
      exec::copy_to_device(s.device_send.data(), s.host_send.data(), send.size(), stream);
      queue(s.device_send.data(), s.device_receive.data(), stream);
      exec::copy_to_host(s.host_receive.data(), s.device_receive.data(), recv.size(), stream);
      wait(stream, op, at);
      if (!recv.empty()) std::memcpy(recv.data(), s.host_receive.data(), recv.size());
    }

    std::shared_ptr<detail::nccl_channel> state_;
  };

  /// Ranks of a communicator that is there, such as comm::mpi: it carries NCCL's addresses and tells of failures. Collective.
  template <communicator C>
  static nccl over(C host, options settings = {}) {
    return nccl{detail::meet_over(std::move(host)), settings};
  }
  /// RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT and LOCAL_RANK, as torchrun sets them; rank 0 listens on MASTER_PORT + 1, or on
  /// NESTPIPE_PORT. Collective. @throws config_error, comm_error
  static nccl from_environment(options settings = {}) { return nccl{detail::meet_by_environment(settings.deadline), settings}; }
  /// Ranks that see one file system; `path` is where they meet. Collective. @throws comm_error
  static nccl from_file(std::filesystem::path const& path, std::size_t rank, std::size_t size, options settings = {}) {
    return nccl{detail::meet_at_file(path, rank, size, settings.deadline), settings};
  }

  std::size_t rank() const noexcept { return world_->meet.rank; }
  std::size_t size() const noexcept { return world_->meet.size; }
  int device() const noexcept { return world_->device; }

  /// Collective: returns when all ranks open the channel.
  channel_type channel(std::string_view name) { return channel_type{std::make_shared<detail::nccl_channel>(world_, name)}; }
  void abort(std::string_view reason) noexcept {
    try {
      world_->meet.abort(reason);
    } catch (...) {  // the deadline tells the others
    }
  }

 private:
  nccl(detail::meeting m, options settings) : world_{std::make_shared<detail::nccl_world>(std::move(m), settings)} {}

  std::shared_ptr<detail::nccl_world> world_;
};

}  // namespace nestpipe::comm
