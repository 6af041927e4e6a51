#pragma once
/// @file
/// The links of comm::emulated_link: who sends how much to whom, and when it is through.

#include <nestpipe/comm/comm.hpp>

#include <algorithm>
#include <array>
#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <limits>
#include <memory>
#include <mutex>
#include <span>
#include <string>
#include <vector>

namespace nestpipe::comm {

/// An emulated link.
struct link_options {
  double latency = 0;                                                   ///< seconds a message, whatever its size
  double bytes_per_second = std::numeric_limits<double>::infinity();
  std::vector<std::string> channels{};                                  ///< those that use the link; empty: all

  bool active() const { return latency > 0 || bytes_per_second < std::numeric_limits<double>::infinity(); }
  bool covers(std::string_view channel) const {
    return active() && (channels.empty() || std::find(channels.begin(), channels.end(), channel) != channels.end());
  }
  std::string label() const {
    if (!active()) return "no emulated link";
    auto const number = [](double x, std::string_view unit) {
      auto const tenths = static_cast<std::uint64_t>(x * 10 + 0.5);
      return std::to_string(tenths / 10) + (tenths % 10 != 0 ? "." + std::to_string(tenths % 10) : std::string{}) + std::string{unit};
    };
    std::string text = "emulated link, " + number(latency * 1e6, " us a message");
    if (bytes_per_second < std::numeric_limits<double>::infinity())
      text += bytes_per_second < 1e6 ? number(bytes_per_second / 1e3, " kB/s").insert(0, ", ") : number(bytes_per_second / 1e6, " MB/s").insert(0, ", ");
    for (std::size_t c = 0; c < channels.size(); ++c) text += (c == 0 ? ", channels " : " ") + channels[c];
    return text;
  }
};

/// What one rank's links have carried.
struct link_traffic {
  std::uint64_t messages_out = 0, bytes_out = 0, bytes_in = 0;
  double seconds = 0;  ///< from the arrival of the last rank to the rank's own last message, summed over collectives
};

namespace detail {

using link_clock = std::chrono::steady_clock;

/// One channel's collectives in flight. Ranks are at most one round apart: no rank ends a round that another has not begun.
struct emulated_channel {
  static constexpr std::uint64_t no_message = ~std::uint64_t{0};

  struct round {
    std::uint64_t number = ~std::uint64_t{0};
    std::size_t posted = 0;
    bool planned = false;
    std::vector<std::uint64_t> bytes;       // (from, to)
    std::vector<std::uint32_t> repeats;     // (from): messages of that size to each
    std::vector<link_clock::time_point> ends;  // (rank)
    link_clock::time_point arrived;         // of the last rank
  };

  std::string name;
  std::vector<std::uint64_t> rounds;  // (rank) begun so far
  std::array<round, 4> ring;
};

class emulated_network {
 public:
  emulated_network(std::size_t size, link_options const& settings)
      : size_{size}, latency_{settings.latency}, rate_{settings.bytes_per_second}, out_free_(size), in_free_(size), traffic_(size) {}

  /// The same object for every rank that shares this network.
  emulated_channel& open(std::string_view name) {
    std::scoped_lock const lock{mutex_};
    for (auto const& c : channels_) {
      if (c->name == name) return *c;
    }
    channels_.push_back(std::make_unique<emulated_channel>());
    auto& c = *channels_.back();
    c.name = name;
    c.rounds.assign(size_, 0);
    return c;
  }

  /// What a rank says about a collective. Sizes are of the rank's own row (what it sends) and column (what it receives).
  class description {
   public:
    description(emulated_channel::round& r, std::size_t rank, std::size_t size) : round_{r}, rank_{rank}, size_{size} {}
    std::size_t size() const { return size_; }
    void all_to_all(std::span<std::size_t const> send, std::span<std::size_t const> recv) {
      for (std::size_t r = 0; r < std::min({size_, send.size(), recv.size()}); ++r) {
        set(rank_, r, send[r] == 0 ? emulated_channel::no_message : send[r]);
        set(r, rank_, recv[r] == 0 ? emulated_channel::no_message : recv[r]);
      }
    }
    void each_to_each(std::size_t bytes, std::uint32_t repeats) {
      for (std::size_t r = 0; r < size_; ++r) {
        set(rank_, r, bytes == 0 ? emulated_channel::no_message : bytes);
        set(r, rank_, bytes == 0 ? emulated_channel::no_message : bytes);
        round_.repeats[r] = repeats;
      }
    }
    void from_one(std::size_t root, std::size_t bytes) {
      for (std::size_t r = 0; r < size_ && root < size_ && bytes != 0; ++r) set(root, r, bytes);
    }
    void empty_messages() {
      for (std::size_t r = 0; r < size_; ++r) {
        set(rank_, r, 0);
        set(r, rank_, 0);
      }
    }

