#pragma once
/// @file
/// Errors carry what happened, where, and what to do, and print as one line.

#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

namespace nestpipe {

/// Base of all errors thrown by the library. `what()` is one line: "<what> (<where>); <remedy>".
class error : public std::runtime_error {
 public:
  /// @param what    what happened, in the user's terms
  /// @param where   file:line, rank, step, table, feature: whatever is known; may be empty
  /// @param remedy  what to do about it; may be empty
  explicit error(std::string_view what, std::string_view where = {}, std::string_view remedy = {})
      : std::runtime_error{line(what, where, remedy)} {}

 private:
  static std::string line(std::string_view what, std::string_view where, std::string_view remedy) {
    std::string text{what};
    if (!where.empty()) text.append(" (").append(where).append(")");
    if (!remedy.empty()) text.append("; ").append(remedy);
    for (char& c : text) {
      if (c == '\n' || c == '\r') c = ' ';
    }
    return text;
  }
};

/// A value given by the caller is out of its domain: programs exit with status 2.
class config_error : public error {
 public:
  using error::error;
};

/// Input data (a file, a line, a key) is not what it should be: programs exit with status 1.
class data_error : public error {
 public:
  using error::error;
};

/// A collective failed, timed out, or was stopped because another rank failed.
class comm_error : public error {
 public:
  using error::error;
};

/// Work was cancelled because something it depends on failed elsewhere; the first cause is reported, not this.
class cancelled : public error {
 public:
  using error::error;
};

/// Throws config_error unless `ok`.
inline void require(bool ok, std::string_view what, std::string_view where = {}, std::string_view remedy = {}) {
  if (!ok) throw config_error{what, where, remedy};
}

}  // namespace nestpipe
