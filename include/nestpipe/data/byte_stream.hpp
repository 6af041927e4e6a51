#pragma once
/// @file
/// Bytes of one input: a plain file, standard input, or gzip of either, told apart by the first two bytes.

#include <nestpipe/core/error.hpp>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <utility>

namespace nestpipe::data {

/// The path that means standard input.
inline constexpr char standard_input[] = "-";

/// A stream of bytes that is read once, front to back.
class byte_stream {
 public:
  byte_stream() = default;
  byte_stream(byte_stream const&) = delete;
  byte_stream& operator=(byte_stream const&) = delete;
  virtual ~byte_stream() = default;
  /// Up to `bytes` bytes into `out`; 0 only at the end. @throws data_error naming the input.
  virtual std::size_t read(char* out, std::size_t bytes) = 0;
};

/// A file descriptor with the first bytes already looked at.
class file_stream final : public byte_stream {
 public:
  /// @throws data_error when the file is missing, unreadable or a directory.
  explicit file_stream(std::string path) : path_{std::move(path)} {
    if (path_ == standard_input) {
      file_ = 0;
    } else {
      check(path_);
      file_ = ::open(path_.c_str(), O_RDONLY | O_CLOEXEC);
      if (file_ < 0) throw data_error{"cannot open file: " + std::string{std::strerror(errno)}, path_, "check the path and its permissions"};
#if defined(POSIX_FADV_SEQUENTIAL)
      (void)::posix_fadvise(file_, 0, 0, POSIX_FADV_SEQUENTIAL);
#endif
    }
    try {
      while (head_size_ < head_.size()) {
        std::size_t const n = read_file(head_.data() + head_size_, head_.size() - head_size_);
        if (n == 0) break;
        head_size_ += n;
      }
    } catch (...) {
      close();
      throw;
    }
  }
  ~file_stream() override { close(); }

  std::size_t read(char* out, std::size_t bytes) override {
    if (head_read_ < head_size_) {
      std::size_t const n = std::min(bytes, head_size_ - head_read_);
      std::memcpy(out, head_.data() + head_read_, n);
      head_read_ += n;
      return n;
    }
    return read_file(out, bytes);
  }

  bool gzip() const {
    return head_size_ == 2 && static_cast<unsigned char>(head_[0]) == 0x1f && static_cast<unsigned char>(head_[1]) == 0x8b;
  }
  std::string const& path() const { return path_; }

  /// @throws data_error when the path is missing, a directory, or an empty regular file. Standard input passes.
  static void check(std::string const& path) {
    if (path == standard_input) return;
    struct ::stat info {};
    if (::stat(path.c_str(), &info) != 0)
      throw data_error{"cannot open file: " + std::string{std::strerror(errno)}, path, "check the path and its permissions"};
    if (S_ISDIR(info.st_mode)) throw data_error{"is a directory, not a file", path, "name the files in it"};
    if (S_ISREG(info.st_mode) && info.st_size == 0) throw data_error{"the file is empty", path, "give a file with data rows"};
  }

 private:
  std::size_t read_file(char* out, std::size_t bytes) {
    for (;;) {
      ssize_t const n = ::read(file_, out, bytes);
      if (n >= 0) return static_cast<std::size_t>(n);
      if (errno != EINTR) throw data_error{"cannot read: " + std::string{std::strerror(errno)}, path_};
    }
  }
  void close() {
    if (file_ > 0) ::close(file_);
    file_ = -1;
  }

  std::string path_;
  int file_ = -1;
  std::array<char, 2> head_{};
  std::size_t head_size_ = 0;
  std::size_t head_read_ = 0;
};

}  // namespace nestpipe::data
