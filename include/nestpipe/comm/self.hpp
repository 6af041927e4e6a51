#pragma once
/// @file
/// A world of one rank: nothing is sent, the self block is copied.

#include <nestpipe/comm/comm.hpp>
#include <nestpipe/comm/message.hpp>

#include <cstddef>
#include <cstring>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <string_view>

namespace nestpipe::comm {

/// The communicator of a program that runs as one rank. Models @ref communicator; see comm/comm.hpp.
class self {
  /// An abort stops later collectives here too, so that lanes of a failed run end the same way as with many ranks.
  struct failure {
    std::mutex mutex;
    bool set = false;
    std::string reason;

    void check(call_site at) {
      std::scoped_lock lock{mutex};
      if (set) throw detail::echo(0, reason, 0, at);
    }
  };

 public:
  class channel_type {
   public:
    channel_type(std::shared_ptr<failure> failed, std::string_view name) : failed_{std::move(failed)}, name_{name} {}

    void all_to_all_v(std::span<std::byte const> send, std::span<std::size_t const> send_bytes,
                      std::span<std::byte> recv, std::span<std::size_t const> recv_bytes, call_site at) {
      failed_->check(at);
      detail::check_all_to_all_v(1, name_, 0, at, send.size(), send_bytes, recv.size(), recv_bytes);
      copy(send.first(send_bytes[0]), recv);
    }
    void all_gather(std::span<std::byte const> send, std::span<std::byte> recv, call_site at) {
      failed_->check(at);
      detail::check_all_gather(1, name_, 0, at, send.size(), recv.size());
      copy(send, recv);
    }
    void broadcast(std::span<std::byte>, std::size_t root, call_site at) {
      failed_->check(at);
      detail::check_broadcast(1, name_, 0, at, root);
    }
    void all_reduce_sum(std::span<float>, call_site at) { failed_->check(at); }
    void barrier(call_site at) { failed_->check(at); }

   private:
    static void copy(std::span<std::byte const> from, std::span<std::byte> to) {
      if (!from.empty() && from.data() != to.data()) std::memmove(to.data(), from.data(), from.size());
    }

    std::shared_ptr<failure> failed_;
    std::string name_;
  };

  std::size_t rank() const noexcept { return 0; }
  std::size_t size() const noexcept { return 1; }
  channel_type channel(std::string_view name) { return channel_type{failed_, name}; }

  /// No other rank waits; later collectives throw comm_error with this reason.
  void abort(std::string_view reason) noexcept {
    try {
      std::scoped_lock lock{failed_->mutex};
      if (failed_->set) return;
      failed_->set = true;
      failed_->reason = reason;
    } catch (...) {  // without memory for the reason the flag alone must do
    }
  }

 private:
  std::shared_ptr<failure> failed_ = std::make_shared<failure>();
};

}  // namespace nestpipe::comm
