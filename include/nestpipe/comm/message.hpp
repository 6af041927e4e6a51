#pragma once
/// @file
/// The sentences that communicators use, in one place so that all transports speak alike.

#include <nestpipe/comm/comm.hpp>

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>

namespace nestpipe::comm {

/// The collectives of a channel; `share` and `open` are those of communicators.
enum class operation : std::uint8_t { none, all_to_all_v, all_gather, broadcast, all_reduce_sum, barrier, share, open };

constexpr char const* name_of(operation op) noexcept {
  switch (op) {
    case operation::all_to_all_v:
      return "all_to_all_v";
    case operation::all_gather:
      return "all_gather";
    case operation::broadcast:
      return "broadcast";
    case operation::all_reduce_sum:
      return "all_reduce_sum";
    case operation::barrier:
      return "barrier";
    case operation::share:
      return "share";
    case operation::open:
      return "opening";
    case operation::none:
      break;
  }
  return "no collective";
}

namespace detail {

/// "exchange_rows, step 17"
inline std::string text(call_site at) {
  return std::string{at.stage == nullptr ? "?" : at.stage} + ", step " + std::to_string(at.step);
}

/// "0.25 s"
inline std::string text(std::chrono::nanoseconds time) {
  auto const ms = std::chrono::duration_cast<std::chrono::milliseconds>(time).count();
  std::string fraction = std::to_string(1000 + ms % 1000).substr(1);
  while (!fraction.empty() && fraction.back() == '0') fraction.pop_back();
  return std::to_string(ms / 1000) + (fraction.empty() ? "" : "." + fraction) + " s";
}

/// The echo of another rank's (or this rank's own) abort: "rank 2 failed: <reason> (rank 0 was in exchange_rows, step 17)".
inline aborted echo(std::size_t failed, std::string_view reason, std::size_t rank, call_site at) {
  return aborted{failed, "rank " + std::to_string(failed) + " failed: " + std::string{reason},
                 "rank " + std::to_string(rank) + " was in " + text(at)};
}

/// A collective that did not end in time. `missing`: which ranks have not arrived, as far as known; may be empty.
inline comm_error overdue(operation op, std::string_view channel, std::chrono::nanoseconds deadline, std::size_t rank,
                          call_site at, std::string_view missing) {
  std::string where = "rank " + std::to_string(rank) + ", " + text(at);
  if (!missing.empty()) where.append(", still waiting for ").append(missing);
  return comm_error{
      std::string{name_of(op)} + " on channel '" + std::string{channel} + "' did not end within " + text(deadline),
      where, "look at why that rank is late, or raise the deadline"};
}

/// A call whose arguments cannot be right, whatever the other ranks do.
inline comm_error misuse(operation op, std::string_view channel, std::size_t rank, call_site at,
                         std::string_view what) {
  return comm_error{std::string{name_of(op)} + " on channel '" + std::string{channel} + "': " + std::string{what},
                    "rank " + std::to_string(rank) + ", " + text(at)};
}

inline std::size_t total(std::span<std::size_t const> sizes) {
  std::size_t sum = 0;
  for (std::size_t const n : sizes) sum += n;
  return sum;
}

/// The checks on arguments that every transport makes before it talks to anybody. @throws comm_error
inline void check_all_to_all_v(std::size_t size, std::string_view channel, std::size_t rank, call_site at,
                               std::size_t send, std::span<std::size_t const> send_bytes, std::size_t recv,
                               std::span<std::size_t const> recv_bytes) {
  if (send_bytes.size() != size || recv_bytes.size() != size)
    throw misuse(operation::all_to_all_v, channel, rank, at, "needs one send and one receive size per rank");
  if (total(send_bytes) > send)
    throw misuse(operation::all_to_all_v, channel, rank, at, "the send sizes exceed the send buffer");
  if (total(recv_bytes) > recv)
    throw misuse(operation::all_to_all_v, channel, rank, at, "the receive sizes exceed the receive buffer");
  if (send_bytes[rank] != recv_bytes[rank])
    throw misuse(operation::all_to_all_v, channel, rank, at,
                 "sends " + std::to_string(send_bytes[rank]) + " bytes to itself and expects " +
                     std::to_string(recv_bytes[rank]));
}

inline void check_all_gather(std::size_t size, std::string_view channel, std::size_t rank, call_site at,
                             std::size_t send, std::size_t recv) {
  if (recv / size != send || recv % size != 0)
    throw misuse(operation::all_gather, channel, rank, at,
                 "the receive buffer must hold " + std::to_string(size) + " x " + std::to_string(send) +
                     " bytes, not " + std::to_string(recv));
}

inline void check_broadcast(std::size_t size, std::string_view channel, std::size_t rank, call_site at,
                            std::size_t root) {
  if (root >= size)
    throw misuse(operation::broadcast, channel, rank, at, "root " + std::to_string(root) + " is not a rank");
}

}  // namespace detail
}  // namespace nestpipe::comm
