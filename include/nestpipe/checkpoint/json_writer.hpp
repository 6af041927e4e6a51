#pragma once
/// @file
/// Makes JSON texts; see json.hpp for why it is our own.

#include <nestpipe/core/error.hpp>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

namespace nestpipe::checkpoint {

/// True if the bytes are UTF-8 as JSON wants it.
inline bool valid_utf8(std::string_view s) {
  for (std::size_t i = 0; i < s.size();) {
    auto const byte = [&](std::size_t k) { return static_cast<unsigned char>(s[k]); };
    unsigned const c = byte(i);
    std::size_t const more = c < 0x80 ? 0 : c >= 0xc2 && c < 0xe0 ? 1 : c >= 0xe0 && c < 0xf0 ? 2 : c >= 0xf0 && c < 0xf5 ? 3 : 9;
    if (more == 9 || i + more >= s.size()) return false;
    for (std::size_t k = 1; k <= more; ++k) {
      if ((byte(i + k) & 0xc0) != 0x80) return false;
    }
    if (more >= 2) {  // no overlong forms, no surrogates, nothing past U+10FFFF
      unsigned const next = byte(i + 1);
      if ((c == 0xe0 && next < 0xa0) || (c == 0xed && next > 0x9f) || (c == 0xf0 && next < 0x90) || (c == 0xf4 && next > 0x8f)) return false;
    }
    i += more + 1;
  }
  return true;
}

/// Builds a JSON text. Values of a container follow each other; commas are set here.
class json_writer {
 public:
  json_writer& open(char bracket) {
    comma();
    text_ += bracket;
    first_ = true;
    return *this;
  }
  json_writer& close(char bracket) {
    text_ += bracket;
    first_ = false;
    return *this;
  }
  json_writer& key(std::string_view name) {
    comma();
    quote(name);
    text_ += ": ";
    first_ = true;
    return *this;
  }
  /// Starts a new line, indented.
  json_writer& line(std::size_t indent) {
    pending_ = indent + 1;
    return *this;
  }
  /// @throws config_error if it is not UTF-8
  json_writer& value(std::string_view s) {
    comma();
    quote(s);
    return *this;
  }
  json_writer& value(char const* s) { return value(std::string_view{s}); }
  json_writer& value(std::uint64_t n) {
    comma();
    text_ += std::to_string(n);
    return *this;
  }
  json_writer& value(bool b) {
    comma();
    text_ += b ? "true" : "false";
    return *this;
  }
  /// The shortest digits that read back to the same float; what JSON has no number for becomes a string.
  json_writer& value(float x) {
    if (!std::isfinite(x)) return value(std::string_view{std::isnan(x) ? "nan" : x > 0 ? "inf" : "-inf"});
    comma();
    char digits[32];
    auto const end = std::to_chars(digits, digits + sizeof digits, x);
    text_.append(digits, end.ptr);
    return *this;
  }

  std::string const& text() const { return text_; }
  std::string take() { return std::move(text_); }

 private:
  void comma() {
    if (!first_) text_ += pending_ != 0 ? "," : ", ";
    if (pending_ != 0) text_.append("\n").append(pending_ - 1, ' ');
    pending_ = 0;
    first_ = false;
  }
  void quote(std::string_view s) {
    if (!valid_utf8(s)) throw config_error{"a name is not UTF-8 and cannot be written to a checkpoint", s, "rename it"};
    constexpr char hex[] = "0123456789abcdef";
    text_ += '"';
    for (char const c : s) {
      auto const u = static_cast<unsigned char>(c);
      if (c == '"' || c == '\\') {
        text_.append(1, '\\').append(1, c);
      } else if (u < 0x20) {
        text_.append("\\u00").append(1, hex[u >> 4]).append(1, hex[u & 15]);
      } else {
        text_ += c;
      }
    }
    text_ += '"';
  }

  std::string text_;
  bool first_ = true;
  std::size_t pending_ = 0;  // 1 + indent of a line to start before the next item
};

}  // namespace nestpipe::checkpoint
