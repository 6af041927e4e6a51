#pragma once
/// @file
/// Criteo click logs: label, 13 integers, 26 hexadecimal ids, separated by tabs.

#include <nestpipe/data/line_dataset.hpp>
#include <nestpipe/data/parse_number.hpp>

#include <algorithm>
#include <bit>

namespace nestpipe::data {

/// - detect: a stream whose first row has 39 columns has no label column (as test.txt of the Kaggle set).
/// - present, absent: as stated; rows of the other form are malformed.
enum class label_column : std::uint8_t { detect, present, absent };

struct criteo_options {
  line_options lines{};
  label_column label = label_column::detect;
  dense_transform transform{};
};

/// Columns `label`, `int_0` .. `int_12`, `cat_0` .. `cat_25`.
/// - label: a number equal to 0 or 1. Without a label column all labels read 0.
/// - integer: any finite decimal number ("5.0" too); empty is missing. See dense_transform.
/// - id: 1 to 16 hexadecimal digits become the 64-bit key; empty, or "-1" as some tools write, is missing: an empty bag.
class criteo_format {
 public:
  using options = criteo_options;
  static constexpr bool weighted = false;
  static constexpr std::size_t integers = 13;
  static constexpr std::size_t categories = 26;

  explicit criteo_format(options const& o) : label_{o.label}, transform_{o.transform} {
    schema_.dense = integers;
    for (std::size_t i = 0; i < integers; ++i) schema_.dense_names.push_back("int_" + std::to_string(i));
    for (std::size_t i = 0; i < categories; ++i) schema_.features.push_back("cat_" + std::to_string(i));
  }

  static line_rules rules(options const&) { return {}; }
  struct nestpipe::schema const& schema() const { return schema_; }
  dense_transform& transform() { return transform_; }

  /// One number: whether rows start with a label.
  std::vector<std::uint32_t> head(line_source& source) const {
    bool labelled = label_ == label_column::present;
    if (label_ == label_column::detect) {
      std::string const first = source.peek();
      labelled = std::count(first.begin(), first.end(), '\t') != integers + categories - 1;
    }
    return {labelled ? 1U : 0U};
  }

  bool parse_line(std::string_view line, std::span<std::uint32_t const> head, sample_builder& builder, line_fault& fault) const {
    char const* p = line.data();
    char const* const end = p + line.size();
    bool const labelled = head.empty() || head[0] != 0;
    float label = 0;
    if (labelled) {
      if (line.size() > 1 && p[1] == '\t' && (p[0] == '0' || p[0] == '1')) {
        label = static_cast<float>(p[0] - '0');
        p += 2;
      } else if (!odd_label(line, p, label, fault)) {
        return false;
      }
    }
    *builder.labels() = label;
    float* const dense = builder.dense();
    for (std::size_t i = 0; i < integers; ++i) {
      char const* q = p;
      // Counts of up to seven digits straight away; whatever else goes the long way.
      std::uint32_t v = 0;
      while (q < end && static_cast<unsigned char>(*q - '0') < 10 && q - p < 8) v = v * 10 + static_cast<std::uint32_t>(*q++ - '0');
      if (q < end && *q == '\t' && q - p < 8) {
        dense[i] = q == p ? transform_.missing : transform_.count(v);
        p = q + 1;
        continue;
      }
      std::string_view field;
      if (!next_field(p, end, field)) return wrong_columns(line, labelled, fault);
      double x = 0;
      if (number_status const status = parse_real(field, x); status != number_status::good) {
        if (columns(line) != expected(labelled)) return wrong_columns(line, labelled, fault);
        fault = {.reason = status == number_status::bad ? "not a number" : "number out of range", .text = field, .name = schema_.dense_names[i]};
        return false;
      }
      dense[i] = transform_(x);
    }
    for (std::uint32_t f = 0; f < categories; ++f) {
      // Eight digits are the rule; the padding behind every line makes the wide read safe.
      std::uint64_t key = 0;
      if (end - p >= 8 && (end - p == 8 || p[8] == '\t') && parse_hex8(p, key)) {
        builder.id(f, key);
        p += 8;
        if (p == end) {
          if (f + 1 == categories) return true;
          return wrong_columns(line, labelled, fault);
        }
        ++p;
        if (f + 1 == categories) return wrong_columns(line, labelled, fault);
        continue;
      }
      char const* const tab = p < end ? static_cast<char const*>(std::memchr(p, '\t', static_cast<std::size_t>(end - p))) : nullptr;
      if ((tab == nullptr) != (f + 1 == categories)) return wrong_columns(line, labelled, fault);
      std::string_view const field{p, static_cast<std::size_t>((tab == nullptr ? end : tab) - p)};
      if (!field.empty() && field != "-1") {
        if (!parse_hex(field, key)) {
          if (columns(line) != expected(labelled)) return wrong_columns(line, labelled, fault);
          fault = {.reason = "not an id of 1 to 16 hexadecimal digits", .text = field, .name = schema_.features[f]};
          return false;
        }
        builder.id(f, key);
      }
      p = tab == nullptr ? end : tab + 1;
    }
    return true;
  }

 private:
  static std::size_t expected(bool labelled) { return integers + categories + (labelled ? 1 : 0); }
  static std::size_t columns(std::string_view line) { return static_cast<std::size_t>(std::count(line.begin(), line.end(), '\t')) + 1; }

  static bool next_field(char const*& p, char const* end, std::string_view& field) {
    char const* const tab = p < end ? static_cast<char const*>(std::memchr(p, '\t', static_cast<std::size_t>(end - p))) : nullptr;
    if (tab == nullptr) return false;
    field = {p, static_cast<std::size_t>(tab - p)};
    p = tab + 1;
    return true;
  }

  static bool odd_label(std::string_view line, char const*& p, float& label, line_fault& fault) {
    if (columns(line) != expected(true)) return wrong_columns(line, true, fault);
    std::string_view field;
    next_field(p, line.data() + line.size(), field);
    double x = 0;
    if (parse_real(field, x) != number_status::good || (x != 0 && x != 1)) {
      fault = {.reason = "not 0 or 1", .text = field, .name = "label"};
      return false;
    }
    label = static_cast<float>(x);
    return true;
  }

  static bool wrong_columns(std::string_view line, bool labelled, line_fault& fault) {
    std::size_t const found = columns(line);
    fault.reason = labelled ? "expected 40 columns separated by tabs" : "expected 39 columns separated by tabs, as in the first row";
    fault.name = "found " + std::to_string(found) + (found == 1 ? " column" : " columns");
    if (found == 1 && std::count(line.begin(), line.end(), ',') >= 2) fault.remedy = "commas separate its fields: read it as csv";
    return false;
  }

  label_column label_;
  dense_transform transform_;
  struct nestpipe::schema schema_;
};

/// @code
/// data::criteo_tsv train{"day_0.tsv", {.lines = {.shuffle_window = 100000}}};
/// @endcode
using criteo_tsv = line_dataset<criteo_format>;

}  // namespace nestpipe::data
