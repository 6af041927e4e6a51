#pragma once
/// @file
/// Files that are there whole or not at all.

#include <nestpipe/core/error.hpp>

#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <system_error>

namespace train_ctr {

/// Finds out before hours of training that a result could not be written. @throws nestpipe::error
inline void check_writable(std::string const& path, char const* what) {
  if (path.empty()) return;
  std::filesystem::path folder = std::filesystem::path{path}.parent_path();
  if (folder.empty()) folder = ".";
  std::error_code ignored;
  if (!std::filesystem::is_directory(folder, ignored))
    throw nestpipe::error{std::string{"cannot write "} + what + ": its folder does not exist", path, "make " + folder.string() + " first"};
  if (std::filesystem::is_directory(path, ignored)) throw nestpipe::error{std::string{"cannot write "} + what + ": it is a directory", path, "name a file"};
  if (::access(folder.c_str(), W_OK) != 0) throw nestpipe::error{std::string{"cannot write "} + what + ": " + std::strerror(errno), path, "choose another place"};
}

/// The same for a directory that a checkpoint will become. @throws nestpipe::config_error, nestpipe::error
inline void check_checkpoint_place(std::string const& directory, bool numbered = false) {
  if (directory.empty()) return;
  namespace fs = std::filesystem;
  std::error_code none;
  fs::path const real = fs::weakly_canonical(fs::absolute(directory), none);
  bool ours = numbered && fs::is_directory(real, none) && !fs::exists(real / "manifest.json", none);
  if (ours) {
    for (auto const& entry : fs::directory_iterator{real, none}) ours = ours && entry.path().filename().string().starts_with("step-");
  }
  bool const empty = fs::is_directory(real, none) && fs::is_empty(real, none);
  nestpipe::require(!fs::exists(real, none) || empty || (numbered ? ours : fs::exists(real / "manifest.json", none)),
                    numbered ? "something else than numbered checkpoints is in the way" : "something that is no checkpoint is in the way", directory, "name another directory");
  fs::path above = real;
  while (above.has_relative_path() && (above == real || !fs::exists(above, none))) above = above.parent_path();
  if (!fs::is_directory(above, none) || ::access(above.c_str(), W_OK) != 0)
    throw nestpipe::error{"cannot write a checkpoint here", directory, "choose another place"};
}

/// Written beside, flushed to the disk, renamed. @throws nestpipe::error; then nothing is left
inline void write_whole(std::string const& path, std::string_view text) {
  // A link is followed; a device or pipe is written to as it is, never replaced.
  std::error_code none;
  std::filesystem::path const real = std::filesystem::weakly_canonical(path, none);
  std::string const target = none ? path : real.string();
  bool const in_place = std::filesystem::exists(target, none) && !std::filesystem::is_regular_file(target, none);
  std::string const beside = in_place ? target : target + ".tmp-" + std::to_string(::getpid());
  int const file = ::open(beside.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644);
  int failure = file < 0 ? errno : 0;
  while (failure == 0 && !text.empty()) {
    ssize_t const n = ::write(file, text.data(), text.size());
    if (n < 0 && errno == EINTR) continue;
    if (n < 0) failure = errno;
    else text.remove_prefix(static_cast<std::size_t>(n));
  }
  if (failure == 0 && ::fsync(file) != 0 && errno != EINVAL) failure = errno;
  if (file >= 0 && ::close(file) != 0 && failure == 0) failure = errno;
  if (failure == 0 && !in_place && std::rename(beside.c_str(), target.c_str()) != 0) failure = errno;
  if (failure == 0) return;
  if (!in_place) ::unlink(beside.c_str());
  throw nestpipe::error{std::string{"cannot write: "} + std::strerror(failure), path, "choose another place"};
}

}  // namespace train_ctr
