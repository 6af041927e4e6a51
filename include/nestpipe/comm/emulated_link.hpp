#pragma once
/// @file
/// A communicator made slow on purpose: the real bytes move, and each transfer then also takes the time that a link of the
/// given latency and bandwidth would need. For measuring what a schedule hides; every figure made with it carries label().

#include <nestpipe/comm/comm.hpp>
#include <nestpipe/comm/detail/emulated_network.hpp>

#include <string>

namespace nestpipe::comm {

/// A decorator that meets the communicator concept. Every rank has one link out and one link in, shared by all the channels
/// chosen. A message of n bytes from rank s to rank r occupies the outgoing link of s and the incoming link of r together
/// for latency + n / bandwidth; messages queue. Collectives send directly: all_to_all_v and all_gather one message to each
/// other rank with bytes for it, all_reduce_sum two of a W-th of the vector each, broadcast one from the root to each other
/// rank, barrier an empty one to each. A rank's own share takes no time.
///
/// Callers sleep until their last message of the collective has passed (never busy). Where all ranks share memory
/// (comm::threads) the queues are exact; under MPI a rank knows its own messages only and queues them on its own two links
/// once the real exchange has ended.
template <class Comm>
class emulated_link {
  static_assert(audit<Comm>());

 public:
  using options = link_options;

  class channel_type {
   public:
    channel_type(channel_t<Comm> inner, std::shared_ptr<detail::emulated_network> network, detail::emulated_channel* link, std::size_t rank)
        : inner_{std::move(inner)}, network_{std::move(network)}, link_{link}, rank_{rank} {}

    void all_to_all_v(std::span<std::byte const> send, std::span<std::size_t const> send_bytes, std::span<std::byte> recv,
                      std::span<std::size_t const> recv_bytes, call_site at) {
      timed([&](auto& plan) { plan.all_to_all(send_bytes, recv_bytes); }, [&] { inner_.all_to_all_v(send, send_bytes, recv, recv_bytes, at); });
    }
    void all_gather(std::span<std::byte const> send, std::span<std::byte> recv, call_site at) {
      timed([&](auto& plan) { plan.each_to_each(send.size(), 1); }, [&] { inner_.all_gather(send, recv, at); });
    }
    void broadcast(std::span<std::byte> bytes, std::size_t root, call_site at) {
      timed([&](auto& plan) { plan.from_one(root, bytes.size()); }, [&] { inner_.broadcast(bytes, root, at); });
    }
    void all_reduce_sum(std::span<float> values, call_site at) {
      timed([&](auto& plan) { plan.each_to_each((values.size_bytes() + plan.size() - 1) / plan.size(), 2); }, [&] { inner_.all_reduce_sum(values, at); });
    }
    void barrier(call_site at) {
      timed([&](auto& plan) { plan.empty_messages(); }, [&] { inner_.barrier(at); });
    }

   private:
    // `describe` tells the network what this rank sends and receives; all ranks have done so when `move` returns.
    template <class Describe, class Move>
    void timed(Describe describe, Move move) {
      if (link_ == nullptr) return move();
      std::uint64_t const round = network_->post(*link_, rank_, describe);
      move();
      network_->wait(*link_, rank_, round);
    }

    channel_t<Comm> inner_;
    std::shared_ptr<detail::emulated_network> network_;
    detail::emulated_channel* link_;  // null: this channel is as fast as it is
    std::size_t rank_;
  };

  /// Collective over the ranks. Latency 0 with endless bandwidth leaves everything as it is.
  /// @throws config_error on a negative latency or a bandwidth that is not positive
  emulated_link(Comm inner, link_options settings) : inner_{std::move(inner)}, settings_{std::move(settings)} {
    require(settings_.latency >= 0 && settings_.latency < 1e6, "the latency of an emulated link must be 0 or more seconds");
    require(settings_.bytes_per_second > 0, "the bandwidth of an emulated link must be positive");
    network_ = comm::share<detail::emulated_network>(inner_, [&] { return std::make_shared<detail::emulated_network>(inner_.size(), settings_); });
  }

  std::size_t rank() const { return inner_.rank(); }
  std::size_t size() const { return inner_.size(); }
  channel_type channel(std::string_view name) {
    return channel_type{inner_.channel(name), network_, settings_.covers(name) ? &network_->open(name) : nullptr, inner_.rank()};
  }
  void abort(std::string_view reason) noexcept {
    inner_.abort(reason);
    network_->wake();
  }
  template <class T, class Make>
  std::shared_ptr<T> share(Make make) {
    return comm::share<T>(inner_, std::move(make));
  }

  link_options const& settings() const { return settings_; }
  /// What this rank's links have carried so far, over all chosen channels. For one caller while no collective runs.
  link_traffic traffic() const { return network_->traffic(inner_.rank()); }
  /// For titles of figures: "emulated link, 50 us a message, 125 MB/s, channels exchange".
  std::string label() const { return settings_.label(); }

 private:
  Comm inner_;
  link_options settings_;
  std::shared_ptr<detail::emulated_network> network_;
};

}  // namespace nestpipe::comm
