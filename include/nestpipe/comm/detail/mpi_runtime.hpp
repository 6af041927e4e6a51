#pragma once
/// @file
/// What all comm::mpi objects of a process share: MPI itself, and the control communicator over which ranks tell each other
/// that they failed.

#if !__has_include(<mpi.h>)
#error \
    "nestpipe/comm/mpi.hpp needs MPI: install libopenmpi-dev and link nestpipe::mpi, or use nestpipe/comm/threads.hpp"
#endif

#ifndef OMPI_SKIP_MPICXX
#define OMPI_SKIP_MPICXX 1  // the C++ bindings of old MPI versions are gone from the standard
#endif
#ifndef MPICH_SKIP_MPICXX
#define MPICH_SKIP_MPICXX 1
#endif

#include <nestpipe/comm/comm.hpp>
#include <nestpipe/comm/detail/first_failure.hpp>
#include <nestpipe/comm/message.hpp>

#include <mpi.h>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

namespace nestpipe::comm::detail {

/// Where this process is, for a signal handler: the last collective that any of its threads entered.
inline std::atomic<char const*> current_stage{"setup"};
inline std::atomic<std::uint64_t> current_step{0};
static_assert(std::atomic<char const*>::is_always_lock_free && std::atomic<std::uint64_t>::is_always_lock_free);

inline std::string mpi_error_text(int code) {
  char text[MPI_MAX_ERROR_STRING] = {};
  int length = 0;
  if (MPI_Error_string(code, text, &length) != MPI_SUCCESS) return "MPI error " + std::to_string(code);
  return std::string{text, static_cast<std::size_t>(length)};
}

/// @throws comm_error when an MPI call failed
inline void mpi_check(int code, char const* call) {
  if (code != MPI_SUCCESS) throw comm_error{std::string{call} + " failed: " + mpi_error_text(code)};
}

class mpi_runtime {
 public:
  /// Initialises MPI on the first call if nobody has; what it has initialised it finalises at the end of the program.
  static mpi_runtime& instance(int* argc = nullptr, char*** argv = nullptr) {
    static mpi_runtime one{argc, argv};
    return one;
  }
  mpi_runtime(mpi_runtime const&) = delete;
  mpi_runtime& operator=(mpi_runtime const&) = delete;

  ~mpi_runtime() {
    if (!initialised_here_ || finalised()) return;
    if (!finish()) end(1);
    MPI_Comm_free(&control_);
    MPI_Comm_free(&parent_);
    MPI_Finalize();
  }

  std::size_t rank() const noexcept { return static_cast<std::size_t>(rank_); }
  std::size_t size() const noexcept { return static_cast<std::size_t>(size_); }
  MPI_Comm parent() const noexcept { return parent_; }
  first_failure const& failure() const noexcept { return failure_; }

  static bool finalised() noexcept {
    int flag = 0;
    MPI_Finalized(&flag);
    return flag != 0;
  }

  /// Whether any rank has failed, as far as has been heard. Called from every wait loop, from any thread.
  bool failed() noexcept {
    if (failure_.set()) return true;
    std::unique_lock lock{control_mutex_, std::try_to_lock};
    if (lock) listen();
    return failure_.set();
  }

  /// Records the failure of this rank and tells the others, unless a failure is known already.
  void abort(std::string_view reason) noexcept {
    if (!failure_.record(rank(), reason) || finalised()) return;
    std::scoped_lock lock{control_mutex_};
    lowest_failed_ = std::min(lowest_failed_, rank());
    outgoing_.rank = static_cast<std::uint32_t>(rank_);
    std::memcpy(outgoing_.reason, reason.data(), std::min(reason.size(), sizeof outgoing_.reason - 1));
    tell_all(&outgoing_, sizeof outgoing_, tag_abort);
  }

  /// Before MPI_Finalize, which would not hear of failures: waits until every rank has come here. False if one failed.
  bool finish() noexcept {
    MPI_Request all_here = MPI_REQUEST_NULL;
    if (failed() || MPI_Ibarrier(control_, &all_here) != MPI_SUCCESS) return false;
    for (int done = 0;;) {
      if (MPI_Test(&all_here, &done, MPI_STATUS_IGNORE) != MPI_SUCCESS) return false;
      if (done != 0) return true;
      if (failed()) return false;
      std::this_thread::sleep_for(std::chrono::microseconds{100});
    }
  }

