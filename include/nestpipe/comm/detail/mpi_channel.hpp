#pragma once
/// @file
/// One channel of comm::mpi: a communicator of its own, messages between pairs of ranks, and a wait that sleeps.

#include <nestpipe/comm/detail/mpi_runtime.hpp>

#include <algorithm>
#include <chrono>
#include <climits>
#include <cstddef>
#include <cstring>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace nestpipe::comm::detail {

struct mpi_options {
  /// A collective that takes longer than this fails with what is known about the missing ranks.
  std::chrono::nanoseconds deadline = std::chrono::minutes{5};
  /// Longest message in bytes; longer data go as several. MPI counts are int.
  std::size_t piece_bytes = std::size_t{1} << 30;
};

/// Collectives are made of messages between pairs (but for the sum), so that after a failure receives can be taken back
/// before the caller's buffers go away, and so that a late collective can say for whom it waits. Every pair exchanges a
/// message even when it is empty: sizes that do not agree then show at once instead of in some later collective.
class mpi_channel {
 public:
  mpi_channel(mpi_runtime& runtime, std::string_view name, mpi_options settings)
      : runtime_{runtime}, name_{name}, settings_{settings}, rank_{runtime.rank()}, size_{runtime.size()} {
    settings_.deadline = std::min<std::chrono::nanoseconds>(settings_.deadline, std::chrono::hours{24 * 365});
    settings_.piece_bytes =
        std::clamp<std::size_t>(settings_.piece_bytes, sizeof(float), INT_MAX) / sizeof(float) * sizeof(float);
    begin();
    add([&](MPI_Request* request) { return MPI_Comm_idup(runtime_.parent(), &own_->comm, request); }, rank_, 0, false);
    wait(operation::open, {"opening channels", current_step.load(std::memory_order_relaxed)});
  }
  mpi_channel(mpi_channel const&) = delete;
  mpi_channel& operator=(mpi_channel const&) = delete;
  ~mpi_channel() {
    if (!runtime_.failure().set() && !mpi_runtime::finalised()) MPI_Comm_free(&own_->comm);
  }

  std::size_t rank() const noexcept { return rank_; }
  std::size_t size() const noexcept { return size_; }
  std::string const& name() const noexcept { return name_; }

  /// Starts a list of messages.
  void begin() {
    requests_.clear();
    open_.clear();
  }
  void receive(std::span<std::byte> bytes, std::size_t from, operation op) {
    in_pieces(bytes.size(), [&](std::size_t first, std::size_t count) {
      add(
          [&](MPI_Request* r) {
            return MPI_Irecv(bytes.data() + first, static_cast<int>(count), MPI_BYTE, static_cast<int>(from),
                             static_cast<int>(op), own_->comm, r);
          },
          from, count, true);
    });
  }
  void send(std::span<std::byte const> bytes, std::size_t to, operation op) {
    in_pieces(bytes.size(), [&](std::size_t first, std::size_t count) {
      add(
          [&](MPI_Request* r) {
            return MPI_Isend(bytes.data() + first, static_cast<int>(count), MPI_BYTE, static_cast<int>(to),
                             static_cast<int>(op), own_->comm, r);
          },
          to, count, false);
    });
  }

  /// Waits for all messages of the list. @throws aborted, comm_error; then no receive of the list writes any more
  void wait(operation op, call_site at) {
    auto const start = std::chrono::steady_clock::now();
    std::chrono::microseconds pause{20};
    statuses_.resize(requests_.size());
    for (unsigned polls = 1;; ++polls) {
      int done = 0;
      int const code = MPI_Testall(static_cast<int>(requests_.size()), requests_.data(), &done, statuses_.data());
      if (code != MPI_SUCCESS) refuse(op, at, code);
      if (done != 0) break;
      if (polls % 16 != 0) {  // a short while of polling, giving the core away
        std::this_thread::yield();
        continue;
      }
      if (runtime_.failed()) {
        take_back();
        throw echo(runtime_.failure().rank(), runtime_.failure().reason(), rank_, at);
      }
      auto const waited = std::chrono::steady_clock::now() - start;
      if (waited > settings_.deadline) {
        comm_error const late = overdue(op, name_, settings_.deadline, rank_, at, missing(op));
        give_up(late);
      }
      if (waited > std::chrono::microseconds{50}) {  // then sleep between polls, in the operating system
        std::this_thread::sleep_for(pause);
        pause = std::min(pause * 3 / 2, std::chrono::microseconds{100});
        polls += 15;
      }
    }
    for (std::size_t i = 0; i < open_.size(); ++i) {
      if (!open_[i].incoming) continue;
      int got = 0;
      MPI_Get_count(&statuses_[i], MPI_BYTE, &got);
      if (static_cast<std::size_t>(got) != open_[i].bytes)
        give_up(misuse(op, name_, rank_, at,
                       "rank " + std::to_string(open_[i].peer) + " sends " + std::to_string(got) + " bytes, " +
                           std::to_string(open_[i].bytes) + " were expected"));
    }
  }

  /// Sums over the ranks by MPI_Iallreduce, in memory of the channel's own: that collective cannot be taken back.
  void all_reduce_sum(std::span<float> values, call_site at) {
    std::vector<float>& sums = own_->sums;
    if (sums.size() < values.size()) sums.resize(values.size());
    if (!values.empty()) std::memcpy(sums.data(), values.data(), values.size_bytes());
    begin();
    in_pieces(values.size_bytes(), [&](std::size_t first, std::size_t count) {
      add(
          [&](MPI_Request* r) {
            return MPI_Iallreduce(MPI_IN_PLACE, sums.data() + first / sizeof(float),
                                  static_cast<int>(count / sizeof(float)), MPI_FLOAT, MPI_SUM, own_->comm, r);
          },
          rank_, count, false);
    });
    wait(operation::all_reduce_sum, at);
    if (!values.empty()) std::memcpy(values.data(), sums.data(), values.size_bytes());
  }