   private:
    void set(std::size_t from, std::size_t to, std::uint64_t bytes) {
      if (from != to) round_.bytes[from * size_ + to] = bytes;
    }
    emulated_channel::round& round_;
    std::size_t rank_, size_;
  };

  /// A rank comes to a collective. @return its number, for wait
  template <class Describe>
  std::uint64_t post(emulated_channel& channel, std::size_t rank, Describe& describe) {
    std::scoped_lock const lock{mutex_};
    std::uint64_t const number = channel.rounds[rank]++;
    auto& r = channel.ring[number % channel.ring.size()];
    if (r.number != number) {
      r.number = number;
      r.posted = 0;
      r.planned = false;
      r.bytes.assign(size_ * size_, emulated_channel::no_message);
      r.repeats.assign(size_, 1);
      r.ends.resize(size_);
    }
    description d{r, rank, size_};
    describe(d);
    ++r.posted;
    r.arrived = link_clock::now();
    return number;
  }

  /// The real bytes have moved: sleeps until the rank's last message is through, or wake().
  void wait(emulated_channel& channel, std::size_t rank, std::uint64_t number) {
    std::unique_lock lock{mutex_};
    auto& r = channel.ring[number % channel.ring.size()];
    if (!r.planned) {
      // Without shared memory the others' arrival is only known by the end of the real exchange.
      if (r.posted != size_) r.arrived = link_clock::now();
      plan(r);
      r.planned = true;
    }
    auto const end = r.ends[rank];
    traffic_[rank].seconds += std::chrono::duration<double>(end - r.arrived).count();
    woken_.wait_until(lock, end, [&] { return stopped_; });
  }

  void wake() noexcept {
    {
      std::scoped_lock const lock{mutex_};
      stopped_ = true;
    }
    woken_.notify_all();
  }

  link_traffic traffic(std::size_t rank) const {
    std::scoped_lock const lock{mutex_};
    return traffic_[rank];
  }

 private:
  // Everybody sends to the next rank, then to the one after it, and so on: as few waits as there can be for equal sizes.
  void plan(emulated_channel::round& r) {
    r.ends.assign(size_, r.arrived);
    std::uint32_t const repeats = *std::max_element(r.repeats.begin(), r.repeats.end());
    for (std::uint32_t k = 0; k < repeats; ++k) {
      for (std::size_t d = 1; d < size_; ++d) {
        for (std::size_t from = 0; from < size_; ++from) {
          std::size_t const to = (from + d) % size_;
          std::uint64_t const bytes = r.bytes[from * size_ + to];
          if (bytes == emulated_channel::no_message) continue;
          auto const begin = std::max({r.arrived, out_free_[from], in_free_[to]});
          auto const end = begin + std::chrono::duration_cast<link_clock::duration>(std::chrono::duration<double>(latency_ + static_cast<double>(bytes) / rate_));
          out_free_[from] = in_free_[to] = end;
          r.ends[from] = std::max(r.ends[from], end);
          r.ends[to] = std::max(r.ends[to], end);
          traffic_[from].messages_out += 1;
          traffic_[from].bytes_out += bytes;
          traffic_[to].bytes_in += bytes;
        }
      }
    }
  }

  std::size_t size_;
  double latency_, rate_;
  mutable std::mutex mutex_;
  std::condition_variable woken_;
  bool stopped_ = false;
  std::vector<link_clock::time_point> out_free_, in_free_;
  std::vector<link_traffic> traffic_;
  std::vector<std::unique_ptr<emulated_channel>> channels_;
};

}  // namespace detail
}  // namespace nestpipe::comm
