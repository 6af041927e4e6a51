#pragma once
/// @file
/// libsvm lines (libFM's are the same): `label index:value index:value ... # comment`.

#include <nestpipe/data/label_task.hpp>
#include <nestpipe/data/pair_parser.hpp>

namespace nestpipe::data {

/// - bag: all pairs of a line are one bag of the feature `ids`.
/// - positional: the j-th pair of a line is the id of feature `field_j` (files that have one index per field, in order).
enum class libsvm_fields : std::uint8_t { bag, positional };

struct libsvm_options {
  line_options lines{};
  libsvm_fields fields = libsvm_fields::bag;
  std::size_t features = 0;  ///< of a positional file; 0: as many as the first row has pairs
  label_task task = label_task::binary;
};

/// The index is the key (64 bits; 0 is a key like any other, and order does not matter), the value its weight. An index
/// without a colon has weight 1. Labels are 0/1 or -1/1, or any finite number for regression. A line of a label only is an empty
/// bag. A positional line may have fewer pairs than features: the rest are empty.
class libsvm_format {
 public:
  using options = libsvm_options;
  static constexpr bool weighted = true;

  explicit libsvm_format(options const& o) : options_{o} {
    if (o.fields == libsvm_fields::bag) schema_.features = {"ids"};
    if (o.fields == libsvm_fields::positional && o.features > 0) name_features(o.features);
  }

  static line_rules rules(options const&) { return {.tabs_are_blank = true, .comment = '#'}; }
  /// @throws config_error when it is positional, from standard input, and `features` is not given.
  struct nestpipe::schema const& schema() const {
    require(!schema_.features.empty(), "libsvm: the number of positional features is not known before reading standard input", {}, "give it");
    return schema_;
  }

  std::vector<std::uint32_t> head(line_source& source) {
    if (!schema_.features.empty()) return {};
    std::string const first = source.peek();
    word_reader words{first};
    (void)words.next();
    std::size_t pairs = 0;
    while (!words.next().empty()) ++pairs;
    if (pairs == 0) throw data_error{"the first row has no pairs to count the features by", source.paths()[0], "give the number of features"};
    name_features(pairs);
    return {};
  }

  bool parse_line(std::string_view line, std::span<std::uint32_t const>, sample_builder& builder, line_fault& fault) const {
    word_reader words{line};
    if (!parse_signed_label(words.next(), options_.task == label_task::regression, *builder.labels(), fault)) return false;
    bool const positional = options_.fields == libsvm_fields::positional;
    std::size_t pair = 0;
    for (std::string_view word = words.next(); !word.empty(); word = words.next(), ++pair) {
      std::size_t const colon = word.find(':');
      key_type key = 0;
      float weight = 1;
      if (!parse_unsigned(word.substr(0, colon), key)) {
        fault = {.reason = "its index is not an unsigned 64-bit number", .text = word, .name = "pair"};
        return false;
      }
      if (colon != std::string_view::npos) {
        std::string_view const value = word.substr(colon + 1);
        if (value.find(':') != std::string_view::npos) {
          fault = {.reason = "has two colons", .text = word, .name = "pair", .remedy = "read field:index:value as libffm"};
          return false;
        }
        if (!parse_weight(value, word, weight, fault)) return false;
      }
      if (positional && pair >= schema_.features.size()) {
        fault = {.reason = "more pairs than features", .text = word, .name = "pair"};
        return false;
      }
      builder.id(positional ? static_cast<std::uint32_t>(pair) : 0U, key, weight);
    }
    return true;
  }

 private:
  void name_features(std::size_t n) {
    for (std::size_t j = 0; j < n; ++j) schema_.features.push_back("field_" + std::to_string(j));
  }
  options options_;
  struct nestpipe::schema schema_;
};

using libsvm = line_dataset<libsvm_format>;

}  // namespace nestpipe::data
