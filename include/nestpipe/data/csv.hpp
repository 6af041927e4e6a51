#pragma once
/// @file
/// CSV with a header row or declared columns.

#include <nestpipe/data/csv_columns.hpp>
#include <nestpipe/data/label_task.hpp>
#include <nestpipe/data/line_dataset.hpp>
#include <nestpipe/data/parse_number.hpp>
#include <nestpipe/data/text_key.hpp>

#include <algorithm>
#include <cmath>

namespace nestpipe::data {

struct csv_options {
  line_options lines{};
  std::string label{};                     ///< column of the label; empty: none, labels read 0 (for prediction)
  std::vector<std::string> categorical{};  ///< columns of ids, in the order of the schema
  std::vector<std::string> dense{};        ///< columns of numbers, in the order of the schema
  std::vector<std::string> columns{};      ///< names of all columns of a file without a header row
  bool header = true;                      ///< false, and no names: columns are addressed by number only
  char delimiter = ',';
  char value_separator = 0;                ///< between the values of one categorical cell; 0: one value a cell
  std::vector<std::string> positive{};     ///< label texts that mean 1 (all others 0); empty: the label is a number
  label_task task = label_task::binary;
  std::vector<std::string> missing{"", "?", "NA", "NaN", "nan", "NULL", "null", "\\N"};  ///< texts of a missing number
  dense_transform transform{};
};

/// Columns are addressed by name, or by number from 0 ("#0", "0"), which an unnamed column needs.
/// - categorical: the key is text_key of the cell (so "7" and "07" differ, and 128-bit strings are hashed to 64 bits); an
///   empty cell is an empty bag; any other text, "?" included, is a value. With a value separator each part is one id.
/// - dense: any finite decimal number; the `missing` texts are missing (see dense_transform).
/// - label: 0 or 1; or one of `positive`; or any finite number for regression.
class csv_format {
 public:
  using options = csv_options;
  static constexpr bool weighted = false;

  explicit csv_format(options o) : options_{std::move(o)} {
    require(!options_.categorical.empty() || !options_.dense.empty(), "csv: no input columns", {}, "name categorical or dense columns");
    for (auto const* list : {&options_.categorical, &options_.dense}) {
      for (std::size_t i = 0; i < list->size(); ++i) {
        std::string const& name = (*list)[i];
        require(options_.label.empty() || name != options_.label, "csv: the label is among the inputs", "column " + name, "remove it there");
        require(std::count(list->begin(), list->end(), name) == 1, "csv: a column is named twice", "column " + name, "remove one");
      }
    }
    require(options_.delimiter != '"' && options_.delimiter != '\n', "csv: the delimiter cannot be a quote or a line end");
    require(options_.value_separator == 0 || options_.value_separator != options_.delimiter, "csv: values and cells have the same separator");
    schema_.features = options_.categorical;
    schema_.dense = options_.dense.size();
    schema_.dense_names = options_.dense;
  }

  static line_rules rules(options const& o) {
    return {.header = o.header && o.columns.empty(), .quotes = true, .delimiter = o.delimiter};
  }
  struct nestpipe::schema const& schema() const { return schema_; }
  dense_transform& transform() { return options_.transform; }

  /// Number of columns, the label's number + 1 (0: none), then the numbers of the categorical and dense columns.
  std::vector<std::uint32_t> head(line_source& source) const {
    std::string const first = source.peek();
    std::string const& where = source.paths()[0];
    csv_splitter split;
    std::vector<std::string_view> cells;
    std::vector<std::string> names = options_.columns;
    if (names.empty()) {
      if (!split(options_.header ? source.header() : first, options_.delimiter, cells))
        throw data_error{"the first row has a quote that is not closed", where, "correct it"};
      for (std::string_view const cell : cells) names.emplace_back(options_.header ? cell : std::string_view{});
    }
    std::vector<std::uint32_t> head{static_cast<std::uint32_t>(names.size())};
    head.push_back(options_.label.empty() ? 0 : find_column(names, options_.label, where) + 1);
    for (auto const* list : {&options_.categorical, &options_.dense}) {
      for (std::string const& name : *list) {
        head.push_back(find_column(names, name, where));
        if (head.back() + 1 == head[1]) throw data_error{"the label is among the inputs, under another name", where + ", column " + name, "remove it there"};
      }
    }
    return head;
  }

  bool parse_line(std::string_view line, std::span<std::uint32_t const> head, sample_builder& builder, line_fault& fault) const {
    thread_local csv_splitter split;
    thread_local std::vector<std::string_view> cells;
    if (!split(line, options_.delimiter, cells)) {
      fault = {.reason = "a quoted cell is not closed, or text follows its closing quote"};
      return false;
    }
    if (cells.size() != head[0]) {
      fault = {.reason = options_.columns.empty() ? "not as many as the first row has" : "not as many as were declared",
               .name = "found " + std::to_string(cells.size()) + (cells.size() == 1 ? " column" : " columns") + " instead of " + std::to_string(head[0])};
      return false;
    }
    *builder.labels() = 0;
    if (head[1] != 0 && !parse_label(cells[head[1] - 1], *builder.labels(), fault)) return false;
    std::uint32_t const* column = head.data() + 2;
    for (std::uint32_t f = 0; f < options_.categorical.size(); ++f) {
      std::string_view cell = cells[*column++];
      if (options_.value_separator == 0) {
        if (!cell.empty()) builder.id(f, text_key(cell));
        continue;
      }
      while (!cell.empty()) {
        std::size_t const stop = std::min(cell.find(options_.value_separator), cell.size());
        std::string_view const value = trimmed(cell.substr(0, stop));
        if (!value.empty()) builder.id(f, text_key(value));
        cell.remove_prefix(std::min(stop + 1, cell.size()));
      }
    }
    float* const dense = builder.dense();
    for (std::size_t d = 0; d < options_.dense.size(); ++d) {
      std::string_view const cell = cells[*column++];
      double x = 0;
      number_status const status = parse_real(cell, x);
      if (status == number_status::good) {
        dense[d] = options_.transform(x);
      } else if (std::find(options_.missing.begin(), options_.missing.end(), cell) != options_.missing.end()) {
        dense[d] = options_.transform.missing;
      } else {
        fault = {.reason = status == number_status::bad ? "not a number" : "number out of range", .text = cell, .name = options_.dense[d]};
        return false;
      }
    }
    return true;
  }

 private:
  bool parse_label(std::string_view cell, float& label, line_fault& fault) const {
    if (!options_.positive.empty()) {
      if (!cell.empty()) {
        label = std::find(options_.positive.begin(), options_.positive.end(), cell) != options_.positive.end() ? 1.0f : 0.0f;
        return true;
      }
      fault = {.reason = "the label is empty", .name = options_.label};
      return false;
    }
    double x = 0;
    bool const number = parse_real(cell, x) == number_status::good;
    if (!number || (options_.task == label_task::binary && x != 0 && x != 1)) {
      fault = {.reason = options_.task == label_task::binary ? "not 0 or 1" : "not a finite number", .text = cell, .name = options_.label};
      if (options_.task == label_task::binary && !number) fault.remedy = "if the label is text, say which texts are positive";
      return false;
    }
    label = static_cast<float>(x);
    return true;
  }

  options options_;
  struct nestpipe::schema schema_;
};

/// @code
/// data::csv train{"train.csv.gz", {.label = "is_click", .categorical = {"user_id", "tag"}, .dense = {"age"}, .value_separator = '|'}};
/// @endcode
using csv = line_dataset<csv_format>;

}  // namespace nestpipe::data
