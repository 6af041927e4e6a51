#pragma once
/// @file
/// Many transfers at once, so that a disk works at its queue depth: io_uring, or threads that wait in pread and pwrite.

#include <nestpipe/core/error.hpp>
#include <nestpipe/storage/detail/io_ring.hpp>
#include <nestpipe/storage/detail/wait_pool.hpp>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include <unistd.h>

namespace nestpipe::storage::detail {

/// Works on one file. Used from one thread at a time.
class disk_queue {
 public:
  /// @param depth transfers in flight, at least 1
  /// @param ring  whether io_uring may be used
  disk_queue(int file, unsigned depth, bool ring, std::string where) : file_{file}, depth_{depth}, where_{std::move(where)} {
    if (ring) {
      ring_ = std::make_unique<io_ring>();
      if (!ring_->open(depth)) ring_.reset();
    }
  }

  bool uses_ring() const { return ring_ != nullptr; }
  unsigned depth() const { return depth_; }
  /// Places that `make` and `done` of run() may be called with.
  unsigned places() const { return ring_ ? depth_ : 4 * depth_; }

  /// Runs transfers 0 to n - 1. make(i, place) gives a transfer; `place` is free until done(i, place), called when it has ended,
  /// in any order, on this thread. @throws error naming path, bytes and the system's reason
  template <class Make, class Done>
  void run(std::size_t n, Make&& make, Done&& done) {
    if (ring_) {
      run_ring(n, make, done);
    } else {
      run_pool(n, make, done);
    }
  }

  /// One transfer, on this thread.
  void run_one(disk_request const& r) { finish(r, 0); }

 private:
  struct flight {
    disk_request request;
    std::size_t index = 0;
    long result = 0;
  };

  template <class Make, class Done>
  void run_ring(std::size_t n, Make& make, Done& done) {
    flights_.resize(depth_);
    free_.clear();
    for (unsigned p = 0; p < depth_; ++p) free_.push_back(depth_ - 1 - p);
    std::size_t next = 0, ended = 0;
    std::exception_ptr failed;   // what the kernel still writes to must stay: all transfers end before this returns
    while (ended < (failed ? next : n)) {
      while (!failed && next < n && !free_.empty()) {
        unsigned const place = free_.back();
        free_.pop_back();
        flights_[place] = {make(next, place), next, 0};
        ring_->push(file_, flights_[place].request, place);
        ++next;
      }
      int const status = ring_->wait([&](std::uint64_t tag, long result) {
        auto const place = static_cast<unsigned>(tag);
        ++ended;
        free_.push_back(place);
        if (failed) return;
        try {
          finish(flights_[place].request, result);
          done(flights_[place].index, place);
        } catch (...) {
          failed = std::current_exception();
        }
      });
      if (status != 0) fail("io_uring", flights_[0].request, status);
    }
    if (failed) std::rethrow_exception(failed);
  }

  template <class Make, class Done>
  void run_pool(std::size_t n, Make& make, Done& done) {
    flights_.resize(places());
    for (std::size_t begin = 0; begin < n; begin += places()) {
      std::size_t const count = std::min<std::size_t>(places(), n - begin);
      for (std::size_t i = 0; i < count; ++i) flights_[i] = {make(begin + i, static_cast<unsigned>(i)), begin + i, 0};
      pool_.run(count, depth_, [&](std::size_t i) { finish(flights_[i].request, 0); });
      for (std::size_t i = 0; i < count; ++i) done(begin + i, static_cast<unsigned>(i));
    }
  }

  /// Checks what has been transferred and does the rest.
  void finish(disk_request const& r, long result) const {
    std::size_t have = 0;
    for (;;) {
      if (result < 0 && result != -EINTR && result != -EAGAIN) fail(r.write ? "writing" : "reading", r, static_cast<int>(-result));
      if (result > 0) have += static_cast<std::size_t>(result);
      if (have >= r.bytes) return;
      auto const offset = static_cast<off_t>(r.offset + have);
      ssize_t const moved = r.write ? ::pwrite(file_, r.memory + have, r.bytes - have, offset) : ::pread(file_, r.memory + have, r.bytes - have, offset);
      if (moved == 0) fail(r.write ? "writing" : "reading", r, EIO);
      result = moved < 0 ? -static_cast<long>(errno) : static_cast<long>(moved);
    }
  }

  [[noreturn]] void fail(char const* what, disk_request const& r, int code) const {
    throw error{"storage::file_log: " + std::string{what} + " " + std::to_string(r.bytes) + " bytes at " + std::to_string(r.offset) +
                    " failed: " + std::strerror(code),
                where_, "check the disk; load the last checkpoint"};
  }

  int file_;
  unsigned depth_;
  std::string where_;
  std::unique_ptr<io_ring> ring_;
  wait_pool pool_;
  std::vector<flight> flights_;
  std::vector<unsigned> free_;
};

}  // namespace nestpipe::storage::detail
