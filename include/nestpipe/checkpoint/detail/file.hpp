#pragma once
/// @file
/// Whole files, written so that they survive a power cut, read at once.

#include <nestpipe/checkpoint/file_hash.hpp>
#include <nestpipe/core/error.hpp>

#include <cerrno>
#include <cstring>
#include <filesystem>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

namespace nestpipe::checkpoint::detail {

[[noreturn]] inline void file_failed(char const* what, std::filesystem::path const& path, int code) {
  throw error{std::string{"cannot "} + what + " " + path.string(), std::strerror(code),
              code == ENOSPC || code == EDQUOT ? "free some space" : code == EACCES || code == EPERM || code == EROFS ? "check the permissions" : ""};
}

/// An open file descriptor.
class file_handle {
 public:
  file_handle(std::filesystem::path const& path, int flags, char const* what) : path_{path} {
    do fd_ = ::open(path.c_str(), flags | O_CLOEXEC, 0666);
    while (fd_ < 0 && errno == EINTR);
    if (fd_ < 0) file_failed(what, path_, errno);
  }
  file_handle(file_handle const&) = delete;
  file_handle& operator=(file_handle const&) = delete;
  ~file_handle() {
    if (fd_ >= 0) ::close(fd_);
  }

  void write(std::span<std::byte const> bytes) {
    while (!bytes.empty()) {
      ::ssize_t const n = ::write(fd_, bytes.data(), bytes.size());
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) file_failed("write", path_, errno);
      bytes = bytes.subspan(static_cast<std::size_t>(n));
    }
  }
  /// Fills `bytes`; returns how many there were.
  std::size_t read(std::span<std::byte> bytes) {
    std::size_t got = 0;
    while (got < bytes.size()) {
      ::ssize_t const n = ::read(fd_, bytes.data() + got, bytes.size() - got);
      if (n < 0 && errno == EINTR) continue;
      if (n < 0) file_failed("read", path_, errno);
      if (n == 0) break;
      got += static_cast<std::size_t>(n);
    }
    return got;
  }
  std::size_t size() const {
    struct ::stat s {};
    if (::fstat(fd_, &s) != 0) file_failed("read", path_, errno);
    return static_cast<std::size_t>(s.st_size);
  }
  void sync() {
    // Some file systems have no fsync for directories and say EINVAL.
    if (::fsync(fd_) != 0 && errno != EINVAL) file_failed("write", path_, errno);
  }
  /// A write error may show up as late as here.
  void close() {
    int const fd = std::exchange(fd_, -1);
    if (::close(fd) != 0 && errno != EINTR) file_failed("write", path_, errno);
  }

 private:
  std::filesystem::path path_;
  int fd_ = -1;
};

/// What a file should hold.
struct file_sum {
  std::uint64_t bytes = 0;
  std::uint64_t checksum = 0;
};

/// Writes the pieces one after the other to a new file and makes them durable. @throws error
inline file_sum write_file(std::filesystem::path const& path, std::span<std::span<std::byte const> const> pieces) {
  file_handle file{path, O_WRONLY | O_CREAT | O_TRUNC, "create"};
  file_hash hash;
  file_sum sum;
  for (auto const piece : pieces) {
    file.write(piece);
    hash.update(piece);
    sum.bytes += piece.size();
  }
  file.sync();
  file.close();
  sum.checksum = hash.value();
  return sum;
}

/// The whole file. @throws data_error if there is none, error if it cannot be read
inline void read_file(std::filesystem::path const& path, std::vector<std::byte>& out) {
  std::error_code ignored;
  if (!std::filesystem::is_regular_file(path, ignored)) throw data_error{"a file of the checkpoint is missing", path.string(), "use another checkpoint"};
  file_handle file{path, O_RDONLY, "open"};
  out.resize(file.size());
  if (file.read(out) != out.size()) throw data_error{"a file changed while it was read", path.string()};
}

/// As read_file; the bytes are those that were written. @throws data_error naming the file
inline void read_checked(std::filesystem::path const& path, file_sum const& sum, std::vector<std::byte>& out) {
  read_file(path, out);
  std::string what;
  if (out.size() != sum.bytes) {
    what = "it has " + std::to_string(out.size()) + " bytes instead of " + std::to_string(sum.bytes);
  } else if (file_hash::of(out) != sum.checksum) {
    what = "its checksum does not fit";
  }
  if (!what.empty()) throw data_error{"a file of the checkpoint is damaged: " + what, path.string(), "use another checkpoint"};
}

/// Makes names in a directory durable.
inline void sync_directory(std::filesystem::path const& path) { file_handle{path, O_RDONLY | O_DIRECTORY, "open"}.sync(); }

}  // namespace nestpipe::checkpoint::detail
