#pragma once
/// @file
/// What libsvm, libffm and slot files share: a label, then words set apart by white space.

#include <nestpipe/data/line_dataset.hpp>
#include <nestpipe/data/parse_number.hpp>

namespace nestpipe::data {

/// Words of a line, up to a comment.
class word_reader {
 public:
  explicit word_reader(std::string_view line) : line_{line.substr(0, line.find('#'))} {}
  /// Next word, or an empty one at the end.
  std::string_view next() {
    while (at_ < line_.size() && space(line_[at_])) ++at_;
    std::size_t const begin = at_;
    while (at_ < line_.size() && !space(line_[at_])) ++at_;
    return line_.substr(begin, at_ - begin);
  }

 private:
  static bool space(char c) { return c == ' ' || c == '\t' || c == '\r'; }
  std::string_view line_;
  std::size_t at_ = 0;
};

/// Reads a label: 0 or 1, or -1 for 0; any finite number when `real`.
inline bool parse_signed_label(std::string_view word, bool real, float& label, line_fault& fault) {
  double x = 0;
  if (parse_real(word, x) == number_status::good && (real || x == 0 || x == 1 || x == -1)) {
    label = static_cast<float>(real || x > 0 ? x : 0.0);
    return true;
  }
  fault = {.reason = real ? "not a finite number" : "not 0, 1 or -1", .text = word, .name = "label"};
  return false;
}

/// Reads the value after the colon.
inline bool parse_weight(std::string_view word, std::string_view whole, float& weight, line_fault& fault) {
  double x = 0;
  number_status const status = parse_real(word, x);
  if (status == number_status::good) {
    weight = static_cast<float>(x);
    return true;
  }
  fault = {.reason = status == number_status::bad ? "its value is not a finite number" : "its value is out of range", .text = whole, .name = "pair"};
  return false;
}

}  // namespace nestpipe::data
