#pragma once
/// @file
/// What the ranks of comm::threads share: the meeting place of each channel, the first failure, the list of channels.

#include <nestpipe/comm/comm.hpp>
#include <nestpipe/comm/detail/first_failure.hpp>
#include <nestpipe/comm/message.hpp>

#include <algorithm>
#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

namespace nestpipe::comm::detail {

struct thread_options {
  /// A rank that waits longer than this in one collective fails with what it knows about the missing ranks.
  std::chrono::nanoseconds deadline = std::chrono::minutes{5};
};

class thread_world;

/// Where the ranks of one channel meet. A round is `meet` (may fail: nobody has been let in yet) and then any number of
/// `part`. Once all have met, all will part: a rank that throws or returns has no peer still reading its buffers.
class thread_channel {
 public:
  /// What a rank lays open for its peers between `meet` and `part`.
  struct entry {
    operation op = operation::none;
    call_site at{};
    void const* data = nullptr;
    std::size_t length = 0;  ///< equal on all ranks
    std::size_t root = 0;    ///< equal on all ranks
    std::span<std::size_t const> sizes{};
  };

  thread_channel(thread_world& world, std::string_view name, std::size_t size, std::chrono::nanoseconds deadline)
      : world_{world},
        name_{name},
        deadline_{std::min<std::chrono::nanoseconds>(deadline, std::chrono::hours{24 * 365})},
        slots_(size),
        present_(size, false),
        spins_{size <= std::thread::hardware_concurrency() ? 1000 : 0} {}

  std::size_t size() const noexcept { return slots_.size(); }
  std::string const& name() const noexcept { return name_; }
  entry const& slot(std::size_t rank) const noexcept { return slots_[rank]; }

  /// Publishes `mine` and waits until every rank has published. @throws aborted, comm_error (deadline, calls that do not fit)
  inline void meet(std::size_t rank, entry mine);

  /// Waits until every rank has come here. Cannot fail: those who met are on their way.
  void part() {
    std::unique_lock lock{mutex_};
    std::uint64_t const round = arrive(lock);
    if (spin(lock, round)) return;
    wake_.wait(lock, [&] { return round_.load(std::memory_order_relaxed) != round; });
  }

  /// After `part`: the sizes that rank `from` sent are not the expected ones. Ends the world.
  [[noreturn]] inline void mismatch(std::size_t rank, call_site at, operation op, std::size_t from, std::size_t sent,
                                    std::size_t expected);

  void wake() noexcept {
    { std::scoped_lock lock{mutex_}; }  // whoever checked the failure flag before now waits, and hears the call
    wake_.notify_all();
  }

 private:
  /// Returns the round that ends when all have arrived; the last one ends it.
  std::uint64_t arrive(std::unique_lock<std::mutex>&) {
    std::uint64_t const round = round_.load(std::memory_order_relaxed);
    if (++arrived_ == slots_.size()) {
      arrived_ = 0;
      present_.assign(present_.size(), false);
      round_.store(round + 1, std::memory_order_release);
      wake_.notify_all();
    }
    return round;
  }

  /// True if the round has ended, after a short look without the lock where every rank can have a core.
  bool spin(std::unique_lock<std::mutex>& lock, std::uint64_t round) {
    if (round_.load(std::memory_order_relaxed) != round) return true;
    if (spins_ == 0) return false;
    lock.unlock();
    for (int i = 0; i < spins_; ++i) {
      if (round_.load(std::memory_order_acquire) != round) return true;
    }
    lock.lock();
    return round_.load(std::memory_order_relaxed) != round;
  }

  /// Why `mine` cannot be the same collective as the one a peer already waits in; empty if it can.
  std::string conflict(std::size_t rank, entry const& mine) const {
    for (std::size_t r = 0; r < slots_.size(); ++r) {
      if (!present_[r]) continue;
      entry const& other = slots_[r];
      std::string const peer = "rank " + std::to_string(r);
      if (other.op != mine.op)
        return "rank " + std::to_string(rank) + " calls " + name_of(mine.op) + " on channel '" + name_ + "' while " +
               peer + " waits in " + name_of(other.op) + " (" + text(other.at) + ")";
      if (other.length != mine.length || other.root != mine.root)
        return std::string{name_of(mine.op)} + " on channel '" + name_ + "': rank " + std::to_string(rank) + " and " +
               peer + " disagree: sizes " + std::to_string(mine.length) + " and " + std::to_string(other.length) +
               ", roots " + std::to_string(mine.root) + " and " + std::to_string(other.root);
      break;  // those present agree with each other
    }
    return {};
  }

  /// "rank 2 (last in route, step 16), rank 3 (never came)"
  std::string missing() const {
    std::string ranks;
    for (std::size_t r = 0; r < slots_.size(); ++r) {
      if (present_[r]) continue;
      if (!ranks.empty()) ranks.append(", ");
      ranks.append("rank ").append(std::to_string(r));
      ranks.append(slots_[r].op == operation::none ? " (never came)" : " (last in " + text(slots_[r].at) + ")");
    }
    return ranks;
  }

