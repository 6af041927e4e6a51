#pragma once
/// @file
/// Lines whose ids name their own field: the list of fields is the schema, given or found by a pass over the input.

#include <nestpipe/data/label_task.hpp>
#include <nestpipe/data/pair_parser.hpp>

#include <algorithm>
#include <limits>

namespace nestpipe::data {

struct field_options {
  line_options lines{};
  std::vector<std::uint64_t> fields{};  ///< numbers of the fields (slots) to read; empty: all that occur in the input
  label_task task = label_task::binary;
};

/// Word is a policy that splits one word into field, key and weight:
/// `static bool Word::split(std::string_view, std::uint64_t& field, key_type&, float& weight, line_fault&)`, with
/// `Word::weighted`, `Word::prefix` (of feature names: "field_" gives "field_7"), and `Word::label(std::string_view)`.
/// Ids of fields that are not in the list are passed over, so that a test file may have more than the train file.
/// Finding the fields is one pass of all lines, without the filter: O(bytes).
template <class Word>
class field_format {
 public:
  using options = field_options;
  static constexpr bool weighted = Word::weighted;

  explicit field_format(options o) : options_{std::move(o)} {
    if (!options_.fields.empty()) set_fields(options_.fields);
  }

  static line_rules rules(options const&) { return {.tabs_are_blank = true, .comment = '#'}; }
  /// @throws config_error when the input is standard input and `fields` is not given.
  struct nestpipe::schema const& schema() const {
    require(!schema_.features.empty(), "the fields are not known before reading standard input", {}, "list them");
    return schema_;
  }
  /// Numbers of the fields, ascending: for readers of further files with the same schema.
  std::vector<std::uint64_t> const& fields() const { return fields_; }

  std::vector<std::uint32_t> head(line_source& source) {
    if (!fields_.empty()) return {};
    std::vector<std::uint64_t> found;
    line_reader reader{source.paths(), rules(options_)};
    raw_line line;
    while (reader.next(line)) {
      word_reader words{line.text};
      (void)words.next();
      for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
        std::uint64_t field = 0;
        key_type key = 0;
        float weight = 0;
        line_fault fault;
        if (!Word::split(word, field, key, weight, fault)) break;
        auto const at = std::lower_bound(found.begin(), found.end(), field);
        if (at != found.end() && *at == field) continue;
        found.insert(at, field);
        if (found.size() > 100'000) throw data_error{"more than 100000 different fields", source.where({.line = line.line, .file = line.file}), "is this the right format?"};
      }
    }
    if (found.empty()) throw data_error{"no field:id pairs in the input", source.paths()[0], "is this the right format?"};
    set_fields(found);
    return {};
  }

  bool parse_line(std::string_view line, std::span<std::uint32_t const>, sample_builder& builder, line_fault& fault) const {
    word_reader words{line};
    if (!parse_signed_label(Word::label(words.next()), options_.task == label_task::regression, *builder.labels(), fault)) return false;
    for (std::string_view word = words.next(); !word.empty(); word = words.next()) {
      std::uint64_t field = 0;
      key_type key = 0;
      float weight = 1;
      if (!Word::split(word, field, key, weight, fault)) return false;
      std::uint32_t const f = index_of(field);
      if (f == absent) continue;
      if constexpr (weighted) {
        builder.id(f, key, weight);
      } else {
        builder.id(f, key);
      }
    }
    return true;
  }

 private:
  static constexpr std::uint32_t absent = std::numeric_limits<std::uint32_t>::max();

  void set_fields(std::vector<std::uint64_t> fields) {
    std::sort(fields.begin(), fields.end());
    require(std::adjacent_find(fields.begin(), fields.end()) == fields.end(), "a field is listed twice", {}, "remove one");
    fields_ = std::move(fields);
    std::uint64_t const direct = std::min<std::uint64_t>(fields_.back() + 1, 1U << 16);
    direct_.assign(direct, absent);
    for (std::size_t i = 0; i < fields_.size(); ++i) {
      schema_.features.push_back(Word::prefix + std::to_string(fields_[i]));
      if (fields_[i] < direct) direct_[fields_[i]] = static_cast<std::uint32_t>(i);
    }
  }

  std::uint32_t index_of(std::uint64_t field) const {
    if (field < direct_.size()) return direct_[field];
    auto const at = std::lower_bound(fields_.begin(), fields_.end(), field);
    return at != fields_.end() && *at == field ? static_cast<std::uint32_t>(at - fields_.begin()) : absent;
  }

  options options_;
  std::vector<std::uint64_t> fields_;
  std::vector<std::uint32_t> direct_;  // of small field numbers
  struct nestpipe::schema schema_;
};

}  // namespace nestpipe::data
