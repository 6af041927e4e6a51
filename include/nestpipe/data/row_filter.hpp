#pragma once
/// @file
/// Which rows of a stream a dataset delivers: a part of a split by row number, or a range of row numbers.

#include <nestpipe/core/error.hpp>

#include <charconv>
#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <string_view>

namespace nestpipe::data {

enum class split_part : std::uint8_t { all, train, valid, test };

/// A fixed split of one stream into train, valid and test rows by row number modulo `modulo`.
struct row_split {
  std::uint64_t modulo = 1;
  std::optional<std::uint64_t> valid{};  ///< remainder of the valid rows
  std::optional<std::uint64_t> test{};   ///< remainder of the test rows

  /// Reads "MOD:VALID:TEST", for instance "10:8:9"; "-" for a part that does not exist.
  /// @throws config_error naming the text.
  static row_split from_text(std::string_view text) {
    row_split split;
    std::optional<std::uint64_t> parts[3];
    std::string_view rest = text;
    for (int i = 0; i < 3; ++i) {
      std::size_t const colon = rest.find(':');
      std::string_view const part = rest.substr(0, colon);
      require(i == 2 ? colon == std::string_view::npos : colon != std::string_view::npos, "a split is MOD:VALID:TEST",
              std::string{text}, "for instance 10:8:9, or 10:8:- for no test part");
      if (part != "-") {
        std::uint64_t value = 0;
        auto const [end, fault] = std::from_chars(part.data(), part.data() + part.size(), value);
        require(fault == std::errc{} && end == part.data() + part.size() && !part.empty(),
                "a split is three numbers MOD:VALID:TEST", std::string{text}, "for instance 10:8:9");
        parts[i] = value;
      }
      rest.remove_prefix(colon == std::string_view::npos ? rest.size() : colon + 1);
    }
    require(parts[0].has_value(), "a split needs its modulus", std::string{text}, "for instance 10:8:9");
    split.modulo = *parts[0];
    split.valid = parts[1];
    split.test = parts[2];
    split.check();
    return split;
  }

  /// @throws config_error unless both remainders are below the modulus and differ.
  void check() const {
    require(modulo >= 1, "the modulus of a split must be at least 1");
    require((!valid || *valid < modulo) && (!test || *test < modulo), "a remainder of a split must be below its modulus",
            {}, "for instance 10:8:9");
    require(!valid || valid != test, "valid and test rows of a split are the same rows", {}, "give two remainders");
  }
};

/// Rows in [first, last) that belong to `part` of `split`. Row numbers are those of all data rows of the stream, so the
/// parts of one stream never overlap.
struct row_filter {
  row_split split{};
  split_part part = split_part::all;
  std::uint64_t first = 0;
  std::uint64_t last = std::numeric_limits<std::uint64_t>::max();

  static row_filter part_of(row_split split, split_part part) {
    split.check();
    require(part != split_part::valid || split.valid.has_value(), "the split has no valid rows", {}, "name their remainder: MOD:VALID:TEST");
    require(part != split_part::test || split.test.has_value(), "the split has no test rows", {}, "name their remainder: MOD:VALID:TEST");
    return {.split = split, .part = part};
  }
  /// The first n rows.
  static row_filter first_rows(std::uint64_t n) { return {.last = n}; }
  /// All rows but the first n.
  static row_filter after_rows(std::uint64_t n) { return {.first = n}; }

  bool accepts(std::uint64_t row) const {
    if (row < first || row >= last) return false;
    if (part == split_part::all) return true;
    std::uint64_t const remainder = row % split.modulo;
    if (part == split_part::valid) return remainder == split.valid;
    if (part == split_part::test) return remainder == split.test;
    return remainder != split.valid && remainder != split.test;
  }
  /// No row from here on is accepted.
  bool past(std::uint64_t row) const { return row >= last; }
};

}  // namespace nestpipe::data
