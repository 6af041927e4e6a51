#pragma once
/// @file
/// The framed lines of one global batch: their text in one buffer, and where each came from.

#include <nestpipe/core/error.hpp>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <string_view>
#include <vector>

namespace nestpipe::data {

/// One data line and its origin. `text` is valid until the next line is read.
struct raw_line {
  std::string_view text;
  std::uint64_t row = 0;   ///< number among all data rows of the stream
  std::uint64_t line = 0;  ///< line number in its file, from 1
  std::uint32_t file = 0;  ///< index of its file
};

/// Lines of a batch; memory is kept for the next batch. Behind every text at least `padding` bytes may be read.
class line_block {
 public:
  static constexpr std::size_t padding = 64;

  struct entry {
    std::uint64_t row = 0;
    std::uint64_t line = 0;
    std::uint64_t offset = 0;
    std::uint32_t length = 0;
    std::uint32_t file = 0;
  };

  std::size_t size() const { return entries_.size(); }
  entry const& operator[](std::size_t i) const { return entries_[i]; }
  std::string_view text(std::size_t i) const { return {text_.data() + entries_[i].offset, entries_[i].length}; }
  std::size_t bytes() const { return used_; }

  void clear() {
    entries_.clear();
    used_ = 0;
  }
  void append(raw_line const& line) {
    std::size_t const length = line.text.size();
    if (used_ + length + padding > text_.size()) text_.resize((used_ + length + padding) * 2);
    if (length > 0) std::memcpy(text_.data() + used_, line.text.data(), length);
    entries_.push_back({line.row, line.line, used_, static_cast<std::uint32_t>(length), line.file});
    used_ += length;
  }
  void append(line_block const& other, std::size_t i) {
    entry const& e = other.entries_[i];
    append(raw_line{other.text(i), e.row, e.line, e.file});
  }

  /// What the reader learnt from the head of the stream (for instance which column is which), so that a rank that does
  /// not see the stream can parse.
  std::vector<std::uint32_t> head;

  /// Replaces `out` by this block as bytes (same machine type on both ends).
  void serialize(std::vector<std::byte>& out) const {
    std::uint64_t const sizes[3] = {entries_.size(), head.size(), used_};
    out.resize(sizeof sizes + entries_.size() * sizeof(entry) + head.size() * sizeof(std::uint32_t) + used_);
    std::byte* to = out.data();
    auto const put = [&](void const* from, std::size_t n) {
      if (n > 0) std::memcpy(to, from, n);
      to += n;
    };
    put(sizes, sizeof sizes);
    put(entries_.data(), entries_.size() * sizeof(entry));
    put(head.data(), head.size() * sizeof(std::uint32_t));
    put(text_.data(), used_);
  }

  /// @throws data_error when the bytes are not those of a block.
  void deserialize(std::span<std::byte const> in) {
    std::uint64_t sizes[3] = {};
    auto const take = [&](void* to, std::size_t n) {
      if (n > in.size()) throw data_error{"a block of lines arrived cut short"};
      if (n > 0) std::memcpy(to, in.data(), n);
      in = in.subspan(n);
    };
    take(sizes, sizeof sizes);
    if (sizes[0] > in.size() / sizeof(entry) || sizes[1] > in.size() / sizeof(std::uint32_t) || sizes[2] > in.size())
      throw data_error{"a block of lines arrived cut short"};
    entries_.resize(sizes[0]);
    take(entries_.data(), sizes[0] * sizeof(entry));
    head.resize(sizes[1]);
    take(head.data(), sizes[1] * sizeof(std::uint32_t));
    used_ = sizes[2];
    if (text_.size() < used_ + padding) text_.resize(used_ + padding);
    take(text_.data(), used_);
    for (entry const& e : entries_) {
      if (e.offset > used_ || e.length > used_ - e.offset) throw data_error{"a block of lines arrived damaged"};
    }
  }

 private:
  std::vector<entry> entries_;
  std::vector<char> text_;  // size() is its capacity; used_ bytes are text
  std::size_t used_ = 0;
};

}  // namespace nestpipe::data
