#pragma once
/// @file
/// Framing for datasets whose rows can be made or found by number: filter, shuffle within windows, position.

#include <nestpipe/data/data.hpp>
#include <nestpipe/data/row_filter.hpp>
#include <nestpipe/data/window_shuffle.hpp>

#include <algorithm>
#include <cstring>
#include <limits>
#include <optional>
#include <span>
#include <vector>

namespace nestpipe::data {

/// The row numbers of one global batch.
class row_block {
 public:
  std::size_t size() const { return rows.size(); }
  std::vector<std::uint64_t> rows;

  void serialize(std::vector<std::byte>& out) const {
    out.resize(rows.size() * sizeof(std::uint64_t));
    if (!out.empty()) std::memcpy(out.data(), rows.data(), out.size());
  }
  void deserialize(std::span<std::byte const> in) {
    if (in.size() % sizeof(std::uint64_t) != 0) throw data_error{"a block of rows arrived cut short"};
    rows.resize(in.size() / sizeof(std::uint64_t));
    if (!in.empty()) std::memcpy(rows.data(), in.data(), in.size());
  }
};

struct row_options {
  row_filter filter{};
  std::size_t shuffle_window = 0;  ///< rows permuted together; 0 or 1: in order
  std::uint64_t seed = 0;          ///< of the shuffle
};

/// Rows 0 .. rows-1 that pass the filter, in order or shuffled within windows. A seek is O(position) at worst.
class row_stream {
 public:
  row_stream(std::uint64_t rows, row_options options) : rows_{rows}, options_{options} {
    options_.filter.split.check();
    require(options_.shuffle_window <= std::numeric_limits<std::uint32_t>::max(), "the shuffle window is too long", {}, "use fewer than 2^32 rows");
    if (options_.shuffle_window == 1) options_.shuffle_window = 0;
  }

  std::size_t frame(row_block& block, std::size_t rows) {
    block.rows.clear();
    if (options_.shuffle_window == 0) {
      std::uint64_t row = 0;
      while (block.rows.size() < rows && next(row)) block.rows.push_back(row);
    } else {
      while (block.rows.size() < rows) {
        if (given_ == window_.size() && !load_window()) break;
        block.rows.push_back(window_[order_[given_++]]);
      }
    }
    position_.row += block.rows.size();
    return block.rows.size();
  }

  void rewind(std::uint64_t epoch) {
    position_ = {epoch, 0};
    next_ = windows_ = 0;
    window_.clear();
    given_ = 0;
  }
  data_position position() const { return position_; }

  /// @throws data_error when the epoch has fewer rows.
  void seek(data_position to) {
    rewind(to.epoch);
    if (to.row > size()) throw data_error{"the data end before row " + std::to_string(to.row) + " of the epoch, where they were left", {}, "resume with the data of the saved run"};
    std::uint64_t row = 0;
    std::uint64_t const whole = options_.shuffle_window == 0 ? to.row : to.row / options_.shuffle_window * options_.shuffle_window;
    for (std::uint64_t i = 0; i < whole; ++i) next(row);
    if (options_.shuffle_window != 0) {
      windows_ = whole / options_.shuffle_window;
      if (to.row > whole) load_window();
      given_ = to.row - whole;
    }
    position_.row = to.row;
  }

  /// Rows of an epoch. O(modulus of the split).
  std::uint64_t size() const {
    row_filter const& f = options_.filter;
    std::uint64_t const first = std::min(f.first, rows_);
    std::uint64_t const last = std::clamp(f.last, first, rows_);
    if (f.part == split_part::all) return last - first;
    std::uint64_t const m = f.split.modulo;
    auto const with_remainder = [&](std::uint64_t r) {
      auto const below = [&](std::uint64_t end) { return end / m + (end % m > r ? 1 : 0); };
      return below(last) - below(first);
    };
    std::uint64_t const valid = f.split.valid ? with_remainder(*f.split.valid) : 0;
    std::uint64_t const test = f.split.test ? with_remainder(*f.split.test) : 0;
    if (f.part == split_part::valid) return valid;
    if (f.part == split_part::test) return test;
    return last - first - valid - test;
  }

 private:
  bool next(std::uint64_t& row) {
    if (next_ < options_.filter.first) next_ = options_.filter.first;
    while (next_ < rows_ && !options_.filter.past(next_)) {
      row = next_++;
      if (options_.filter.accepts(row)) return true;
    }
    return false;
  }
  bool load_window() {
    window_.clear();
    given_ = 0;
    std::uint64_t row = 0;
    while (window_.size() < options_.shuffle_window && next(row)) window_.push_back(row);
    window_order(options_.seed, position_.epoch, windows_++, static_cast<std::uint32_t>(window_.size()), order_);
    return !window_.empty();
  }

  std::uint64_t rows_;
  row_options options_;
  data_position position_{};
  std::uint64_t next_ = 0;
  std::uint64_t windows_ = 0;
  std::vector<std::uint64_t> window_;
  std::vector<std::uint32_t> order_;
  std::size_t given_ = 0;
};

}  // namespace nestpipe::data
