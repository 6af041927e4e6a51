#pragma once
/// @file
/// A file without a name, given out in extents of one size. Room on the disk is taken when an extent is given out, so a full disk
/// shows before anything depends on it.

#include <nestpipe/core/error.hpp>
#include <nestpipe/storage/detail/disk_directory.hpp>

#include <cerrno>
#include <cstdint>
#include <cstring>
#include <string>
#include <vector>

#include <fcntl.h>
#include <unistd.h>

namespace nestpipe::storage::detail {

class extent_file {
 public:
  /// The file is unlinked at once: nothing is left behind, however the process ends.
  /// @throws error naming the path
  extent_file(std::string const& path, std::uint64_t extent_bytes, bool direct, std::string_view table) : extent_bytes_{extent_bytes} {
    std::filesystem::path const directory = own_directory(path, "file_log");
    std::filesystem::path const name = directory / "rows";
    int flags = O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC;
#if defined(O_DIRECT)
    if (direct) flags |= O_DIRECT;
#endif
    file_ = ::open(name.c_str(), flags, 0600);
    int const reason = errno;
    std::error_code ignored;
    std::filesystem::remove_all(directory, ignored);
    where_ = std::string{table} + ", " + directory.parent_path().string();
    if (file_ < 0)
      throw error{"storage::file_log: cannot make a file" + std::string{direct ? " for direct I/O" : ""} + ": " + std::strerror(reason), where_,
                  direct ? "name a path on a disk, or set direct_io to false" : "name a path that can be written"};
  }
  extent_file(extent_file const&) = delete;
  extent_file& operator=(extent_file const&) = delete;
  ~extent_file() {
    if (file_ >= 0) ::close(file_);
  }

  int descriptor() const { return file_; }
  std::string const& where() const { return where_; }
  std::uint64_t bytes() const { return made_ * extent_bytes_; }
  std::uint64_t offset(std::uint32_t extent) const { return extent * extent_bytes_; }

  /// @throws error naming path and bytes when the disk is full; nothing changed then
  std::uint32_t take() {
    if (!free_.empty()) {
      std::uint32_t const extent = free_.back();
      free_.pop_back();
      return extent;
    }
    int reason = 0;
#if defined(__linux__)
    do {
      reason = ::fallocate(file_, 0, static_cast<off_t>(offset(made_)), static_cast<off_t>(extent_bytes_)) == 0 ? 0 : errno;
    } while (reason == EINTR);
    if (reason == EOPNOTSUPP || reason == ENOSYS) reason = ::posix_fallocate(file_, static_cast<off_t>(offset(made_)), static_cast<off_t>(extent_bytes_));
#else
    reason = ::posix_fallocate(file_, static_cast<off_t>(offset(made_)), static_cast<off_t>(extent_bytes_));
#endif
    if (reason != 0)
      throw error{"storage::file_log: no room on the disk for " + std::to_string(extent_bytes_) + " bytes more; the file has " + std::to_string(bytes()) + " (" +
                      std::strerror(reason) + ")",
                  where_, "free space there, or name another path; no row is lost"};
    return made_++;
  }
  void give_back(std::uint32_t extent) { free_.push_back(extent); }

 private:
  int file_ = -1;
  std::uint64_t extent_bytes_;
  std::uint32_t made_ = 0;
  std::vector<std::uint32_t> free_;
  std::string where_;
};

}  // namespace nestpipe::storage::detail