  /// Ends the job after a failure: waits up to two seconds for the others to say their line, then MPI_Abort.
  [[noreturn]] void end(int status) noexcept {
    {
      std::scoped_lock lock{control_mutex_};
      tell_all(nullptr, 0, tag_said);
      auto const until = std::chrono::steady_clock::now() + std::chrono::seconds{2};
      for (int said = 0; said < size_ - 1 && std::chrono::steady_clock::now() < until;) {
        int there = 0;
        MPI_Status from;
        if (MPI_Iprobe(MPI_ANY_SOURCE, tag_said, control_, &there, &from) != MPI_SUCCESS) break;
        if (there == 0) {
          std::this_thread::sleep_for(std::chrono::milliseconds{1});
        } else if (MPI_Recv(nullptr, 0, MPI_BYTE, from.MPI_SOURCE, tag_said, control_, MPI_STATUS_IGNORE) ==
                   MPI_SUCCESS) {
          ++said;
        }
      }
      while (listen()) {}
    }
    // One rank is enough, and launchers trip over many: the lowest of those that failed goes first, the others only if they
    // are still here. The first wait is for the launcher to pass on the lines.
    std::this_thread::sleep_for(
        std::chrono::milliseconds{50 + (lowest_failed_ == rank() ? 0 : 1000 + 20 * std::min(rank_, 100))});
    MPI_Abort(MPI_COMM_WORLD, status);
    std::_Exit(status);
  }

  /// Keeps memory that a collective in flight may still write, to the end of the process.
  void keep(std::shared_ptr<void> memory) {
    std::scoped_lock lock{control_mutex_};
    kept_.push_back(std::move(memory));
  }

 private:
  static constexpr int tag_abort = 1, tag_said = 2;

  struct abort_message {
    std::uint32_t rank = 0;
    char reason[1020] = {};
  };

  mpi_runtime(int* argc, char*** argv) {
    int initialised = 0, provided = MPI_THREAD_SINGLE;
    MPI_Initialized(&initialised);
    if (finalised())
      throw comm_error{"MPI has been finalised already", "comm::mpi", "create the communicator before MPI_Finalize"};
    if (initialised != 0) {
      MPI_Query_thread(&provided);
    } else {
      mpi_check(MPI_Init_thread(argc, argv, MPI_THREAD_MULTIPLE, &provided), "MPI_Init_thread");
    }
    if (provided < MPI_THREAD_MULTIPLE) {
      throw comm_error{"MPI does not grant MPI_THREAD_MULTIPLE, which the lanes of a rank need", "comm::mpi",
                       initialised != 0
                           ? "initialise with MPI_Init_thread(..., MPI_THREAD_MULTIPLE, ...), or let comm::mpi do it"
                           : "use an MPI library built with thread support"};
    }
    initialised_here_ = initialised == 0;
    mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &control_), "MPI_Comm_dup");
    mpi_check(MPI_Comm_dup(MPI_COMM_WORLD, &parent_), "MPI_Comm_dup");
    MPI_Comm_set_errhandler(control_, MPI_ERRORS_RETURN);
    MPI_Comm_set_errhandler(parent_, MPI_ERRORS_RETURN);  // inherited by every channel
    MPI_Comm_rank(control_, &rank_);
    MPI_Comm_size(control_, &size_);
    told_.reserve(2 * static_cast<std::size_t>(size_));
  }

  /// Under the control lock: takes in one abort message; false if there is none.
  bool listen() noexcept {
    int there = 0;
    MPI_Status from;
    if (MPI_Iprobe(MPI_ANY_SOURCE, tag_abort, control_, &there, &from) != MPI_SUCCESS || there == 0) return false;
    abort_message incoming;
    if (MPI_Recv(&incoming, sizeof incoming, MPI_BYTE, from.MPI_SOURCE, tag_abort, control_, MPI_STATUS_IGNORE) !=
        MPI_SUCCESS)
      return false;
    incoming.reason[sizeof incoming.reason - 1] = '\0';
    lowest_failed_ = std::min<std::size_t>(lowest_failed_, incoming.rank);
    failure_.record(incoming.rank, incoming.reason);
    return true;
  }

  /// Under the control lock. The requests stay open if a rank does not take its message: it may be gone.
  void tell_all(void const* data, std::size_t bytes, int tag) noexcept {
    std::size_t const first = told_.size();
    for (int r = 0; r < size_; ++r) {
      if (r == rank_) continue;
      MPI_Request request = MPI_REQUEST_NULL;
      if (MPI_Isend(data, static_cast<int>(bytes), MPI_BYTE, r, tag, control_, &request) == MPI_SUCCESS)
        told_.push_back(request);
    }
    int const count = static_cast<int>(told_.size() - first);
    auto const until = std::chrono::steady_clock::now() + std::chrono::milliseconds{100};
    for (int done = 0; done == 0 && std::chrono::steady_clock::now() < until; std::this_thread::yield()) {
      if (MPI_Testall(count, told_.data() + first, &done, MPI_STATUSES_IGNORE) != MPI_SUCCESS) break;
    }
  }

  bool initialised_here_ = false;
  int rank_ = 0, size_ = 1;
  MPI_Comm control_ = MPI_COMM_NULL;
  MPI_Comm parent_ = MPI_COMM_NULL;  // what channels are duplicated from
  first_failure failure_;
  std::mutex control_mutex_;
  std::size_t lowest_failed_ = static_cast<std::size_t>(-1);
  abort_message outgoing_;
  std::vector<MPI_Request> told_;
  std::vector<std::shared_ptr<void>> kept_;
};

}  // namespace nestpipe::comm::detail
