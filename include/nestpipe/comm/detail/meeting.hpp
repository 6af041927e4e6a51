#pragma once
/// @file
/// How ranks that cannot talk to each other yet find together: over another communicator, a file all can see, or TCP.

#include <nestpipe/comm/comm.hpp>
#include <nestpipe/comm/detail/first_failure.hpp>

#include <functional>
#include <memory>

namespace nestpipe::comm::detail {

/// A small, slow communicator, for setting up a fast one and for telling of failures. One thread at a time; `failure` from any.
struct meeting {
  std::size_t rank = 0;
  std::size_t size = 1;
  std::function<void(std::span<std::byte>)> broadcast;   ///< rank 0's bytes reach all; collective. @throws comm_error
  std::function<void(std::string_view)> abort;           ///< tells the others why this rank ends
  std::function<first_failure const*()> failure;         ///< what a rank has told, or null; cheap enough to be polled
};

/// Over a communicator that is there, such as comm::mpi or comm::threads. Collective.
template <communicator C>
meeting meet_over(C host) {
  struct place {
    C host;
    channel_t<C> channel;
    std::shared_ptr<first_failure> told;
  };
  channel_t<C> channel = host.channel("meeting");
  auto told = share<first_failure>(host, [] { return std::make_shared<first_failure>(); });
  auto const p = std::make_shared<place>(place{std::move(host), std::move(channel), std::move(told)});
  meeting m;
  m.rank = p->host.rank();
  m.size = p->host.size();
  m.broadcast = [p](std::span<std::byte> bytes) { p->channel.broadcast(bytes, 0, {"setup", 0}); };
  m.abort = [p](std::string_view reason) {
    p->told->record(p->host.rank(), reason);
    p->host.abort(reason);
  };
  m.failure = [p]() -> first_failure const* {
    if (p->told->set()) return p->told.get();
    if constexpr (requires { p->host.failure(); }) {
      return p->host.failure();
    } else {
      return nullptr;
    }
  };
  return m;
}

}  // namespace nestpipe::comm::detail