  thread_world& world_;
  std::string name_;
  std::chrono::nanoseconds deadline_;
  std::mutex mutex_;
  std::condition_variable wake_;
  std::vector<entry> slots_;
  std::vector<bool> present_;
  std::size_t arrived_ = 0;
  std::atomic<std::uint64_t> round_{0};
  int spins_;
};

class thread_world {
 public:
  thread_world(std::size_t size, thread_options settings)
      : settings_{settings}, opened_(size, 0), sharing_{*this, "share", size, settings.deadline} {}
  thread_world(thread_world const&) = delete;
  thread_world& operator=(thread_world const&) = delete;

  std::size_t size() const noexcept { return opened_.size(); }
  thread_channel& sharing() noexcept { return sharing_; }
  first_failure& failure() noexcept { return failure_; }

  /// The n-th channel a rank opens is the n-th of every other rank. It lives as long as the world.
  thread_channel& open(std::size_t rank, std::string_view name) {
    std::scoped_lock lock{registry_};
    std::size_t const place = opened_[rank];
    if (place == channels_.size()) {
      channels_.push_back({std::make_unique<thread_channel>(*this, name, size(), settings_.deadline), rank});
    } else if (auto const& there = channels_[place]; there.state->name() != name) {
      throw comm_error{"ranks open different channels: rank " + std::to_string(rank) + " opens '" + std::string{name} +
                           "' as number " + std::to_string(place) + ", rank " + std::to_string(there.opener) +
                           " opened '" + there.state->name() + "'",
                       {},
                       "open the same channels in the same order on all ranks"};
    }
    ++opened_[rank];
    return *channels_[place].state;
  }

  void abort(std::size_t rank, std::string_view reason) noexcept {
    if (failure_.record(rank, reason)) wake_all();
  }
  void wake_all() noexcept {
    std::scoped_lock lock{registry_};
    sharing_.wake();
    for (auto& entry : channels_) entry.state->wake();
  }

  /// A rank's function ended with this exception.
  void leave(std::size_t rank, std::exception_ptr cause) noexcept {
    bool echo = false;
    try {
      std::rethrow_exception(cause);
    } catch (aborted const& e) {
      echo = true;
      abort(rank, e.what());
    } catch (cancelled const& e) {
      echo = true;
      abort(rank, e.what());
    } catch (std::exception const& e) {
      abort(rank, e.what());
    } catch (...) {
      abort(rank, "an exception that is no std::exception");
    }
    try {
      std::scoped_lock lock{registry_};
      ended_.push_back({rank, echo, std::move(cause)});
    } catch (...) {  // no memory: the recorded reason is reported instead
    }
  }

  /// After all ranks have ended: throws the first cause, if anything failed.
  void rethrow_cause() {
    for (auto const& e : ended_) {  // what the rank that failed first has thrown
      if (!e.echo && e.rank == failure_.rank()) std::rethrow_exception(e.cause);
    }
    for (auto const& e : ended_) {
      if (!e.echo) std::rethrow_exception(e.cause);
    }
    if (failure_.set()) throw comm_error{"rank " + std::to_string(failure_.rank()) + " failed: " + failure_.reason()};
  }

 private:
  struct opened_channel {
    std::unique_ptr<thread_channel> state;
    std::size_t opener;
  };
  struct end {
    std::size_t rank;
    bool echo;
    std::exception_ptr cause;
  };

  thread_options settings_;
  first_failure failure_;
  std::mutex registry_;
  std::vector<std::size_t> opened_;  // per rank: how many channels so far
  std::vector<opened_channel> channels_;
  std::vector<end> ended_;
  thread_channel sharing_;
};

inline void thread_channel::meet(std::size_t rank, entry mine) {
  std::unique_lock lock{mutex_};
  auto const check = [&] {
    if (world_.failure().set()) throw echo(world_.failure().rank(), world_.failure().reason(), rank, mine.at);
  };
  // The failure is recorded under the channel's lock, so that nobody completes a round which this rank has left.
  auto const fail = [&](comm_error const& e) {
    bool const first = world_.failure().record(rank, e.what());
    lock.unlock();
    if (first) world_.wake_all();
    throw e;
  };
  check();
  if (std::string const reason = conflict(rank, mine); !reason.empty())
    fail(comm_error{reason, "rank " + std::to_string(rank) + ", " + text(mine.at),
                    "all ranks make the same calls in the same order"});
  slots_[rank] = mine;
  present_[rank] = true;
  std::uint64_t const round = arrive(lock);
  if (spin(lock, round)) return;
  auto const done = [&] { return round_.load(std::memory_order_relaxed) != round || world_.failure().set(); };
  bool const in_time = wake_.wait_for(lock, deadline_, done);
  if (round_.load(std::memory_order_relaxed) != round) return;
  if (in_time) check();
  fail(overdue(mine.op, name_, deadline_, rank, mine.at, missing()));
}

inline void thread_channel::mismatch(std::size_t rank, call_site at, operation op, std::size_t from, std::size_t sent,
                                     std::size_t expected) {
  comm_error const e = misuse(op, name_, rank, at,
                              "rank " + std::to_string(from) + " sends " + std::to_string(sent) + " bytes, " +
                                  std::to_string(expected) + " were expected");
  world_.abort(rank, e.what());
  throw e;
}

}  // namespace nestpipe::comm::detail
