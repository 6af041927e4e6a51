// Chrome traces are JSON with the right events; SVG timelines are well-formed and hold what they should.
#include <doctest/doctest.h>

#include <nestpipe/trace/svg.hpp>

#include <nlohmann/json.hpp>

#include <map>
#include <set>
#include <sstream>

namespace np = nestpipe;
namespace exec = np::exec;
using exec::stage;

namespace {

// Elements and attributes of a small XML text, checked for balance, quoting and entities. Empty: well-formed.
std::string xml_fault(std::string const& text, std::map<std::string, std::size_t>& elements) {
  std::vector<std::string> open;
  std::size_t i = 0;
  bool root_seen = false;
  auto const entity = [&](std::size_t at) {
    for (std::string const e : {"&lt;", "&gt;", "&amp;", "&quot;"}) {
      if (text.compare(at, e.size(), e) == 0) return true;
    }
    return false;
  };
  while (i < text.size()) {
    if (text[i] != '<') {
      if (text[i] == '&' && !entity(i)) return "bare & at " + std::to_string(i);
      if (open.empty() && !std::isspace(static_cast<unsigned char>(text[i]))) return "text outside the root";
      ++i;
      continue;
    }
    if (text[i + 1] == '/') {
      std::size_t const end = text.find('>', i);
      std::string const name = text.substr(i + 2, end - i - 2);
      if (open.empty() || open.back() != name) return "closes " + name;
      open.pop_back();
      i = end + 1;
      continue;
    }
    std::size_t at = i + 1;
    while (std::isalnum(static_cast<unsigned char>(text[at]))) ++at;
    std::string const name = text.substr(i + 1, at - i - 1);
    if (name.empty()) return "no name at " + std::to_string(i);
    if (open.empty() && root_seen) return "second root";
    root_seen = true;
    ++elements[name];
    std::set<std::string> attributes;
    while (true) {
      while (text[at] == ' ') ++at;
      if (text[at] == '/' || text[at] == '>') break;
      std::size_t const equal = text.find('=', at);
      std::string const attribute = text.substr(at, equal - at);
      if (!attributes.insert(attribute).second) return "attribute twice: " + attribute;
      if (text[equal + 1] != '"') return "attribute without quotes: " + attribute;
      std::size_t const end = text.find('"', equal + 2);
      std::string const value = text.substr(equal + 2, end - equal - 2);
      if (value.find('<') != std::string::npos || value.find("nan") != std::string::npos || value.find("inf") != std::string::npos) return "value of " + attribute + ": " + value;
      at = end + 1;
    }
    if (text[at] == '/') {
      ++at;
    } else {
      open.push_back(name);
    }
    if (text[at] != '>') return "element " + name + " does not end";
    i = at + 1;
  }
  return open.empty() ? (root_seen ? "" : "empty") : "never closed: " + open.back();
}

std::vector<np::trace::rank_intervals> two_ranks() {
  std::vector<np::trace::rank_intervals> ranks(2);
  for (std::size_t r = 0; r < 2; ++r) {
    ranks[r].rank = r;
    for (std::uint64_t b = 0; b < 5; ++b) {
      double const t = static_cast<double>(b) * 0.01;
      std::uint64_t const n = b + 1;
      ranks[r].intervals.push_back({{stage::read, b}, {exec::lane::input, n}, t, t + 0.004, {}, 0});
      ranks[r].intervals.push_back({{stage::exchange_rows, b, 3, exec::portion::early}, {exec::lane::exchange, n}, t + 0.004, t + 0.005, {}, 0});
      ranks[r].intervals.push_back({{stage::forward_backward, b, 3}, {exec::lane::compute, n}, t + 0.005, t + 0.01, {}, 0});
    }
  }
  return ranks;
}

}  // namespace

