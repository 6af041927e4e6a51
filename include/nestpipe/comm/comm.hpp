#pragma once
/// @file
/// What a communicator is. Ranks talk through named channels; calls on one channel happen in the same order on all ranks.
///
/// | requirement on a communicator C | meaning |
/// |---|---|
/// | `c.rank()`, `c.size()` | this rank, number of ranks |
/// | `c.channel(name)` | opens the channel; collective: same names, same order on all ranks; channels are independent of each other |
/// | `c.abort(reason)` | wakes every rank that waits in any channel; they throw comm_error naming this rank and the reason; noexcept |
///
/// | requirement on a channel H (all calls are collective and block until this rank's part is done) | meaning |
/// |---|---|
/// | `h.all_to_all_v(send, send_bytes, recv, recv_bytes, site)` | bytes for rank r lie contiguous in rank order in `send`; likewise received |
/// | `h.all_gather(send, recv, site)` | equal sizes; recv holds size() * send.size() bytes in rank order |
/// | `h.broadcast(bytes, root, site)` | root's bytes reach all |
/// | `h.all_reduce_sum(floats, site)` | element sums over ranks, in an order the transport chooses (reduction::native) |
/// | `h.barrier(site)` | |
///
/// A model must also: report a collective that does not end within its deadline as comm_error with rank, stage and step;
/// block in the operating system instead of spinning; move the self block itself; accept zero sizes everywhere.
/// Optional: `c.template share<T>(make)` returns one `std::shared_ptr<T>` to all ranks of this process (collective among
/// them; `make()` runs once); without it every rank makes its own.

#include <nestpipe/core/error.hpp>

#include <concepts>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
#include <vector>

namespace nestpipe::comm {

/// Where a collective is called from; appears in messages.
struct call_site {
  char const* stage = "setup";
  std::uint64_t step = 0;
};

/// What the ranks throw that did not fail themselves: the echo of another rank's failure. Report the cause instead where
/// both are at hand.
class aborted : public comm_error {
 public:
  aborted(std::size_t failed_rank, std::string_view what, std::string_view where)
      : comm_error{what, where}, failed_rank_{failed_rank} {}
  std::size_t failed_rank() const noexcept { return failed_rank_; }

 private:
  std::size_t failed_rank_;
};

template <class H>
concept has_all_to_all_v = requires(H& h, std::span<std::byte const> s, std::span<std::size_t const> n,
                                    std::span<std::byte> r, call_site at) {
  h.all_to_all_v(s, n, r, n, at);
};
template <class H>
concept has_all_gather = requires(H& h, std::span<std::byte const> s, std::span<std::byte> r, call_site at) {
  h.all_gather(s, r, at);
};
template <class H>
concept has_broadcast = requires(H& h, std::span<std::byte> r, std::size_t root, call_site at) {
  h.broadcast(r, root, at);
};
template <class H>
concept has_all_reduce_sum = requires(H& h, std::span<float> v, call_site at) {
  h.all_reduce_sum(v, at);
};
template <class H>
concept has_barrier = requires(H& h, call_site at) {
  h.barrier(at);
};
template <class H>
concept channel =
    has_all_to_all_v<H> && has_all_gather<H> && has_broadcast<H> && has_all_reduce_sum<H> && has_barrier<H>;

/// A channel with declarations only: what other families name in their own requirements.
struct channel_archetype {
  void all_to_all_v(std::span<std::byte const>, std::span<std::size_t const>, std::span<std::byte>,
                    std::span<std::size_t const>, call_site);
  void all_gather(std::span<std::byte const>, std::span<std::byte>, call_site);
  void broadcast(std::span<std::byte>, std::size_t, call_site);
  void all_reduce_sum(std::span<float>, call_site);
  void barrier(call_site);
};
static_assert(channel<channel_archetype>);

template <class C>
concept has_rank_and_size = requires(C const& c) {
  { c.rank() } -> std::convertible_to<std::size_t>;
  { c.size() } -> std::convertible_to<std::size_t>;
};
template <class C>
concept has_channels = requires(C& c, std::string_view name) {
  c.channel(name);
};
template <class C>
concept has_abort = requires(C& c, std::string_view reason) {
  { c.abort(reason) }
  noexcept;
};
template <class C>
using channel_t = decltype(std::declval<C&>().channel(std::string_view{}));
template <class C>
concept communicator =
    has_rank_and_size<C> && has_channels<C> && has_abort<C> && channel<channel_t<C>> && std::copy_constructible<C>;

/// One sentence per requirement, for the boundary of the library.
template <class C>
consteval bool audit() {
  static_assert(has_rank_and_size<C>, "comm policy [1/4]: provide rank() and size()");
  static_assert(has_channels<C>, "comm policy [2/4]: provide channel(std::string_view name)");
  static_assert(has_abort<C>, "comm policy [3/4]: provide noexcept abort(std::string_view reason)");
  if constexpr (has_channels<C>)
    static_assert(channel<channel_t<C>>,
                  "comm policy [4/4]: the channel needs all_to_all_v, all_gather, broadcast, all_reduce_sum and "
                  "barrier (see comm/comm.hpp)");
  return true;
}

/// Typed all-to-all: counts in elements, blocks contiguous in rank order. Temporary count arrays are reused by the caller.
struct byte_counts {
  std::vector<std::size_t> send, recv;
};
template <channel H, class T>
void all_to_all_v(H& h, std::span<T const> send, std::span<std::size_t const> send_count, std::span<T> recv,
                  std::span<std::size_t const> recv_count, byte_counts& scratch, call_site at) {
  scratch.send.resize(send_count.size());
  scratch.recv.resize(recv_count.size());
  for (std::size_t r = 0; r < send_count.size(); ++r) {
    scratch.send[r] = send_count[r] * sizeof(T);
    scratch.recv[r] = recv_count[r] * sizeof(T);
  }
  h.all_to_all_v(std::as_bytes(send), std::span<std::size_t const>{scratch.send}, std::as_writable_bytes(recv),
                 std::span<std::size_t const>{scratch.recv}, at);
}

/// One object for all ranks of this process where the communicator can do so, else one each.
template <class T, class C, class Make>
std::shared_ptr<T> share(C& c, Make make) {
  if constexpr (requires { c.template share<T>(make); }) {
    return c.template share<T>(make);
  } else {
    return make();
  }
}

}  // namespace nestpipe::comm
