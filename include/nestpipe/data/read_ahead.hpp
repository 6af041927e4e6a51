#pragma once
/// @file
/// Reads another stream on a thread of its own, two buffers ahead: decompression beside framing.

#include <nestpipe/data/byte_stream.hpp>

#include <algorithm>
#include <array>
#include <condition_variable>
#include <exception>
#include <mutex>
#include <thread>
#include <vector>

namespace nestpipe::data {

class read_ahead final : public byte_stream {
 public:
  explicit read_ahead(std::unique_ptr<byte_stream> source, std::size_t buffer_bytes = std::size_t{1} << 20)
      : source_{std::move(source)} {
    for (buffer& b : buffers_) b.bytes.resize(buffer_bytes);
    thread_ = std::thread{[this] { work(); }};
  }
  ~read_ahead() override {
    {
      std::lock_guard const lock{mutex_};
      stop_ = true;
    }
    changed_.notify_all();
    thread_.join();
  }

  std::size_t read(char* out, std::size_t bytes) override {
    buffer& b = buffers_[reading_];
    {
      std::unique_lock lock{mutex_};
      changed_.wait(lock, [&] { return b.full; });
    }
    if (b.fault) std::rethrow_exception(b.fault);
    if (b.size == 0) return 0;  // the end stays in place for further calls
    std::size_t const n = std::min(bytes, b.size - b.read);
    std::memcpy(out, b.bytes.data() + b.read, n);
    b.read += n;
    if (b.read == b.size) {
      {
        std::lock_guard const lock{mutex_};
        b.full = false;
      }
      changed_.notify_all();
      reading_ ^= 1U;
    }
    return n;
  }

 private:
  struct buffer {
    std::vector<char> bytes;
    std::size_t size = 0;
    std::size_t read = 0;
    std::exception_ptr fault;
    bool full = false;  // guarded by mutex_; whoever does not hold the buffer waits for it
  };

  void work() {
    for (unsigned writing = 0;; writing ^= 1U) {
      buffer& b = buffers_[writing];
      {
        std::unique_lock lock{mutex_};
        changed_.wait(lock, [&] { return stop_ || !b.full; });
        if (stop_) return;
      }
      b.size = b.read = 0;
      try {
        while (b.size < b.bytes.size()) {
          std::size_t const n = source_->read(b.bytes.data() + b.size, b.bytes.size() - b.size);
          if (n == 0) break;
          b.size += n;
        }
      } catch (...) {
        b.fault = std::current_exception();
      }
      bool const last = b.size == 0 || b.fault != nullptr;
      {
        std::lock_guard const lock{mutex_};
        b.full = true;
      }
      changed_.notify_all();
      if (last) return;
    }
  }

  std::unique_ptr<byte_stream> source_;
  std::array<buffer, 2> buffers_;
  unsigned reading_ = 0;
  std::mutex mutex_;
  std::condition_variable changed_;
  bool stop_ = false;
  std::thread thread_;
};

}  // namespace nestpipe::data
