#pragma once
/// @file
/// Ranks that meet at a file: on one machine, or on a file system that all of them see.

#include <nestpipe/comm/detail/meeting.hpp>
#include <nestpipe/comm/message.hpp>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <fstream>
#include <mutex>
#include <string>
#include <thread>

namespace nestpipe::comm::detail {

/// Rank 0 writes its n-th message to "<path>.<n>", the others wait for it; a rank that fails writes "<path>.failed". Rank 0 removes
/// all of them at the end.
class file_meeting {
 public:
  file_meeting(std::filesystem::path path, std::size_t rank, std::size_t size, std::chrono::nanoseconds deadline)
      : path_{std::move(path)}, rank_{rank}, size_{size}, deadline_{deadline} {
    require(size > 0 && rank < size, "rank " + std::to_string(rank) + " of " + std::to_string(size) + " ranks", path_.string(), "ranks count from 0");
    if (rank_ == 0 && std::filesystem::exists(message(0)))
      throw comm_error{"the meeting place is left from another run", message(0).string(), "remove it, or name another file"};
  }
  file_meeting(file_meeting const&) = delete;
  file_meeting& operator=(file_meeting const&) = delete;
  ~file_meeting() {
    std::error_code ignored;
    if (rank_ == 0) {
      for (std::size_t n = 0; n < messages_; ++n) std::filesystem::remove(message(n), ignored);
    }
  }

  void broadcast(std::span<std::byte> bytes) {
    std::filesystem::path const at = message(messages_++);
    if (rank_ == 0) {
      if (size_ > 1) put(at, {reinterpret_cast<char const*>(bytes.data()), bytes.size()});
      return;
    }
    auto const start = std::chrono::steady_clock::now();
    while (!std::filesystem::exists(at)) {
      if (first_failure const* const f = failure()) throw echo(f->rank(), f->reason(), rank_, {"setup", 0});
      if (std::chrono::steady_clock::now() - start > deadline_)
        throw comm_error{"rank 0 did not come to the meeting place within " + text(deadline_), at.string() + ", rank " + std::to_string(rank_), "start all ranks with the same file"};
      std::this_thread::sleep_for(std::chrono::milliseconds{5});
    }
    std::ifstream in{at, std::ios::binary};
    in.read(reinterpret_cast<char*>(bytes.data()), static_cast<std::streamsize>(bytes.size()));
    if (static_cast<std::size_t>(in.gcount()) != bytes.size()) throw comm_error{"a message of another size", at.string() + ", rank " + std::to_string(rank_), "start all ranks with the same program"};
  }

  void abort(std::string_view reason) {
    told_.record(rank_, reason);
    std::error_code none;
    if (size_ > 1 && !std::filesystem::exists(failed(), none)) put(failed(), std::to_string(rank_) + " " + std::string{reason});
  }

  /// Looks at the file system every 20 ms at most.
  first_failure const* failure() {
    if (told_.set()) return &told_;
    auto const now = std::chrono::steady_clock::now().time_since_epoch().count();
    if (auto last = looked_.load(); now - last < 20'000'000 || !looked_.compare_exchange_strong(last, now)) return nullptr;
    std::error_code none;
    if (!std::filesystem::exists(failed(), none)) return nullptr;
    std::ifstream in{failed()};
    std::size_t who = 0;
    std::string why;
    in >> who;
    std::getline(in >> std::ws, why);
    told_.record(who, why);
    return &told_;
  }

  std::size_t rank() const { return rank_; }
  std::size_t size() const { return size_; }

 private:
  std::filesystem::path message(std::size_t n) const { return path_.string() + "." + std::to_string(n); }
  std::filesystem::path failed() const { return path_.string() + ".failed"; }
  // A reader sees all of it or nothing.
  void put(std::filesystem::path const& to, std::string_view what) const {
    std::filesystem::path const beside = to.string() + ".part" + std::to_string(rank_);
    {
      std::ofstream out{beside, std::ios::binary};
      out.write(what.data(), static_cast<std::streamsize>(what.size()));
      if (!out.flush()) throw comm_error{"cannot write", beside.string(), "name a file in a folder that all ranks can write to"};
    }
    std::filesystem::rename(beside, to);
  }

  std::filesystem::path path_;
  std::size_t rank_, size_;
  std::chrono::nanoseconds deadline_;
  std::size_t messages_ = 0;
  first_failure told_;
  std::atomic<std::int64_t> looked_{0};
};

/// The file's n-th part of the meeting is "<path>.<n>".
inline meeting meet_at_file(std::filesystem::path const& path, std::size_t rank, std::size_t size, std::chrono::nanoseconds deadline) {
  auto const place = std::make_shared<file_meeting>(path, rank, size, deadline);
  meeting m;
  m.rank = rank;
  m.size = size;
  m.broadcast = [place](std::span<std::byte> bytes) { place->broadcast(bytes); };
  m.abort = [place](std::string_view reason) { place->abort(reason); };
  m.failure = [place] { return place->failure(); };
  return m;
}

}  // namespace nestpipe::comm::detail
