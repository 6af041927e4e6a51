#pragma once
/// @file
/// Ranks that are threads of one process. A collective publishes pointers, waits until all ranks have done so, and each
/// rank copies straight from its peers' buffers: one copy per byte, no staging.

#include <nestpipe/comm/comm.hpp>
#include <nestpipe/comm/detail/thread_world.hpp>
#include <nestpipe/comm/message.hpp>

#include <algorithm>
#include <cstddef>
#include <cstring>
#include <exception>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <thread>
#include <type_traits>
#include <utility>
#include <vector>

namespace nestpipe::comm {

/// A communicator of one rank in a world of threads. Copies talk for the same rank. Models @ref communicator.
///
/// Different threads of a rank may use different channels at the same time; a channel is used by one thread per rank at a
/// time. Waiting threads block in the operating system. A mistake in the order of calls (one rank in `broadcast`, another
/// in `barrier`) is found and reported, and so are sizes that do not agree.
class threads {
 public:
  using options = detail::thread_options;

  class channel_type {
   public:
    channel_type(std::shared_ptr<detail::thread_channel> state, std::size_t rank)
        : state_{std::move(state)}, rank_{rank} {}

    void all_to_all_v(std::span<std::byte const> send, std::span<std::size_t const> send_bytes,
                      std::span<std::byte> recv, std::span<std::size_t const> recv_bytes, call_site at) {
      auto& s = *state_;
      detail::check_all_to_all_v(s.size(), s.name(), rank_, at, send.size(), send_bytes, recv.size(), recv_bytes);
      s.meet(rank_, {.op = operation::all_to_all_v, .at = at, .data = send.data(), .sizes = send_bytes});
      std::size_t wrong = s.size();
      std::byte* to = recv.data();
      for (std::size_t r = 0; r < s.size(); ++r) {
        auto const& peer = s.slot(r);
        if (peer.sizes[rank_] != recv_bytes[r]) {
          wrong = r;
          break;
        }
        if (recv_bytes[r] != 0)
          std::memcpy(to, static_cast<std::byte const*>(peer.data) + detail::total(peer.sizes.first(rank_)),
                      recv_bytes[r]);
        to += recv_bytes[r];
      }
      std::size_t const sent = wrong == s.size() ? 0 : s.slot(wrong).sizes[rank_];
      s.part();
      if (wrong != s.size()) s.mismatch(rank_, at, operation::all_to_all_v, wrong, sent, recv_bytes[wrong]);
    }

    void all_gather(std::span<std::byte const> send, std::span<std::byte> recv, call_site at) {
      auto& s = *state_;
      detail::check_all_gather(s.size(), s.name(), rank_, at, send.size(), recv.size());
      s.meet(rank_, {.op = operation::all_gather, .at = at, .data = send.data(), .length = send.size()});
      for (std::size_t r = 0; r < s.size(); ++r) {
        std::byte* const to = recv.data() + r * send.size();
        if (!send.empty() && s.slot(r).data != to) std::memcpy(to, s.slot(r).data, send.size());
      }
      s.part();
    }

    void broadcast(std::span<std::byte> bytes, std::size_t root, call_site at) {
      auto& s = *state_;
      detail::check_broadcast(s.size(), s.name(), rank_, at, root);
      s.meet(rank_, {.op = operation::broadcast, .at = at, .data = bytes.data(), .length = bytes.size(), .root = root});
      if (rank_ != root && !bytes.empty()) std::memcpy(bytes.data(), s.slot(root).data, bytes.size());
      s.part();
    }

    /// Rank r adds up the r-th part of all buffers in rank order, in place, then the parts are copied around.
    void all_reduce_sum(std::span<float> values, call_site at) {
      auto& s = *state_;
      std::size_t const n = values.size();
      s.meet(rank_, {.op = operation::all_reduce_sum, .at = at, .data = values.data(), .length = n});
      auto const begin = [&](std::size_t r) { return n / s.size() * r + std::min(r, n % s.size()); };
      for (std::size_t i = begin(rank_); i < begin(rank_ + 1); ++i) {
        float sum = static_cast<float const*>(s.slot(0).data)[i];
        for (std::size_t r = 1; r < s.size(); ++r) sum += static_cast<float const*>(s.slot(r).data)[i];
        values[i] = sum;
      }
      s.part();
      for (std::size_t r = 0; r < s.size(); ++r) {
        if (r == rank_ || begin(r) == begin(r + 1)) continue;
        std::memcpy(values.data() + begin(r), static_cast<float const*>(s.slot(r).data) + begin(r),
                    (begin(r + 1) - begin(r)) * sizeof(float));
      }
      s.part();
    }

    void barrier(call_site at) { state_->meet(rank_, {.op = operation::barrier, .at = at}); }

   private:
    std::shared_ptr<detail::thread_channel> state_;
    std::size_t rank_;
  };

  /// A world of `world_size` ranks, for callers that bring their own threads. @throws config_error if it is 0
  static std::vector<threads> make(std::size_t world_size, options settings = {}) {
    require(world_size > 0, "a world needs at least one rank", "comm::threads", "give a world size of 1 or more");
    auto const world = std::make_shared<detail::thread_world>(world_size, settings);
    std::vector<threads> ranks;
    ranks.reserve(world_size);
    for (std::size_t r = 0; r < world_size; ++r) ranks.push_back(threads{world, r});
    return ranks;
  }

  /// Calls `f(comm)` on `world_size` new threads, one per rank, and waits for all. When a rank throws, the others are woken
  /// and leave; the exception that came first is rethrown here (never the echoes of it).
  template <class F>
  static void run(std::size_t world_size, F&& f, options settings = {}) {
    std::vector<threads> ranks = make(world_size, settings);
    auto const world = ranks.front().world_;
    {
      std::vector<std::jthread> workers;
      workers.reserve(world_size);
      try {
        for (threads& comm : ranks) {
          workers.emplace_back([&f, &comm] {
            try {
              std::invoke(f, comm);
            } catch (...) {
              comm.world_->leave(comm.rank_, std::current_exception());
            }
          });
        }
      } catch (std::exception const& e) {  // the system refused a thread: those that run must not wait for it
        ranks[workers.size()].abort(e.what());
        workers.clear();
        throw;
      }
    }
    world->rethrow_cause();
  }

  std::size_t rank() const noexcept { return rank_; }
  std::size_t size() const noexcept { return world_->size(); }

  /// Opens this rank's end; does not block.
  /// @throws comm_error if another rank opened a different name at this place in the order
  channel_type channel(std::string_view name) { return channel_type{{world_, &world_->open(rank_, name)}, rank_}; }

  void abort(std::string_view reason) noexcept { world_->abort(rank_, reason); }

  /// One object for all ranks: rank 0 calls `make`, which returns something convertible to std::shared_ptr<T>. Collective.
  template <class T, class Make>
  std::shared_ptr<T> share(Make&& make_one) {
    auto& s = world_->sharing();
    std::shared_ptr<T> object;
    if (rank_ == 0) object = std::invoke(std::forward<Make>(make_one));
    s.meet(rank_, {.op = operation::share, .at = {"share", 0}, .data = &object, .length = sizeof(T)});
    if (rank_ != 0) object = *static_cast<std::shared_ptr<T> const*>(s.slot(0).data);
    s.part();
    return object;
  }

 private:
  threads(std::shared_ptr<detail::thread_world> world, std::size_t rank) : world_{std::move(world)}, rank_{rank} {}

  std::shared_ptr<detail::thread_world> world_;
  std::size_t rank_;
};

}  // namespace nestpipe::comm
