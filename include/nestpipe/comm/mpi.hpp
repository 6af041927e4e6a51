#pragma once
/// @file
/// Ranks that are processes under an MPI launcher. Needs MPI (target nestpipe::mpi).

#include <nestpipe/comm/comm.hpp>
#include <nestpipe/comm/detail/mpi_channel.hpp>
#include <nestpipe/comm/detail/mpi_program.hpp>
#include <nestpipe/comm/detail/mpi_runtime.hpp>
#include <nestpipe/comm/message.hpp>

#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <utility>

namespace nestpipe::comm {

/// The communicator of this process in the MPI world. Models @ref communicator.
///
/// A channel is a duplicated communicator; different threads of a rank may use different channels at the same time (MPI is
/// asked for MPI_THREAD_MULTIPLE). Waits poll briefly, then sleep tens of microseconds between polls, and listen for the
/// failure of other ranks and for the deadline. The self block is copied without MPI. After a failure the process can do
/// nothing more with MPI than end: use @ref run, or end with a non-zero status (this object then ends the job).
class mpi {
 public:
  using options = detail::mpi_options;

  class channel_type {
   public:
    explicit channel_type(std::shared_ptr<detail::mpi_channel> state) : state_{std::move(state)} {}

    void all_to_all_v(std::span<std::byte const> send, std::span<std::size_t const> send_bytes,
                      std::span<std::byte> recv, std::span<std::size_t const> recv_bytes, call_site at) {
      auto& s = enter(at);
      detail::check_all_to_all_v(s.size(), s.name(), s.rank(), at, send.size(), send_bytes, recv.size(), recv_bytes);
      exchange(
          operation::all_to_all_v, at,
          [&](std::size_t r) { return send.subspan(detail::total(send_bytes.first(r)), send_bytes[r]); },
          [&](std::size_t r) { return recv.subspan(detail::total(recv_bytes.first(r)), recv_bytes[r]); });
    }
    void all_gather(std::span<std::byte const> send, std::span<std::byte> recv, call_site at) {
      auto& s = enter(at);
      detail::check_all_gather(s.size(), s.name(), s.rank(), at, send.size(), recv.size());
      exchange(
          operation::all_gather, at, [&](std::size_t) { return send; },
          [&](std::size_t r) { return recv.subspan(r * send.size(), send.size()); });
    }
    /// A binomial tree below the root.
    void broadcast(std::span<std::byte> bytes, std::size_t root, call_site at) {
      auto& s = enter(at);
      detail::check_broadcast(s.size(), s.name(), s.rank(), at, root);
      std::size_t const place = (s.rank() + s.size() - root) % s.size();
      auto const rank_at = [&](std::size_t p) { return (p + root) % s.size(); };
      std::size_t bit = 1;
      while (bit < s.size() && (place & bit) == 0) bit *= 2;
      if (place != 0) {
        s.begin();
        s.receive(bytes, rank_at(place - bit), operation::broadcast);
        s.wait(operation::broadcast, at);
      }
      s.begin();
      for (bit /= 2; bit != 0; bit /= 2) {
        if (place + bit < s.size()) s.send(bytes, rank_at(place + bit), operation::broadcast);
      }
      s.wait(operation::broadcast, at);
    }
    void all_reduce_sum(std::span<float> values, call_site at) { enter(at).all_reduce_sum(values, at); }
    void barrier(call_site at) {
      enter(at);
      exchange(
          operation::barrier, at, [](std::size_t) { return std::span<std::byte const>{}; },
          [](std::size_t) { return std::span<std::byte>{}; });
    }

   private:
    detail::mpi_channel& enter(call_site at) {
      state_->enter(at);
      return *state_;
    }

    /// Every rank with every rank, nearest first, so that not all send to the same one.
    template <class Send, class Recv>
    void exchange(operation op, call_site at, Send send_to, Recv receive_from) {
      auto& s = *state_;
      s.begin();
      for (std::size_t d = 1; d < s.size(); ++d) {
        std::size_t const r = (s.rank() + s.size() - d) % s.size();
        s.receive(receive_from(r), r, op);
      }
      for (std::size_t d = 1; d < s.size(); ++d) {
        std::size_t const r = (s.rank() + d) % s.size();
        s.send(send_to(r), r, op);
      }
      std::span<std::byte const> const own = send_to(s.rank());
      std::span<std::byte> const here = receive_from(s.rank());
      if (!own.empty() && own.data() != here.data()) std::memmove(here.data(), own.data(), own.size());
      s.wait(op, at);
    }

    std::shared_ptr<detail::mpi_channel> state_;
  };

  /// All processes of the job. Initialises MPI if nobody has, and then finalises it at the end of the program.
  /// @throws comm_error if MPI does not grant MPI_THREAD_MULTIPLE
  static mpi world(options settings = {}) { return mpi{detail::mpi_runtime::instance(), settings}; }

  /// A main for programs: `int main(int argc, char** argv) { return mpi::run(argc, argv, [](mpi comm) { ... }); }`.
  ///
  /// `f(comm)` returns nothing or an exit status. When it throws, this rank prints the error as one line to stderr, tells
  /// the other ranks, gives them two seconds to print theirs, and ends the job with status 2 for a config_error, else 1
  /// (what all ranks refuse alike is printed once). A rank that the launcher stops because another one died by a signal
  /// prints where it was. Installs a handler for SIGTERM.
  template <class F>
  static int run(int argc, char** argv, F&& f, options settings = {}) {
    detail::mpi_runtime* runtime = nullptr;
    try {
      runtime = &detail::mpi_runtime::instance(&argc, &argv);
    } catch (std::exception const& e) {
      detail::say_line(e.what());
      return 1;
    }
    detail::install_sigterm_line(runtime->rank());
    try {
      mpi comm{*runtime, settings};
      int status = 0;
      if constexpr (std::is_void_v<std::invoke_result_t<F, mpi&>>) {
        std::invoke(f, comm);
      } else {
        status = std::invoke(f, comm);
      }
      detail::current_stage = "the end of the program";
      if (runtime->finish()) return status;
      auto const& failure = runtime->failure();
      detail::end_program(*runtime, "rank " + std::to_string(failure.rank()) + " failed: " + failure.reason(), 1);
    } catch (config_error const& e) {
      detail::end_program(*runtime, e.what(), 2);
    } catch (std::exception const& e) {
      detail::end_program(*runtime, e.what(), 1);
    } catch (...) {
      detail::end_program(*runtime, "an exception that is no std::exception", 1);
    }
  }

  /// This process's place among those of its machine, for choosing a device.
  static std::size_t local_rank() { return detail::local_rank(); }

  std::size_t rank() const noexcept { return runtime_->rank(); }
  std::size_t size() const noexcept { return runtime_->size(); }

  /// Collective: returns when all ranks open the channel. @throws comm_error
  channel_type channel(std::string_view name) {
    return channel_type{std::make_shared<detail::mpi_channel>(*runtime_, name, settings_)};
  }
  void abort(std::string_view reason) noexcept { runtime_->abort(reason); }
  /// What a rank has told of its failure, or null. Not collective; for polling.
  detail::first_failure const* failure() { return runtime_->failed() ? &runtime_->failure() : nullptr; }

 private:
  mpi(detail::mpi_runtime& runtime, options settings) : runtime_{&runtime}, settings_{settings} {}

  detail::mpi_runtime* runtime_;
  options settings_;
};

}  // namespace nestpipe::comm
