#pragma once
/// @file
/// Ranks that meet over TCP, as the environment variables of torchrun and its kin tell: RANK, WORLD_SIZE, MASTER_ADDR, MASTER_PORT.

#include <nestpipe/comm/detail/meeting.hpp>
#include <nestpipe/comm/message.hpp>

#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <charconv>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

namespace nestpipe::comm::detail {

/// A star around rank 0. Messages go outwards; a failure goes to rank 0, which passes it on. A connection that closes is a failure too.
class tcp_meeting {
 public:
  /// Collective: returns when all ranks are connected. @throws comm_error
  tcp_meeting(std::string host, std::string port, std::size_t rank, std::size_t size, std::chrono::nanoseconds deadline)
      : host_{std::move(host)}, port_{std::move(port)}, rank_{rank}, size_{size}, until_{std::chrono::steady_clock::now() + deadline} {
    require(size > 0 && rank < size, "rank " + std::to_string(rank) + " of " + std::to_string(size) + " ranks", "RANK, WORLD_SIZE", "ranks count from 0");
    try {
      if (size_ > 1) rank_ == 0 ? listen_for_all() : connect_to_first();
    } catch (...) {
      close_all();
      throw;
    }
  }
  tcp_meeting(tcp_meeting const&) = delete;
  tcp_meeting& operator=(tcp_meeting const&) = delete;
  ~tcp_meeting() {
    for (int const s : peers_) {
      if (s >= 0 && !told_.set()) send_frame(s, kind::leaving, {});
    }
    close_all();
  }

  void broadcast(std::span<std::byte> bytes) {
    std::lock_guard const guard{mutex_};
    if (rank_ == 0) {
      for (std::size_t r = 1; r < size_; ++r) send_frame(peers_[r], kind::message, bytes);
      return;
    }
    frame f;
    do {
      receive_frame(peers_[0], 0, f, true);
      if (told_.set()) throw echo(told_.rank(), told_.reason(), rank_, {"setup", 0});
    } while (f.what != kind::message);
    if (f.bytes.size() != bytes.size()) throw comm_error{"a message of another size", where(), "start all ranks with the same program"};
    if (!bytes.empty()) std::memcpy(bytes.data(), f.bytes.data(), bytes.size());
  }

  void abort(std::string_view reason) {
    std::lock_guard const guard{mutex_};
    if (told_.record(rank_, reason)) pass_on(rank_);
  }

  first_failure const* failure() {
    if (told_.set()) return &told_;
    std::unique_lock const guard{mutex_, std::try_to_lock};
    if (!guard.owns_lock()) return nullptr;  // somebody else is looking
    for (std::size_t r = 0; r < peers_.size() && !told_.set(); ++r) {
      if (peers_[r] < 0) continue;
      pollfd p{peers_[r], POLLIN, 0};
      frame f;
      if (::poll(&p, 1, 0) > 0) receive_frame(peers_[r], r, f, false);
    }
    return told_.set() ? &told_ : nullptr;
  }

 private:
  enum class kind : std::uint32_t { hello, message, failed, leaving };
  struct header {
    kind what;
    std::uint32_t rank;
    std::uint64_t length;
  };
  struct frame {
    kind what = kind::hello;
    std::vector<std::byte> bytes;
  };

  std::string where() const { return host_ + ":" + port_ + ", rank " + std::to_string(rank_); }
  [[noreturn]] void give_up(std::string const& what) const {
    throw comm_error{what, where(), "start all ranks with the same MASTER_ADDR and MASTER_PORT; NESTPIPE_PORT names another port"};
  }
  void check_time(std::string const& missing) const {
    if (std::chrono::steady_clock::now() > until_) give_up(missing);
  }

  template <class F>
  bool with_addresses(bool passive, F f) const {
    addrinfo hints{};
    hints.ai_family = AF_UNSPEC;
    hints.ai_socktype = SOCK_STREAM;
    hints.ai_flags = passive ? AI_PASSIVE : 0;
    addrinfo* list = nullptr;
    int const code = ::getaddrinfo(passive ? nullptr : host_.c_str(), port_.c_str(), &hints, &list);
    if (code != 0) give_up(std::string{"cannot look up the address: "} + ::gai_strerror(code));
    bool done = false;
    for (addrinfo* a = list; a != nullptr && !done; a = a->ai_next) {
      int const s = ::socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC, a->ai_protocol);
      if (s < 0) continue;
      done = f(s, *a);
      if (!done) ::close(s);
    }
    ::freeaddrinfo(list);
    return done;
  }

