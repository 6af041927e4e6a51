#pragma once
/// @file
/// The framing half of every line format: chosen rows of one or more inputs, shuffled within windows, with a position.

#include <nestpipe/data/data.hpp>
#include <nestpipe/data/line_reader.hpp>
#include <nestpipe/data/row_filter.hpp>
#include <nestpipe/data/window_shuffle.hpp>

#include <concepts>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <vector>

namespace nestpipe::data {

/// One path, or several read one after another; "-" is standard input.
struct path_list {
  std::vector<std::string> paths;
  path_list(char const* path) : paths{path} {}                                      // NOLINT(google-explicit-constructor)
  path_list(std::string path) : paths{std::move(path)} {}                           // NOLINT(google-explicit-constructor)
  /// std::filesystem::path and what is like it; its header is a costly one.
  template <class Path>
    requires requires(Path const& path) { { path.string() } -> std::convertible_to<std::string>; }
  path_list(Path const& path) : paths{path.string()} {}                             // NOLINT(google-explicit-constructor)
  path_list(std::vector<std::string> several) : paths{std::move(several)} {}        // NOLINT(google-explicit-constructor)
};

/// What all line formats have in common.
struct line_options {
  bool strict = false;             ///< the first malformed line is an error instead of a count
  row_filter filter{};             ///< rows to deliver
  std::size_t shuffle_window = 0;  ///< rows permuted together; 0 or 1: the order of the file
  std::uint64_t seed = 0;          ///< of the shuffle
};

/// Rows accepted by the filter form the epoch; consecutive runs of `shuffle_window` of them are permuted by
/// (seed, epoch, run). A seek reopens the input and skips: O(bytes before the position), no parsing.
/// Copies of a source of files stand where the original stands and read on independently; copies of one that reads
/// standard input share it, so only one of them should frame.
class line_source {
 public:
  /// @throws data_error when an input is missing, a directory or empty; config_error when there is none.
  line_source(path_list inputs, line_options options, line_rules rules)
      : paths_{std::move(inputs.paths)}, options_{options}, rules_{rules} {
    require(!paths_.empty(), "no input file", {}, "name at least one");
    require(options_.shuffle_window <= std::numeric_limits<std::uint32_t>::max(), "the shuffle window is too long", {}, "use fewer than 2^32 rows");
    if (options_.shuffle_window == 1) options_.shuffle_window = 0;
    options_.filter.split.check();
    std::size_t streams = 0;
    for (std::string const& path : paths_) {
      file_stream::check(path);
      streams += path == standard_input ? 1 : 0;
    }
    require(streams <= 1, "standard input is named more than once", {}, "name - once");
    single_pass_ = streams == 1;
    if (single_pass_) state_ = std::make_shared<state>(paths_, rules_);
  }

  line_source(line_source const& other)
      : paths_{other.paths_}, options_{other.options_}, rules_{other.rules_}, single_pass_{other.single_pass_}, position_{other.position_}, size_{other.size_},
        state_{other.single_pass_ ? other.state_ : nullptr} {}
  line_source& operator=(line_source const& other) {
    if (this != &other) *this = line_source{other};
    return *this;
  }
  line_source(line_source&&) noexcept = default;
  line_source& operator=(line_source&&) noexcept = default;
  ~line_source() = default;

  /// Next `rows` rows into `block` (cleared first; its head is left alone). @returns how many; fewer at the end.
  std::size_t frame(line_block& block, std::size_t rows) {
    block.clear();
    state& s = open();
    if (options_.shuffle_window == 0) {
      raw_line line;
      while (block.size() < rows && next(s, line)) block.append(line);
    } else {
      while (block.size() < rows) {
        if (s.given == s.window.size() && !load_window(s)) break;
        block.append(s.window, s.order[s.given++]);
      }
    }
    position_.row += block.size();
    if (block.size() < rows) size_ = position_.row;
    return block.size();
  }

  void rewind(std::uint64_t epoch) { seek({epoch, 0}); }

