#pragma once
// Small inputs of every format.

#include <nestpipe/core/random.hpp>

#include <cstdint>
#include <cstdio>
#include <string>

namespace fixtures {

// One good Criteo line without its end; about one field in eight is empty.
inline std::string criteo_line(std::uint64_t row, bool labelled = true) {
  nestpipe::counter_random const random{7, 0, row};
  std::string line;
  if (labelled) line = std::to_string(random.below(0, 2)) + "\t";
  for (std::uint64_t c = 0; c < 39; ++c) {
    if (c > 0) line += '\t';
    if (random.below(100 + c, 8) == 0) continue;
    if (c < 13) {
      line += std::to_string(static_cast<std::int64_t>(random.below(200 + c, 5000)) - 3);
    } else {
      char hex[16];
      std::snprintf(hex, sizeof hex, "%08x", static_cast<unsigned>(random.bits(300 + c)));
      line += hex;
    }
  }
  return line;
}

inline std::string criteo(std::size_t rows) {
  std::string text;
  for (std::size_t i = 0; i < rows; ++i) text += criteo_line(i) + "\n";
  return text;
}

inline std::string csv(std::size_t rows) {
  std::string text = "click,user,tags,age\n";
  for (std::size_t i = 0; i < rows; ++i) {
    text += std::to_string(i % 3 == 0) + ",u" + std::to_string(i % 11) + ",";
    text += i % 4 == 0 ? "" : i % 4 == 1 ? "a" : i % 4 == 2 ? "a|b" : "\"c,\"\"d\"\"|a|\nb\"";
    text += "," + (i % 5 == 0 ? std::string{} : std::to_string(i) + ".5") + "\n";
  }
  return text;
}

inline std::string libsvm(std::size_t rows) {
  std::string text;
  for (std::size_t i = 0; i < rows; ++i) {
    text += i % 2 == 0 ? "1" : "-1";
    for (std::size_t k = 0; k < 3; ++k) text += " " + std::to_string(i * 7 % 13 + k) + ":" + std::to_string(k + 1) + ".25";
    text += "\n";
  }
  return text;
}

inline std::string libffm(std::size_t rows) {
  std::string text;
  for (std::size_t i = 0; i < rows; ++i) {
    text += i % 2 == 0 ? "1" : "0";
    for (std::size_t k = 0; k <= i % 4; ++k) text += " " + std::to_string(3 * k) + ":" + std::to_string(i % 5) + ":0.5";
    text += "\n";
  }
  return text;
}

inline std::string slots(std::size_t rows) {
  std::string text;
  for (std::size_t i = 0; i < rows; ++i) {
    text += i % 2 == 0 ? "1:1" : "0";
    for (std::size_t k = 0; k <= i % 4; ++k) text += " " + std::to_string(18446744073709551615ULL - i % 5) + ":" + std::to_string(k / 2 + 2);
    text += "\n";
  }
  return text;
}

}  // namespace fixtures
