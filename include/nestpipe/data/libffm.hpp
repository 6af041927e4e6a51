#pragma once
/// @file
/// libffm lines: `label field:index:value field:index:value ...`.

#include <nestpipe/data/field_format.hpp>

namespace nestpipe::data {

/// The index is the key, the value its weight; a feature `field_N` for each field number N.
struct libffm_word {
  static constexpr bool weighted = true;
  static constexpr char prefix[] = "field_";

  static std::string_view label(std::string_view word) { return word; }
  static bool split(std::string_view word, std::uint64_t& field, key_type& key, float& weight, line_fault& fault) {
    std::size_t const first = word.find(':');
    std::size_t const second = first == std::string_view::npos ? first : word.find(':', first + 1);
    if (second == std::string_view::npos || word.find(':', second + 1) != std::string_view::npos) {
      fault = {.reason = "not field:index:value", .text = word, .name = "word"};
      if (second == std::string_view::npos && first != second) fault.remedy = "read index:value as libsvm";
      return false;
    }
    if (!parse_unsigned(word.substr(0, first), field) || !parse_unsigned(word.substr(first + 1, second - first - 1), key)) {
      fault = {.reason = "its field or index is not an unsigned 64-bit number", .text = word, .name = "word"};
      return false;
    }
    return parse_weight(word.substr(second + 1), word, weight, fault);
  }
};

using libffm_options = field_options;
using libffm = line_dataset<field_format<libffm_word>>;

}  // namespace nestpipe::data
