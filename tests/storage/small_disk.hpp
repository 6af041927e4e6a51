#pragma once
/// A place with little room, for tests of full disks.

#include <filesystem>
#include <string>

#include <csignal>
#include <sys/mount.h>
#include <sys/resource.h>
#include <unistd.h>

/// A file system in memory where mounts are allowed; else an ordinary folder and a limit on the size of files, for as long as this
/// lives.
class small_disk {
 public:
  explicit small_disk(std::size_t bytes)
      : path_{std::filesystem::temp_directory_path() / ("nestpipe-small-disk-" + std::to_string(::getpid()))} {
    std::filesystem::create_directories(path_);
    std::string const options = "size=" + std::to_string(bytes);
    mounted_ = ::mount("tmpfs", path_.c_str(), "tmpfs", 0, options.c_str()) == 0;
    if (mounted_) return;
    handler_ = std::signal(SIGXFSZ, SIG_IGN);
    ::getrlimit(RLIMIT_FSIZE, &before_);
    rlimit little = before_;
    little.rlim_cur = bytes;
    ::setrlimit(RLIMIT_FSIZE, &little);
  }
  small_disk(small_disk const&) = delete;
  small_disk& operator=(small_disk const&) = delete;
  ~small_disk() {
    if (mounted_) {
      ::umount2(path_.c_str(), MNT_DETACH);
    } else {
      ::setrlimit(RLIMIT_FSIZE, &before_);
      std::signal(SIGXFSZ, handler_);
    }
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string path() const { return path_.string(); }
  bool mounted() const { return mounted_; }

 private:
  std::filesystem::path path_;
  bool mounted_ = false;
  rlimit before_{};
  void (*handler_)(int) = nullptr;
};
