#pragma once
/// @file
/// A timeline that needs no tool: lanes as rows, batches as colours, waiting visible as empty space.

#include <nestpipe/trace/chrome.hpp>

#include <limits>
#include <string>

namespace nestpipe::trace {

/// What part of a run to draw.
struct svg_options {
  std::uint64_t first_batch = 0;
  std::uint64_t last_batch = ~std::uint64_t{0};
  double from = -std::numeric_limits<double>::infinity();  ///< seconds; what lies before is cut off
  double to = std::numeric_limits<double>::infinity();
  double width = 1600;       ///< pixels
  double lane_height = 26;
  std::string title = "timeline";
};

namespace detail {

// Neighbouring batches differ in hue; the same batch has one colour on every rank and lane.
inline char const* batch_colour(std::uint64_t batch) {
  constexpr std::array<char const*, 6> colours{"#4e79a7", "#f28e2b", "#59a14f", "#b07aa1", "#edc948", "#76b7b2"};
  return colours[batch % colours.size()];
}

inline char const* short_name(exec::stage s) {
  constexpr std::array<char const*, exec::stage_count> names{"read", "stage", "route", "retr", "refr", "E", "FB", "W", "G", "red", "upd", "updD", "wb"};
  return names[static_cast<std::size_t>(s)];
}

inline std::string escaped(std::string_view text) {
  std::string out;
  for (char const c : text) {
    if (c == '<') out += "&lt;";
    else if (c == '>') out += "&gt;";
    else if (c == '&') out += "&amp;";
    else out += c;
  }
  return out;
}

}  // namespace detail

/// The time in which steps `first` to `last` were made, on the first rank: with what was read, routed and retrieved for later
/// batches meanwhile. All of the run when these steps are not there.
inline svg_options during_steps(std::span<rank_intervals const> ranks, std::uint64_t first, std::uint64_t last) {
  svg_options o;
  if (ranks.empty()) return o;
  for (auto const& i : ranks.front().intervals) {
    if (i.what.what != exec::stage::update_dense) continue;
    if (i.what.batch < first) o.from = std::max(o.from, i.end);
    if (i.what.batch == last) o.to = i.end;
  }
  return o;
}

/// Draws the chosen intervals of every rank. O(intervals).
inline void write_svg(std::ostream& out, std::span<rank_intervals const> ranks, svg_options const& options) {
  double from = 1e300;
  double to = -1e300;
  auto const drawn = [&](interval const& i) { return i.what.batch >= options.first_batch && i.what.batch <= options.last_batch && i.end > options.from && i.begin < options.to; };
  for (auto const& r : ranks) {
    for (auto const& i : r.intervals) {
      if (!drawn(i)) continue;
      from = std::min(from, i.begin);
      to = std::max(to, i.end);
    }
  }
  if (from > to) from = to = 0;
  from = std::max(from, options.from);
  to = std::min(to, options.to);
  double const left = 90;
  double const top = 46;
  double const scale = to > from ? (options.width - left - 20) / (to - from) : 0;
  double const rank_height = static_cast<double>(exec::lane_count) * options.lane_height + 22;
  double const height = top + rank_height * static_cast<double>(ranks.size()) + 30;
  auto const old = out.precision(2);
  auto const flags = out.setf(std::ios::fixed, std::ios::floatfield);
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << options.width << "\" height=\"" << height << "\" font-family=\"sans-serif\" font-size=\"11\">\n"
      << "<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n<text x=\"8\" y=\"18\" font-size=\"14\">" << detail::escaped(options.title) << "</text>\n"
      << "<text x=\"8\" y=\"34\" fill=\"#666\">" << (to - from) * 1e3
      << " ms; colour = batch, label = stage and micro-batch; E rows out, G gradients back, FB forward and input backward, W weight gradients; empty = waiting</text>\n";
  for (std::size_t n = 0; n < ranks.size(); ++n) {
    double const y0 = top + rank_height * static_cast<double>(n);
    out << "<text x=\"8\" y=\"" << y0 + 12 << "\" font-weight=\"bold\">rank " << ranks[n].rank << "</text>\n";
    for (std::size_t l = 0; l < exec::lane_count; ++l) {
      double const y = y0 + 16 + static_cast<double>(l) * options.lane_height;
      out << "<text x=\"8\" y=\"" << y + options.lane_height * 0.65 << "\">" << exec::name(static_cast<exec::lane>(l)) << "</text><rect x=\"" << left
          << "\" y=\"" << y << "\" width=\"" << options.width - left - 20 << "\" height=\"" << options.lane_height - 3 << "\" fill=\"#f2f2f2\"/>\n";
    }
    for (auto const& i : ranks[n].intervals) {
      if (!drawn(i)) continue;
      double const begin = std::max(i.begin, from);
      double const x = left + (begin - from) * scale;
      double const w = std::max((std::min(i.end, to) - begin) * scale, 0.4);
      double const y = y0 + 16 + static_cast<double>(i.self.where) * options.lane_height;
      std::string label = detail::short_name(i.what.what);
      bool const per_micro_batch = i.what.what == exec::stage::exchange_rows || i.what.what == exec::stage::forward_backward ||
                                   i.what.what == exec::stage::weight_gradients || i.what.what == exec::stage::exchange_gradients;
      if (per_micro_batch) label += std::to_string(i.what.part);
      if (i.what.rows == exec::portion::early) label += "e";
      if (i.what.rows == exec::portion::late) label += "l";
      out << "<g><title>" << exec::name(i.what.what) << " batch " << i.what.batch << " part " << i.what.part << ' ' << exec::name(i.what.rows) << ": "
          << (i.end - i.begin) * 1e3 << " ms</title><rect x=\"" << x << "\" y=\"" << y << "\" width=\"" << w << "\" height=\"" << options.lane_height - 3
          << "\" fill=\"" << detail::batch_colour(i.what.batch) << "\" stroke=\"white\" stroke-width=\"0.4\"/>";
      if (w > 7.0 * static_cast<double>(label.size()))
        out << "<text x=\"" << x + w / 2 << "\" y=\"" << y + options.lane_height * 0.6 << "\" text-anchor=\"middle\" fill=\"white\">" << label << "</text>";
      out << "</g>\n";
    }
  }
  out << "</svg>\n";
  out.precision(old);
  out.flags(flags);
}

}  // namespace nestpipe::trace
