#pragma once
/// @file
/// Slot lines, as industrial click logs have them: `label id:slot id:slot ...`, several ids a slot, ids of all 64 bits.

#include <nestpipe/data/field_format.hpp>

namespace nestpipe::data {

/// A feature `slot_N` for each slot number N. The label may itself be written as a pair (`1:1`: value 1 of the label's
/// slot, as in PaddleRec's files); what follows the colon there is not used.
struct slots_word {
  static constexpr bool weighted = false;
  static constexpr char prefix[] = "slot_";

  static std::string_view label(std::string_view word) { return word.substr(0, word.find(':')); }
  static bool split(std::string_view word, std::uint64_t& field, key_type& key, float&, line_fault& fault) {
    std::size_t const colon = word.find(':');
    if (colon == std::string_view::npos || !parse_unsigned(word.substr(0, colon), key) || !parse_unsigned(word.substr(colon + 1), field)) {
      fault = {.reason = "not id:slot with unsigned 64-bit numbers", .text = word, .name = "word"};
      return false;
    }
    return true;
  }
};

using slots_options = field_options;
using slots = line_dataset<field_format<slots_word>>;

}  // namespace nestpipe::data