  /// Before every collective: publishes where this rank is, and sends nothing once a failure is known. @throws aborted
  void enter(call_site at) const {
    current_stage.store(at.stage, std::memory_order_relaxed);
    current_step.store(at.step, std::memory_order_relaxed);
    if (runtime_.failure().set()) throw echo(runtime_.failure().rank(), runtime_.failure().reason(), rank_, at);
  }

 private:
  /// What MPI may write at any time while a collective is in flight; outlives the channel if that never ends.
  struct memory {
    MPI_Comm comm = MPI_COMM_NULL;
    std::vector<float> sums;
  };
  struct message {
    std::size_t peer;
    std::size_t bytes;
    bool incoming;
  };

  template <class F>
  void in_pieces(std::size_t bytes, F f) const {
    std::size_t first = 0;
    do {
      std::size_t const count = std::min(bytes - first, settings_.piece_bytes);
      f(first, count);
      first += count;
    } while (first < bytes);
  }

  template <class Start>
  void add(Start start, std::size_t peer, std::size_t bytes, bool incoming) {
    MPI_Request request = MPI_REQUEST_NULL;
    int const code = start(&request);
    if (code != MPI_SUCCESS) {
      take_back();
      give_up(comm_error{"channel '" + name_ + "': " + mpi_error_text(code), "rank " + std::to_string(rank_)});
    }
    requests_.push_back(request);
    open_.push_back({peer, bytes, incoming});
  }

  [[noreturn]] void give_up(comm_error const& e) {
    runtime_.abort(e.what());
    take_back();
    throw e;
  }

  /// Testall failed: says which message it was.
  [[noreturn]] void refuse(operation op, call_site at, int code) {
    for (std::size_t i = 0; code == MPI_ERR_IN_STATUS && i < open_.size(); ++i) {
      int const error = statuses_[i].MPI_ERROR;
      if (error == MPI_SUCCESS || error == MPI_ERR_PENDING) continue;
      int error_class = error;
      MPI_Error_class(error, &error_class);
      std::string const peer = "rank " + std::to_string(open_[i].peer);
      give_up(misuse(op, name_, rank_, at,
                     error_class == MPI_ERR_TRUNCATE
                         ? peer + " sends more than the " + std::to_string(open_[i].bytes) + " bytes that were expected"
                         : "the message with " + peer + " failed: " + mpi_error_text(error)));
    }
    give_up(misuse(op, name_, rank_, at, mpi_error_text(code)));
  }

  /// After a failure: cancels receives and gives messages on their way a moment, so that nothing is written behind the
  /// caller's back.
  void take_back() noexcept {
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      if (requests_[i] != MPI_REQUEST_NULL && open_[i].incoming) MPI_Cancel(&requests_[i]);
    }
    auto const until = std::chrono::steady_clock::now() + std::chrono::milliseconds{200};
    for (;;) {
      bool all = true;
      for (MPI_Request& r : requests_) {
        int done = 1;
        if (r != MPI_REQUEST_NULL && MPI_Test(&r, &done, MPI_STATUS_IGNORE) == MPI_SUCCESS && done == 0) all = false;
      }
      if (all) break;
      if (std::chrono::steady_clock::now() > until) {
        try {
          runtime_.keep(own_);
        } catch (...) {  // no memory: nothing better to do
        }
        break;
      }
      std::this_thread::sleep_for(std::chrono::microseconds{100});
    }
    begin();
  }

  /// Of whom messages are outstanding, and who seems to be in another collective.
  std::string missing(operation op) {
    std::string ranks;
    std::size_t named = size_;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      int done = 1;
      if (requests_[i] == MPI_REQUEST_NULL || !open_[i].incoming) continue;
      if (MPI_Test(&requests_[i], &done, MPI_STATUS_IGNORE) != MPI_SUCCESS || done != 0 || open_[i].peer == named)
        continue;
      named = open_[i].peer;
      ranks.append(ranks.empty() ? "" : ", ").append("rank ").append(std::to_string(named));
    }
    int there = 0;
    MPI_Status other;
    if (op != operation::open && MPI_Iprobe(MPI_ANY_SOURCE, MPI_ANY_TAG, own_->comm, &there, &other) == MPI_SUCCESS &&
        there != 0 && other.MPI_TAG != static_cast<int>(op) && other.MPI_TAG >= 0 &&
        other.MPI_TAG <= static_cast<int>(operation::share)) {
      ranks.append(ranks.empty() ? "" : "; ").append("rank ").append(std::to_string(other.MPI_SOURCE));
      ranks.append(" called ").append(name_of(static_cast<operation>(other.MPI_TAG)));
    }
    return ranks;
  }

  mpi_runtime& runtime_;
  std::string name_;
  mpi_options settings_;
  std::size_t rank_, size_;
  std::shared_ptr<memory> own_ = std::make_shared<memory>();
  std::vector<MPI_Request> requests_;
  std::vector<message> open_;  // what each request is
  std::vector<MPI_Status> statuses_;
};

}  // namespace nestpipe::comm::detail
