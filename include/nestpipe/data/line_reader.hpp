#pragma once
/// @file
/// Data lines of one or more inputs, in order: blank lines, comments, headers and byte-order marks are taken care of.

#include <nestpipe/data/line_block.hpp>
#include <nestpipe/data/open_stream.hpp>

#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace nestpipe::data {

/// What counts as a data line in a format.
struct line_rules {
  bool header = false;         ///< the first line of each file names the columns
  bool quotes = false;         ///< a cell in double quotes may hold line ends (RFC 4180)
  char delimiter = ',';        ///< between cells; only looked at with `quotes`
  bool tabs_are_blank = false; ///< a line of tabs only is blank (formats whose fields are set apart by any white space)
  char comment = 0;            ///< a line that starts with it is no data row; 0: none
};

class line_reader {
 public:
  static constexpr std::size_t longest_line = std::size_t{16} << 20;
  static constexpr std::size_t longest_quoted = std::size_t{64} << 10;  ///< of a record over several lines

  line_reader(std::vector<std::string> paths, line_rules rules) : paths_{std::move(paths)}, rules_{rules}, buffer_(std::size_t{1} << 20) {}

  /// Next data line, or false after the last.
  /// @throws data_error naming file and line: unreadable, empty, UTF-16, a line over 16 MiB, no data rows at all.
  bool next(raw_line& out) {
    if (held_) {
      held_ = false;
      out = last_;
      return true;
    }
    std::string_view text;
    for (;;) {
      if (stream_ == nullptr && !open()) return false;
      if (!physical(text)) {
        stream_.reset();
        ++file_;
        continue;
      }
      if (!blank(text)) break;
    }
    out = last_ = raw_line{text, rows_++, line_, file_};
    return true;
  }

  /// The line that the last next() gave comes again.
  void hold() { held_ = true; }

  /// The header row of the first file; empty until a line was read.
  std::string const& header() const { return header_; }

 private:
  bool open() {
    if (file_ == paths_.size()) {
      if (rows_ == 0) throw data_error{"no data rows in the input", paths_.empty() ? std::string{} : paths_[0], "give a file with data rows"};
      return false;
    }
    std::string const& path = paths_[file_];
    stream_ = open_stream(path);
    begin_ = end_ = 0;
    line_ = pending_lines_ = 0;
    while (end_ - begin_ < 3 && fill()) {
    }
    if (begin_ == end_) throw data_error{"the input is empty", name(), "give a file with data rows"};
    auto const byte = [&](std::size_t i) { return begin_ + i < end_ ? static_cast<unsigned char>(buffer_[begin_ + i]) : 0U; };
    if ((byte(0) == 0xff && byte(1) == 0xfe) || (byte(0) == 0xfe && byte(1) == 0xff))
      throw data_error{"the file is UTF-16 text", name(), "convert it to UTF-8: iconv -f UTF-16 -t UTF-8"};
    if (byte(0) == 0xef && byte(1) == 0xbb && byte(2) == 0xbf) begin_ += 3;
    if (rules_.header) {
      std::string_view text;
      do {
        if (!physical(text)) throw data_error{"the file has no header row", name(), "name the columns, or give a file with a header"};
      } while (blank(text));
      if (file_ == 0) {
        header_.assign(text);
      } else if (text != header_) {
        throw data_error{"its header row is not that of the first file", name() + ":" + std::to_string(line_), "give files with the same columns"};
      }
    }
    return true;
  }

  std::string name() const { return paths_[file_] == standard_input ? "standard input" : paths_[file_]; }

  bool blank(std::string_view text) const {
    for (char const c : text) {
      if (c == ' ' || (c == '\t' && rules_.tabs_are_blank)) continue;
      return rules_.comment != 0 && c == rules_.comment;
    }
    return true;
  }

  /// Next line of this file without its end; false at the end of the file.
  bool physical(std::string_view& text) {
    line_ += pending_lines_;
    std::size_t stop = newline(0);
    if (stop == none) {
      stop = end_ - begin_;
      if (stop == 0) return false;
    }
    pending_lines_ = 0;
    ++line_;
    if (rules_.quotes) stop = quoted(stop);
    text = {buffer_.data() + begin_, stop};
    begin_ += std::min(stop + 1, end_ - begin_);
    if (!text.empty() && text.back() == '\r') text.remove_suffix(1);
    return true;
  }

  /// Where the record whose first line ends at `first` ends, as an offset from begin_.
  std::size_t quoted(std::size_t first) {
    std::size_t done = 0;
    std::size_t stop = first;
    std::uint64_t lines = 0;
    bool inside = false;
    bool cell_start = true;
    if (std::memchr(buffer_.data() + begin_, '"', first) == nullptr) return first;
    for (;;) {
      char const* text = buffer_.data() + begin_;
      for (; done < stop; ++done) {
        char const c = text[done];
        if (inside) {
          if (c == '"') inside = false;  // a doubled quote opens again at once
        } else if (c == '"' && (cell_start || (done > 0 && text[done - 1] == '"'))) {
          inside = true;
          cell_start = false;
        } else {
          cell_start = c == rules_.delimiter || (cell_start && c == ' ');
        }
      }
      if (!inside) {
        pending_lines_ = lines;
        return stop;
      }
      // Not closed: take the next line in, unless there is none or the quote is a stray one.
      if (stop >= end_ - begin_ || stop > longest_quoted) return first;
      std::size_t const more = newline(stop + 1);
      if (more == none && stop + 1 >= end_ - begin_) return first;
      stop = more == none ? end_ - begin_ : more;
      ++lines;
    }
  }

  static constexpr std::size_t none = static_cast<std::size_t>(-1);

  /// Offset from begin_ of the first line end at or after `from`; reads on as needed.
  std::size_t newline(std::size_t from) {
    for (;;) {
      std::size_t const have = end_ - begin_;
      if (from < have) {
        char const* const start = buffer_.data() + begin_;
        if (void const* found = std::memchr(start + from, '\n', have - from)) return static_cast<std::size_t>(static_cast<char const*>(found) - start);
        from = have;
      }
      if (have > longest_line)
        throw data_error{"a line is longer than 16 MiB", name() + ":" + std::to_string(line_ + 1), "is this a text file with one sample a line?"};
      if (!fill()) return none;
    }
  }

  bool fill() {
    if (begin_ > 0) {
      std::memmove(buffer_.data(), buffer_.data() + begin_, end_ - begin_);
      end_ -= begin_;
      begin_ = 0;
    }
    if (end_ == buffer_.size()) buffer_.resize(buffer_.size() * 2);
    std::size_t const n = stream_->read(buffer_.data() + end_, buffer_.size() - end_);
    end_ += n;
    return n > 0;
  }

  std::vector<std::string> paths_;
  line_rules rules_;
  std::unique_ptr<byte_stream> stream_;
  std::vector<char> buffer_;  // [begin_, end_) is not yet given out
  std::size_t begin_ = 0;
  std::size_t end_ = 0;
  std::uint32_t file_ = 0;
  std::uint64_t line_ = 0;
  std::uint64_t pending_lines_ = 0;  // line ends inside the last record
  std::uint64_t rows_ = 0;
  raw_line last_{};
  bool held_ = false;
  std::string header_;
};

}  // namespace nestpipe::data
