#pragma once
/// @file
/// As much JSON as manifests and file headers need. A reader of our own because every program that trains includes it: the
/// usual JSON library costs seconds of compile time in each, and knows no float32 that returns with the same bits.

#include <nestpipe/checkpoint/json_writer.hpp>
#include <nestpipe/core/error.hpp>

#include <charconv>
#include <cstdint>
#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace nestpipe::checkpoint {

/// A JSON value that was read. Numbers stay text until someone says what they are.
class json {
 public:
  enum class kind : std::uint8_t { null, boolean, number, string, array, object };

  /// @throws data_error with the offset of what is wrong
  static json parse(std::string_view text);

  kind type() const { return kind_; }
  /// Elements of an array. @throws data_error if it is none (so do the others)
  std::vector<json> const& items() const {
    need(kind::array, "a list");
    return items_;
  }
  /// Names and values of an object, in file order.
  std::vector<std::pair<std::string, json>> const& fields() const {
    need(kind::object, "an object");
    return fields_;
  }
  std::string const& text() const {
    need(kind::string, "a string");
    return text_;
  }
  bool boolean() const {
    need(kind::boolean, "true or false");
    return text_ == "true";
  }
  std::uint64_t u64() const {
    need(kind::number, "a number");
    std::uint64_t n = 0;
    auto const end = text_.data() + text_.size();
    auto const r = std::from_chars(text_.data(), end, n);
    if (r.ec != std::errc{} || r.ptr != end) throw data_error{"not a whole number below 2^64: " + text_};
    return n;
  }
  float number() const {
    if (kind_ == kind::string) {
      if (text_ == "nan") return std::numeric_limits<float>::quiet_NaN();
      if (text_ == "inf") return std::numeric_limits<float>::infinity();
      if (text_ == "-inf") return -std::numeric_limits<float>::infinity();
    }
    need(kind::number, "a number");
    float x = 0;
    auto const end = text_.data() + text_.size();
    auto const r = std::from_chars(text_.data(), end, x);
    if (r.ec != std::errc{} || r.ptr != end) throw data_error{"not a float32 number: " + text_};
    return x;
  }
  json const* find(std::string_view name) const {
    for (auto const& [key, value] : fields()) {
      if (key == name) return &value;
    }
    return nullptr;
  }
  json const& at(std::string_view name) const {
    if (json const* const found = find(name)) return *found;
    throw data_error{"a field is missing: " + std::string{name}};
  }

 private:
  class reader;
  void need(kind k, char const* what) const {
    if (kind_ != k) throw data_error{std::string{"expected "} + what};
  }

  kind kind_ = kind::null;
  std::string text_;
  std::vector<json> items_;
  std::vector<std::pair<std::string, json>> fields_;
};

class json::reader {
 public:
  explicit reader(std::string_view text) : s_{text} {}

  json document() {
    json j = value(0);
    space();
    if (at_ != s_.size()) fail("something follows the end");
    return j;
  }

 private:
  [[noreturn]] void fail(char const* what) const { throw data_error{std::string{"not JSON: "} + what, "byte " + std::to_string(at_)}; }
  void space() {
    while (at_ < s_.size() && (s_[at_] == ' ' || s_[at_] == '\n' || s_[at_] == '\t' || s_[at_] == '\r')) ++at_;
  }
  char peek() const { return at_ < s_.size() ? s_[at_] : '\0'; }
  bool accept(char c) {
    space();
    if (at_ >= s_.size() || s_[at_] != c) return false;
    ++at_;
    return true;
  }
  void expect(char c, char const* what) {
    if (!accept(c)) fail(what);
  }

  json value(int depth) {
    if (depth > 32) fail("nested too deeply");
    space();
    json j;
    char const c = peek();
    if (c == '{') {
      ++at_;
      j.kind_ = kind::object;
      if (accept('}')) return j;
      do {
        space();
        std::string name = string();
        if (j.find(name) != nullptr) fail("a name occurs twice");
        expect(':', "a colon is missing");
        j.fields_.emplace_back(std::move(name), value(depth + 1));
      } while (accept(','));
      expect('}', "a closing brace is missing");
    } else if (c == '[') {
      ++at_;
      j.kind_ = kind::array;
      if (accept(']')) return j;
      do j.items_.push_back(value(depth + 1));
      while (accept(','));
      expect(']', "a closing bracket is missing");
    } else if (c == '"') {
      j.kind_ = kind::string;
      j.text_ = string();
    } else if (word("true") || word("false")) {
      j.kind_ = kind::boolean;
      j.text_ = c == 't' ? "true" : "false";
    } else if (!word("null")) {
      j.kind_ = kind::number;
      while (at_ < s_.size() && std::string_view{"+-.eE0123456789"}.find(s_[at_]) != std::string_view::npos) j.text_ += s_[at_++];
      if (j.text_.empty()) fail("a value is missing");
    }
    return j;
  }

  bool word(std::string_view w) {
    if (s_.substr(at_, w.size()) != w) return false;
    at_ += w.size();
    return true;
  }

  std::string string() {
    if (peek() != '"') fail("a string is missing");
    ++at_;
    std::string out;
    for (;;) {
      if (at_ >= s_.size()) fail("a string does not end");
      char const c = s_[at_++];
      if (c == '"') break;
      if (static_cast<unsigned char>(c) < 0x20) fail("a control character in a string");
      if (c != '\\') {
        out += c;
        continue;
      }
      char const e = peek();
      ++at_;
      constexpr std::string_view names = "\"\\/bfnrt", bytes = "\"\\/\b\f\n\r\t";
      if (e == 'u') {
        code_point(out);
      } else if (auto const i = names.find(e); i != std::string_view::npos && at_ <= s_.size()) {
        out += bytes[i];
      } else {
        fail("an unknown escape");
      }
    }
    if (!valid_utf8(out)) fail("a string is not UTF-8");
    return out;
  }

  std::uint32_t hex4() {
    std::uint32_t u = 0;
    if (at_ + 4 > s_.size()) fail("an escape is cut short");
    auto const r = std::from_chars(s_.data() + at_, s_.data() + at_ + 4, u, 16);
    if (r.ptr != s_.data() + at_ + 4) fail("an escape is not hexadecimal");
    at_ += 4;
    return u;
  }
  void code_point(std::string& out) {
    std::uint32_t u = hex4();
    if (u >= 0xd800 && u < 0xdc00 && word("\\u")) u = 0x10000 + ((u - 0xd800) << 10) + (hex4() - 0xdc00);
    auto const put = [&](std::uint32_t byte) { out += static_cast<char>(static_cast<unsigned char>(byte)); };
    if (u < 0x80) {
      put(u);
    } else if (u < 0x800) {
      put(0xc0 | (u >> 6)), put(0x80 | (u & 63));
    } else if (u < 0x10000) {
      put(0xe0 | (u >> 12)), put(0x80 | ((u >> 6) & 63)), put(0x80 | (u & 63));
    } else {
      put(0xf0 | ((u >> 18) & 7)), put(0x80 | ((u >> 12) & 63)), put(0x80 | ((u >> 6) & 63)), put(0x80 | (u & 63));
    }
  }

  std::string_view s_;
  std::size_t at_ = 0;
};

inline json json::parse(std::string_view text) { return reader{text}.document(); }

}  // namespace nestpipe::checkpoint