  void listen_for_all() {
    int listener = -1;
    bool const bound = with_addresses(true, [&](int s, addrinfo const& a) {
      int const on = 1;
      ::setsockopt(s, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
      if (::bind(s, a.ai_addr, a.ai_addrlen) != 0 || ::listen(s, static_cast<int>(size_)) != 0) return false;
      listener = s;
      return true;
    });
    if (!bound) give_up(std::string{"cannot listen: "} + std::strerror(errno));
    peers_.assign(size_, -1);
    for (std::size_t there = 1; there < size_;) {
      pollfd p{listener, POLLIN, 0};
      int const ready = ::poll(&p, 1, 100);
      if (ready <= 0) {
        if (std::chrono::steady_clock::now() <= until_) continue;
        ::close(listener);
        give_up("only " + std::to_string(there) + " of " + std::to_string(size_) + " ranks came");
      }
      int const s = ::accept4(listener, nullptr, nullptr, SOCK_CLOEXEC);
      header h{};
      if (s < 0) continue;
      if (!read_all(s, &h, sizeof h) || h.what != kind::hello || h.rank == 0 || h.rank >= size_ || peers_[h.rank] >= 0) {
        ::close(s);  // not one of ours
        continue;
      }
      peers_[h.rank] = prepared(s);
      ++there;
    }
    ::close(listener);
  }

  void connect_to_first() {
    peers_.assign(1, -1);
    while (peers_[0] < 0) {
      with_addresses(false, [&](int s, addrinfo const& a) {
        if (::connect(s, a.ai_addr, a.ai_addrlen) != 0) return false;
        peers_[0] = prepared(s);
        return true;
      });
      if (peers_[0] >= 0) break;
      check_time("rank 0 does not answer");
      std::this_thread::sleep_for(std::chrono::milliseconds{50});
    }
    send_frame(peers_[0], kind::hello, {});
  }

  static int prepared(int s) {
    int const on = 1;
    ::setsockopt(s, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    return s;
  }

  static bool read_all(int s, void* to, std::size_t n) {
    for (auto* at = static_cast<char*>(to); n != 0;) {
      ssize_t const got = ::recv(s, at, n, 0);
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      at += got;
      n -= static_cast<std::size_t>(got);
    }
    return true;
  }
  static bool write_all(int s, void const* from, std::size_t n) {
    for (auto const* at = static_cast<char const*>(from); n != 0;) {
      ssize_t const put = ::send(s, at, n, MSG_NOSIGNAL);
      if (put < 0 && errno == EINTR) continue;
      if (put <= 0) return false;
      at += put;
      n -= static_cast<std::size_t>(put);
    }
    return true;
  }

  void send_frame(int s, kind what, std::span<std::byte const> bytes) {
    header const h{what, static_cast<std::uint32_t>(what == kind::failed ? told_.rank() : rank_), bytes.size()};
    if (!write_all(s, &h, sizeof h) || !write_all(s, bytes.data(), bytes.size())) {
      if (what == kind::message || what == kind::hello) give_up("a rank is gone");
    }
  }

  void receive_frame(int& s, std::size_t from, frame& f, bool must) {
    header h{};
    if (!read_all(s, &h, sizeof h) || h.length > (1U << 20)) {
      ::close(std::exchange(s, -1));
      if (told_.record(from, "it is gone: its connection closed")) pass_on(from);
      return;
    }
    f.what = h.what;
    if (h.what == kind::leaving) {  // done, before us
      ::close(std::exchange(s, -1));
      if (must) give_up("rank 0 has left");
      return;
    }
    f.bytes.resize(h.length);
    if (!read_all(s, f.bytes.data(), f.bytes.size()) && must) give_up("rank 0 is gone");
    if (h.what == kind::failed && told_.record(h.rank, {reinterpret_cast<char const*>(f.bytes.data()), f.bytes.size()})) pass_on(from);
  }

  void pass_on(std::size_t except) {
    std::string const& why = told_.reason();
    for (std::size_t r = 0; r < peers_.size(); ++r) {
      if (peers_[r] >= 0 && (rank_ != 0 || r != except)) send_frame(peers_[r], kind::failed, std::as_bytes(std::span{why.data(), why.size()}));
    }
  }

  void close_all() {
    for (int& s : peers_) {
      if (s >= 0) ::close(std::exchange(s, -1));
    }
  }

  std::string host_, port_;
  std::size_t rank_, size_;
  std::chrono::steady_clock::time_point until_;
  std::mutex mutex_;
  std::vector<int> peers_;  // rank 0: by rank; others: the first
  first_failure told_;
};

inline meeting meet_over_tcp(std::string const& host, std::string const& port, std::size_t rank, std::size_t size, std::chrono::nanoseconds deadline) {
  auto const place = std::make_shared<tcp_meeting>(host, port, rank, size, deadline);
  meeting m;
  m.rank = rank;
  m.size = size;
  m.broadcast = [place](std::span<std::byte> bytes) { place->broadcast(bytes); };
  m.abort = [place](std::string_view reason) { place->abort(reason); };
  m.failure = [place] { return place->failure(); };
  return m;
}

/// A number from the environment. @throws config_error when it is missing or no number
inline std::size_t environment_number(char const* name) {
  char const* const text = std::getenv(name);
  std::size_t n = 0;
  if (text == nullptr || std::from_chars(text, text + std::strlen(text), n).ptr != text + std::strlen(text) || *text == '\0')
    throw config_error{std::string{"the environment variable "} + name + (text == nullptr ? " is not set" : " is no number"), text == nullptr ? "" : text,
                       "start with torchrun, or set RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT"};
  return n;
}

/// RANK, WORLD_SIZE, MASTER_ADDR and MASTER_PORT. The launcher itself may listen on MASTER_PORT, so rank 0 listens on the next one, or
/// on NESTPIPE_PORT where that is set. @throws config_error, comm_error
inline meeting meet_by_environment(std::chrono::nanoseconds deadline) {
  std::size_t const rank = environment_number("RANK"), size = environment_number("WORLD_SIZE");
  char const* const host = std::getenv("MASTER_ADDR");
  char const* const own = std::getenv("NESTPIPE_PORT");
  require(host != nullptr || size == 1, "the environment variable MASTER_ADDR is not set", {}, "start with torchrun, or set it to the machine of rank 0");
  std::size_t const port = size == 1 ? 0 : own != nullptr ? environment_number("NESTPIPE_PORT") : environment_number("MASTER_PORT") + 1;
  return meet_over_tcp(host == nullptr ? "localhost" : host, std::to_string(port), rank, size, deadline);
}

}  // namespace nestpipe::comm::detail
