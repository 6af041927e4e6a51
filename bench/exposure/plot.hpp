#pragma once
/// @file
/// Line charts as SVG, for sweeps. No tool is needed to read them.

#include <algorithm>
#include <array>
#include <cmath>
#include <ostream>
#include <sstream>
#include <string>
#include <vector>

namespace bench {

struct series {
  std::string name;
  std::vector<double> x, y;
  bool dashed = false;
};

struct chart {
  std::string title, subtitle, x_label, y_label;
  bool log_x = false;
  std::vector<series> lines;
};

/// Several charts side by side.
inline void write_plot(std::ostream& out, std::vector<chart> const& charts) {
  constexpr double w = 560, h = 380, left = 60, right = 16, top = 62, bottom = 50;
  constexpr std::array<char const*, 7> colours{"#4e79a7", "#f28e2b", "#59a14f", "#e15759", "#b07aa1", "#76b7b2", "#9c755f"};
  auto const text = [](std::string const& s) {
    std::string t;
    for (char const c : s) t += c == '<' ? "&lt;" : c == '>' ? "&gt;" : c == '&' ? "&amp;" : std::string(1, c);
    return t;
  };
  auto const number = [](double v) {
    std::ostringstream s;
    s << v;
    return s.str();
  };
  out << "<svg xmlns=\"http://www.w3.org/2000/svg\" width=\"" << w * static_cast<double>(charts.size()) << "\" height=\"" << h
      << "\" font-family=\"sans-serif\" font-size=\"11\">\n<rect width=\"100%\" height=\"100%\" fill=\"white\"/>\n";
  double x0 = 0;
  for (auto const& c : charts) {
    double low = 1e300, high = -1e300, most = 0;
    auto const across = [&](double x) { return c.log_x ? std::log2(x) : x; };
    for (auto const& l : c.lines) {
      for (double const x : l.x) {
        low = std::min(low, across(x));
        high = std::max(high, across(x));
      }
      for (double const y : l.y) most = std::max(most, y);
    }
    if (!(high > low)) high = low + 1;
    double const unit = std::pow(10, std::floor(std::log10(std::max(most, 1e-9))));
    double const tick = most / unit > 5 ? unit : most / unit > 2 ? unit / 2 : unit / 5;
    most = std::ceil(most / tick) * tick;
    auto const px = [&](double x) { return x0 + left + (across(x) - low) / (high - low) * (w - left - right); };
    auto const py = [&](double y) { return h - bottom - y / most * (h - top - bottom); };
    out << "<text x=\"" << x0 + 10 << "\" y=\"18\" font-size=\"14\">" << text(c.title) << "</text>\n<text x=\"" << x0 + 10 << "\" y=\"34\" fill=\"#666\">"
        << text(c.subtitle) << "</text>\n";
    for (double y = 0; y <= most * 1.0001; y += tick) {
      out << "<line x1=\"" << x0 + left << "\" x2=\"" << x0 + w - right << "\" y1=\"" << py(y) << "\" y2=\"" << py(y) << "\" stroke=\"#ddd\"/><text x=\""
          << x0 + left - 6 << "\" y=\"" << py(y) + 4 << "\" text-anchor=\"end\">" << number(y) << "</text>\n";
    }
    std::vector<double> marks;
    for (auto const& l : c.lines) marks.insert(marks.end(), l.x.begin(), l.x.end());
    std::sort(marks.begin(), marks.end());
    marks.erase(std::unique(marks.begin(), marks.end()), marks.end());
    double last = -1e9;
    for (double const x : marks) {
      if (px(x) - last < 26) continue;
      last = px(x);
      out << "<text x=\"" << px(x) << "\" y=\"" << h - bottom + 16 << "\" text-anchor=\"middle\">" << number(x) << "</text>\n";
    }
    out << "<text x=\"" << x0 + (left + w - right) / 2 << "\" y=\"" << h - 10 << "\" text-anchor=\"middle\">" << text(c.x_label) << "</text>\n<text x=\"" << x0 + 14
        << "\" y=\"" << (top + h - bottom) / 2 << "\" text-anchor=\"middle\" transform=\"rotate(-90 " << x0 + 14 << ' ' << (top + h - bottom) / 2 << ")\">"
        << text(c.y_label) << "</text>\n";
    for (std::size_t i = 0; i < c.lines.size(); ++i) {
      auto const& l = c.lines[i];
      char const* const colour = colours[i % colours.size()];
      out << "<polyline fill=\"none\" stroke=\"" << colour << "\" stroke-width=\"2\"" << (l.dashed ? " stroke-dasharray=\"6 4\"" : "") << " points=\"";
      for (std::size_t k = 0; k < l.x.size(); ++k) out << px(l.x[k]) << ',' << py(l.y[k]) << ' ';
      out << "\"/>\n";
      for (std::size_t k = 0; k < l.x.size() && !l.dashed; ++k)
        out << "<circle cx=\"" << px(l.x[k]) << "\" cy=\"" << py(l.y[k]) << "\" r=\"3\" fill=\"" << colour << "\"/>\n";
      double const lx = x0 + left + 8 + static_cast<double>(i % 3) * 150;
      double const ly = 48 + static_cast<double>(i / 3) * 13;
      out << "<line x1=\"" << lx << "\" x2=\"" << lx + 18 << "\" y1=\"" << ly - 4 << "\" y2=\"" << ly - 4 << "\" stroke=\"" << colour << "\" stroke-width=\"2\""
          << (l.dashed ? " stroke-dasharray=\"4 3\"" : "") << "/><text x=\"" << lx + 22 << "\" y=\"" << ly << "\">" << text(l.name) << "</text>\n";
    }
    x0 += w;
  }
  out << "</svg>\n";
}

}  // namespace bench