TEST_CASE("a Chrome trace is JSON with every interval once, and names for ranks and lanes") {
  auto const ranks = two_ranks();
  std::ostringstream out;
  np::trace::write_chrome(out, ranks);
  auto const parsed = nlohmann::json::parse(out.str());
  std::map<std::string, std::size_t> phases;
  double microseconds = 0;
  for (auto const& e : parsed.at("traceEvents")) {
    ++phases[e.at("ph").get<std::string>()];
    if (e.at("ph") == "X") {
      microseconds += e.at("dur").get<double>();
      CHECK(e.at("ts").get<double>() >= 0);
    }
  }
  CHECK(phases["X"] == 30);
  CHECK(phases["M"] == 2 * (1 + exec::lane_count));
  CHECK(microseconds == doctest::Approx(2 * 5 * 10000).epsilon(1e-6));
  auto const& last = parsed.at("traceEvents").back();
  CHECK(last.at("name") == "forward_backward");
  CHECK(last.at("pid") == 1);
  CHECK(last.at("tid") == static_cast<int>(exec::lane::compute));
  CHECK(last.at("args").at("batch") == 4);
  CHECK(last.at("args").at("part") == 3);

  std::ostringstream none;
  np::trace::write_chrome(none, {});
  CHECK(nlohmann::json::parse(none.str()).at("traceEvents").empty());
}

TEST_CASE("an SVG timeline is well-formed, with a rectangle per chosen interval and lane") {
  auto const ranks = two_ranks();
  np::trace::svg_options o;
  o.first_batch = 1;
  o.last_batch = 3;
  o.title = "nested & <emulated>";
  std::ostringstream out;
  np::trace::write_svg(out, ranks, o);
  std::map<std::string, std::size_t> elements;
  CHECK(xml_fault(out.str(), elements) == "");
  CHECK(elements["svg"] == 1);
  CHECK(elements["title"] == 2 * 3 * 3);
  CHECK(elements["rect"] == 1 + 2 * exec::lane_count + 2 * 3 * 3);
  CHECK(out.str().find("nested &amp; &lt;emulated&gt;") != std::string::npos);
  CHECK(out.str().find("E3e") != std::string::npos);
  CHECK(out.str().find("FB3") != std::string::npos);

  // A window of time cuts what reaches beyond it.
  np::trace::svg_options window;
  window.from = 0.012;
  window.to = 0.0245;
  std::ostringstream cut;
  np::trace::write_svg(cut, ranks, window);
  elements.clear();
  CHECK(xml_fault(cut.str(), elements) == "");
  CHECK(elements["title"] == 2 * (3 + 2));  // read, E, FB of batch 1; read, E of batch 2
  CHECK(cut.str().find("12.50 ms;") != std::string::npos);

  auto updated = ranks;
  for (std::uint64_t b = 0; b < 5; ++b) {
    double const end = static_cast<double>(b) * 0.01 + 0.0099;
    updated[0].intervals.push_back({{stage::update_dense, b}, {exec::lane::compute, 100 + b}, end - 0.0001, end, {}, 0});
  }
  auto const during = np::trace::during_steps(updated, 2, 3);
  CHECK(during.from == doctest::Approx(0.0199));
  CHECK(during.to == doctest::Approx(0.0399));

  std::ostringstream none;
  np::trace::write_svg(none, {}, {});
  CHECK(xml_fault(none.str(), elements) == "");
}

TEST_CASE("the checker itself finds faults") {
  std::map<std::string, std::size_t> e;
  CHECK(xml_fault("<svg><g></svg>", e) != "");
  CHECK(xml_fault("<svg a=1/>", e) != "");
  CHECK(xml_fault("<svg a=\"1\" a=\"2\"/>", e) != "");
  CHECK(xml_fault("<svg>a & b</svg>", e) != "");
  CHECK(xml_fault("<svg x=\"nan\"/>", e) != "");
  CHECK(xml_fault("<svg/><svg/>", e) != "");
  CHECK(xml_fault("<svg>a &amp; b</svg>\n", e) == "");
}
