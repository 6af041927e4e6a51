#pragma once
/// @file
/// Where a store on disk puts its files: a directory of its own that goes away with it.

#include <nestpipe/core/error.hpp>

#include <atomic>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>

#if defined(__unix__)
#include <unistd.h>
#endif

namespace nestpipe::storage::detail {

/// A directory below `parent` that no other store of this or another process has.
/// @throws error naming the path when it cannot be made
inline std::filesystem::path own_directory(std::filesystem::path const& parent, std::string_view kind) {
  static std::atomic<unsigned> count{0};
  std::error_code failed;
  std::filesystem::path const base = parent.empty() ? std::filesystem::temp_directory_path(failed) : parent;
  if (!failed) std::filesystem::create_directories(base, failed);
#if defined(__unix__)
  long const process = ::getpid();
#else
  long const process = 0;
#endif
  std::filesystem::path made;
  // A name may be left over from a process that was killed and had the same number.
  for (bool fresh = false; !failed && !fresh;) {
    made = base / ("nestpipe-" + std::string{kind} + "-" + std::to_string(process) + "-" + std::to_string(count++));
    fresh = std::filesystem::create_directory(made, failed);
  }
  if (failed)
    throw error{"storage::" + std::string{kind} + ": cannot make a directory for rows: " + failed.message(), (made.empty() ? base : made).string(),
                "name a path on a disk that can be written"};
  return made;
}

}  // namespace nestpipe::storage::detail
