#pragma once
/// @file
/// One digest of what all ranks hold together.

#include <nestpipe/comm/comm.hpp>
#include <nestpipe/core/digest.hpp>
#include <nestpipe/core/error.hpp>

#include <array>
#include <string>
#include <vector>

namespace nestpipe::engine {

/// The sum of all ranks' rows, and of the dense parameters once. Collective.
/// @param own  this rank's rows  @param replica  its dense parameters
/// @throws error if the dense parameters of two ranks differ
template <class Channel>
digest agreed_digest(Channel& channel, digest const& own, digest const& replica, std::size_t world_size, std::uint64_t step) {
  std::array<std::uint64_t, 4> const mine{own.low(), own.high(), replica.low(), replica.high()};
  std::vector<std::array<std::uint64_t, 4>> all(world_size);
  channel.all_gather(std::as_bytes(std::span{mine}), std::as_writable_bytes(std::span{all}), {"digest", step});
  digest sum = replica;
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (digest::from_words(all[r][2], all[r][3]) != replica)
      throw error{"dense parameters differ between ranks", "rank " + std::to_string(r) + ", step " + std::to_string(step), "report this: replicas must be equal"};
    sum += digest::from_words(all[r][0], all[r][1]);
  }
  return sum;
}

}  // namespace nestpipe::engine
