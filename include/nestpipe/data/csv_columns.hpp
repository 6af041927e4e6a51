#pragma once
/// @file
/// Cells of a CSV record and how columns are named.

#include <nestpipe/core/error.hpp>
#include <nestpipe/data/parse_number.hpp>

#include <algorithm>
#include <string>
#include <string_view>
#include <vector>

namespace nestpipe::data {

/// Splits a record by RFC 4180: cells between delimiters; a cell in double quotes may hold delimiters, line ends and
/// doubled quotes. Unquoted cells lose spaces at both ends.
class csv_splitter {
 public:
  /// @returns false when a quote is never closed, or is followed by more than spaces before the next delimiter.
  /// Cells are valid until the next call, as long as `record` is.
  bool operator()(std::string_view record, char delimiter, std::vector<std::string_view>& cells) {
    cells.clear();
    if (record.find('"') == std::string_view::npos) {
      std::size_t begin = 0;
      for (;;) {
        std::size_t const stop = record.find(delimiter, begin);
        cells.push_back(trimmed(record.substr(begin, stop - begin), delimiter));
        if (stop == std::string_view::npos) return true;
        begin = stop + 1;
      }
    }
    unquoted_.clear();
    unquoted_.reserve(record.size());  // so that views into it stay valid
    std::size_t i = 0;
    for (;;) {
      while (i < record.size() && record[i] == ' ') ++i;
      if (i < record.size() && record[i] == '"') {
        std::size_t const begin = unquoted_.size();
        for (++i;; ++i) {
          if (i >= record.size()) return false;
          if (record[i] == '"') {
            if (i + 1 >= record.size() || record[i + 1] != '"') break;
            ++i;
          }
          unquoted_.push_back(record[i]);
        }
        cells.push_back(std::string_view{unquoted_}.substr(begin));
        ++i;
        while (i < record.size() && record[i] == ' ') ++i;
        if (i < record.size() && record[i] != delimiter) return false;
      } else {
        std::size_t const stop = std::min(record.find(delimiter, i), record.size());
        cells.push_back(trimmed(record.substr(i, stop - i), delimiter));
        i = stop;
      }
      if (i >= record.size()) return true;
      ++i;
    }
  }

 private:
  static std::string_view trimmed(std::string_view text, char delimiter) {
    if (delimiter != '\t') return data::trimmed(text);
    while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
    while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
    return text;
  }
  std::string unquoted_;
};

/// Number of the column that `wanted` names among `names`: by name; else "#3" or "3" counts from 0 (a column without a
/// name has no other way). @throws data_error when there is none, or two have that name.
inline std::uint32_t find_column(std::vector<std::string> const& names, std::string const& wanted, std::string const& where) {
  std::size_t const same = static_cast<std::size_t>(std::count(names.begin(), names.end(), wanted));
  if (same == 1 && !wanted.empty()) return static_cast<std::uint32_t>(std::find(names.begin(), names.end(), wanted) - names.begin());
  if (same > 1) throw data_error{"two columns are named '" + wanted + "'", where, "address the column by its number from 0, for instance #3"};
  std::uint64_t number = 0;
  std::string_view const digits = std::string_view{wanted}.substr(wanted.starts_with('#') ? 1 : 0);
  if (parse_unsigned(digits, number) && number < names.size()) return static_cast<std::uint32_t>(number);
  std::string list;
  for (std::size_t i = 0; i < names.size() && i < 12; ++i) list += (i == 0 ? "" : ", ") + (names[i].empty() ? "#" + std::to_string(i) : names[i]);
  if (names.size() > 12) list += ", ...";
  throw data_error{"no column named '" + wanted + "'", where, "the " + std::to_string(names.size()) + " columns are: " + list};
}

}  // namespace nestpipe::data