  /// @throws data_error when standard input would have to be read twice; when the data end before the position.
  void seek(data_position to) {
    if (single_pass_) {
      if (to == position_) return;
      if (to.epoch != 0 || position_.row > to.row)
        throw data_error{"standard input can be read only once", {}, "use one epoch, or a file"};
    } else {
      state_.reset();
      position_ = {to.epoch, 0};
    }
    if (to.row == position_.row) return;
    state& s = open();
    raw_line line;
    if (options_.shuffle_window == 0) {
      for (; position_.row < to.row; ++position_.row) {
        if (!next(s, line)) throw past_end(to);
      }
      return;
    }
    if (!single_pass_) {
      // Whole windows are skipped unread: their order does not matter for what follows.
      for (std::uint64_t skip = to.row / options_.shuffle_window * options_.shuffle_window; position_.row < skip; ++position_.row) {
        if (!next(s, line)) throw past_end(to);
      }
      s.windows = to.row / options_.shuffle_window;
    }
    while (position_.row < to.row) {
      if (s.given == s.window.size() && !load_window(s)) throw past_end(to);
      ++s.given;
      ++position_.row;
    }
  }

  data_position position() const { return position_; }
  bool single_pass() const { return single_pass_; }
  /// Rows of an epoch, once one was read to its end.
  std::optional<std::uint64_t> size_hint() const { return size_; }
  std::vector<std::string> const& paths() const { return paths_; }

  /// First data row, left in place. Only before the first frame. @throws data_error when there is none.
  std::string peek() {
    if (!single_pass_) {
      line_reader reader{paths_, rules_};
      raw_line line;
      reader.next(line);
      header_ = reader.header();
      return std::string{line.text};
    }
    raw_line line;
    state_->reader.next(line);
    state_->reader.hold();
    header_ = state_->reader.header();
    return std::string{line.text};
  }
  /// Header row of the first file; known after peek().
  std::string const& header() const { return header_; }

  /// "file:line" of a row.
  std::string where(line_block::entry const& e) const {
    std::string const& path = e.file < paths_.size() ? paths_[e.file] : paths_[0];
    return (path == standard_input ? std::string{"standard input"} : path) + ":" + std::to_string(e.line);
  }

 private:
  struct state {
    state(std::vector<std::string> const& paths, line_rules rules) : reader{paths, rules} {}
    line_reader reader;
    line_block window;                 // rows of the current window, in file order
    std::vector<std::uint32_t> order;  // their order of delivery
    std::size_t given = 0;
    std::uint64_t windows = 0;  // begun in this epoch
  };

  state& open() {
    if (state_ == nullptr) {
      if (position_.row > 0) {
        seek(data_position{position_});  // a copy finds its place on first use
      } else {
        state_ = std::make_shared<state>(paths_, rules_);
      }
    }
    return *state_;
  }

  bool next(state& s, raw_line& line) const {
    while (s.reader.next(line)) {
      if (options_.filter.accepts(line.row)) return true;
      if (options_.filter.past(line.row)) {
        s.reader.hold();
        return false;
      }
    }
    return false;
  }

  bool load_window(state& s) const {
    s.window.clear();
    s.given = 0;
    raw_line line;
    while (s.window.size() < options_.shuffle_window && next(s, line)) s.window.append(line);
    window_order(options_.seed, position_.epoch, s.windows++, static_cast<std::uint32_t>(s.window.size()), s.order);
    return s.window.size() > 0;
  }

  data_error past_end(data_position to) const {
    return data_error{"the data end before row " + std::to_string(to.row) + " of the epoch, where they were left", paths_[0], "resume with the files of the saved run"};
  }

  std::vector<std::string> paths_;
  line_options options_;
  line_rules rules_;
  bool single_pass_ = false;
  data_position position_{};
  std::optional<std::uint64_t> size_;
  std::shared_ptr<state> state_;
  std::string header_;
};

}  // namespace nestpipe::data
