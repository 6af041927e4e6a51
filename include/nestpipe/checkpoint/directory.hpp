#pragma once
/// @file
/// How a directory of files is replaced so that a complete one is always found, whatever dies when.
///
/// A new checkpoint grows in `<directory>.tmp-<id>` (id: 16 hexadecimal digits) and is durable before anything else happens. Then
///
/// 1. an old `<directory>` is renamed to `<directory>.old-<id>`,
/// 2. `<directory>.tmp-<id>` is renamed to `<directory>`,
/// 3. `<directory>.old-<id>` is removed.
///
/// After a crash before 1 or after 2, `<directory>` is complete. Between 1 and 2 there is none, and existing_directory() finds
/// the old one, which is still whole. What a crash leaves behind is put in order by the next save to the same place; reading
/// changes nothing on disk. One run at a time writes to a place.

#include <nestpipe/checkpoint/detail/file.hpp>
#include <nestpipe/checkpoint/file_hash.hpp>
#include <nestpipe/checkpoint/manifest_text.hpp>

#include <algorithm>
#include <chrono>
#include <filesystem>
#include <string>
#include <string_view>
#include <system_error>
#include <vector>

namespace nestpipe::checkpoint {

namespace detail {

namespace fs = std::filesystem;

/// Absolute, without a slash at its end, so that suffixes make siblings of it. @throws config_error
inline fs::path normal_directory(fs::path const& given) {
  require(!given.empty(), "a checkpoint needs a directory", {}, "name one");
  std::error_code none;
  fs::path p = fs::weakly_canonical(fs::absolute(given), none);  // a link is followed, not replaced
  if (none) p = fs::absolute(given).lexically_normal();
  if (!p.has_filename()) p = p.parent_path();
  require(p.has_filename() && p.has_parent_path(), "not a directory for checkpoints", given.string(), "name another");
  return p;
}
inline fs::path sibling(fs::path const& directory, std::string_view suffix, std::string_view id) {
  return directory.parent_path() / (directory.filename().string() + std::string{suffix} + std::string{id});
}
inline bool holds_checkpoint(fs::path const& p) {
  std::error_code ignored;
  return fs::is_regular_file(p / manifest_name, ignored);
}
/// True for "<stem><suffix><16 hexadecimal digits>".
inline bool is_sibling(std::string_view name, std::string_view stem, std::string_view suffix) {
  std::uint64_t id = 0;
  return name.size() == stem.size() + suffix.size() + 16 && name.starts_with(stem) && name.substr(stem.size()).starts_with(suffix) && parse_hex64(name.substr(name.size() - 16), id);
}
/// Siblings with such names, sorted.
inline std::vector<fs::path> siblings(fs::path const& directory, std::string_view suffix) {
  std::vector<fs::path> found;
  std::error_code missing;
  for (auto const& entry : fs::directory_iterator{directory.parent_path(), missing}) {
    if (is_sibling(entry.path().filename().string(), directory.filename().string(), suffix)) found.push_back(entry.path());
  }
  std::sort(found.begin(), found.end());
  return found;
}
inline std::string fresh_id() {
  auto const now = static_cast<std::uint64_t>(std::chrono::system_clock::now().time_since_epoch().count());
  return hex64(mix64(now, static_cast<std::uint64_t>(::getpid())));
}

}  // namespace detail

/// The directory to read: `directory`, or the old one that a crash in the middle of its replacement left beside it.
/// @throws data_error when there is neither
inline std::filesystem::path existing_directory(std::filesystem::path const& directory) {
  std::filesystem::path const wanted = detail::normal_directory(directory);
  if (detail::holds_checkpoint(wanted)) return wanted;
  if (std::error_code ignored; !std::filesystem::exists(wanted, ignored)) {
    for (auto const& old : detail::siblings(wanted, ".old-")) {
      if (detail::holds_checkpoint(old)) return old;
    }
    throw data_error{"there is no checkpoint", directory.string(), "check the name"};
  }
  throw data_error{"this is no checkpoint: it has no manifest.json", directory.string(), "name the directory that a save was given (step-... for numbered ones)"};
}

/// A directory on its way to its place. Used by one rank; the others write files into path().
class staged_directory {
 public:
  /// Puts in order what a crash has left, then makes the new directory, unless a rank that does not wait has made it (join_early).
  /// Parents are made too.
  /// @throws config_error if something that is no checkpoint is in the way, error if the file system refuses
  void open(std::filesystem::path const& directory, std::string const& id) {
    namespace fs = std::filesystem;
    final_ = detail::normal_directory(directory);
    id_ = id;
    fs::create_directories(final_.parent_path());
    tidy(final_, id_);
    require(!fs::exists(final_) || detail::holds_checkpoint(final_) || (fs::is_directory(final_) && fs::is_empty(final_)),
            "something that is no checkpoint is in the way", final_.string(), "name another directory");
    fs::create_directory(path());
  }
  /// For the other ranks: the same names, nothing done.
  void join(std::filesystem::path const& directory, std::string const& id) {
    final_ = detail::normal_directory(directory);
    id_ = id;
  }
  /// As join, for ranks that do not wait for the first one.
  void join_early(std::filesystem::path const& directory, std::string const& id) {
    join(directory, id);
    std::filesystem::create_directories(path());
  }

  std::filesystem::path path() const { return detail::sibling(final_, ".tmp-", id_); }

  /// Makes the names durable and moves the directory to its place. @throws error; then what was there before is there again
  /// @param between  called between the two renames, if there are two
  template <class Between>
  void publish(Between between) {
    namespace fs = std::filesystem;
    fs::path const parent = final_.parent_path();
    fs::path const old = detail::sibling(final_, ".old-", id_);
    detail::sync_directory(path());
    bool const replaces = fs::exists(final_);
    if (replaces) fs::rename(final_, old);
    try {
      if (replaces) between();
      fs::rename(path(), final_);
    } catch (...) {
      std::error_code ignored;
      if (replaces) fs::rename(old, final_, ignored);
      throw;
    }
    detail::sync_directory(parent);
    if (!replaces) return;
    // The new one is in place: that the old one cannot be removed is no reason to fail. The next save tries again.
    std::error_code ignored;
    fs::remove_all(old, ignored);
  }

  /// Removes what has been written so far.
  void discard() noexcept {
    std::error_code ignored;
    if (!final_.empty()) std::filesystem::remove_all(path(), ignored);
  }

  /// Removes what earlier crashes have left beside `directory`, and moves an old checkpoint back if it is the only one.
  /// @param own  what a save under way has made so far, by its id, stays
  static void tidy(std::filesystem::path const& directory, std::string const& own = {}) {
    namespace fs = std::filesystem;
    for (auto const& old : detail::siblings(directory, ".old-")) {
      if (!fs::exists(directory) && detail::holds_checkpoint(old)) {
        fs::rename(old, directory);
      } else {
        fs::remove_all(old);
      }
    }
    for (auto const& unfinished : detail::siblings(directory, ".tmp-")) {
      if (own.empty() || unfinished != detail::sibling(directory, ".tmp-", own)) fs::remove_all(unfinished);
    }
  }

 private:
  std::filesystem::path final_;
  std::string id_;
};

}  // namespace nestpipe::checkpoint
