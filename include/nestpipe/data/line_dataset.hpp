#pragma once
/// @file
/// A dataset over lines: the source frames, a format parses.

#include <nestpipe/data/complaint_log.hpp>
#include <nestpipe/data/data.hpp>
#include <nestpipe/data/dense_transform.hpp>
#include <nestpipe/data/line_source.hpp>
#include <nestpipe/data/sample_builder.hpp>

#include <algorithm>
#include <limits>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

namespace nestpipe::data {

/// Why a line is malformed.
struct line_fault {
  std::string_view reason;    ///< static text
  std::string_view text{};    ///< the offending text, quoted in the message; may be empty
  std::string name{};         ///< of the column or field, if known
  std::string_view remedy{};  ///< static text
};

/// | a format F provides | meaning |
/// |---|---|
/// | `typename F::options` | with a member `lines` (line_options) |
/// | `F::weighted` | whether ids carry weights |
/// | `F{options}` | @throws config_error |
/// | `F::rules(options)` | line_rules |
/// | `f.head(source)` | looks at the head of the source (peek, header, a pass over a copy); returns what parse needs to know and fixes the schema. @throws data_error |
/// | `f.schema()` | known before head() when the source is standard input. @throws config_error then |
/// | `f.parse_line(text, head, builder, fault)` | one row; 64 bytes behind the text are readable; false and the fault when malformed |
/// | `f.transform()` | dense_transform&, or nothing to transform |
template <class Format>
class line_dataset {
 public:
  using block = line_block;
  using options = typename Format::options;

  /// @throws data_error when an input cannot be opened or its head does not fit; config_error on bad options.
  explicit line_dataset(path_list inputs, options o = {})
      : strict_{o.lines.strict}, source_{std::move(inputs), o.lines, Format::rules(o)}, format_{std::move(o)}, log_{std::make_shared<complaint_log>()} {
    if (!source_.single_pass()) learn();
    (void)format_.schema();
  }

  struct nestpipe::schema const& schema() const { return format_.schema(); }
  Format const& format() const { return format_; }

  std::size_t frame(block& b, std::size_t rows) {
    if (!learnt_) learn();
    b.head = head_;
    return source_.frame(b, rows);
  }

  void parse(block const& b, std::size_t first, std::size_t last, sample_block& out) const {
    last = std::min(last, b.size());
    first = std::min(first, last);
    struct nestpipe::schema const& names = format_.schema();
    thread_local sample_builder builder;
    builder.begin(out, names.features.size(), names.dense, names.labels, Format::weighted, last - first);
    for (std::size_t i = first; i < last; ++i) {
      line_fault fault;
      if (format_.parse_line(b.text(i), b.head, builder, fault)) {
        builder.commit(b[i].row);
      } else {
        builder.abandon();
        if (strict_) throw data_error{sentence(fault), source_.where(b[i]), fault.remedy.empty() ? "correct the line, or read on past malformed lines without strict" : fault.remedy};
        if (log_->wants(b[i].row)) log_->add(b[i].row, source_.where(b[i]) + ": " + sentence(fault) + (fault.remedy.empty() ? "" : "; " + std::string{fault.remedy}));
      }
    }
    builder.finish();
  }

  void rewind(std::uint64_t epoch) { source_.rewind(epoch); }
  data_position position() const { return source_.position(); }
  void seek(data_position to) { source_.seek(to); }
  std::optional<std::uint64_t> size_hint() const { return source_.size_hint(); }
  bool single_pass() const { return source_.single_pass(); }
  std::vector<std::string> complaints() const { return log_->list(); }

  /// Missing dense values come out as not-a-number instead of 0, for a decorator that fills them in.
  void keep_missing(bool keep)
    requires requires(Format& f) { f.transform(); }
  {
    format_.transform().missing = keep ? std::numeric_limits<float>::quiet_NaN() : 0.0f;
  }

 private:
  void learn() {
    head_ = format_.head(source_);
    learnt_ = true;
  }

  static std::string sentence(line_fault const& fault) {
    std::string text;
    if (!fault.name.empty()) text += fault.name + ": ";
    text += fault.reason;
    if (fault.text.data() != nullptr) {
      text += " '";
      for (char const c : fault.text.substr(0, 40)) text += static_cast<unsigned char>(c) < 0x20 || static_cast<unsigned char>(c) >= 0x7f ? '?' : c;
      if (fault.text.size() > 40) text += "...";
      text += "'";
    }
    return text;
  }

  bool strict_;
  line_source source_;
  Format format_;
  std::vector<std::uint32_t> head_;
  bool learnt_ = false;
  std::shared_ptr<complaint_log> log_;
};

}  // namespace nestpipe::data
