#pragma once
/// @file
/// Numbers in text: whole-field parsers without locale, allocation or exceptions.

#include <charconv>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <string_view>

namespace nestpipe::data {

enum class number_status : std::uint8_t { good, bad, out_of_range };

/// Decimal digits only; bad when empty or beyond 64 bits.
inline bool parse_unsigned(std::string_view text, std::uint64_t& value) {
  if (text.empty() || text.size() > 20) return false;
  std::uint64_t v = 0;
  for (char const c : text) {
    unsigned const digit = static_cast<unsigned char>(c) - unsigned{'0'};
    if (digit > 9) return false;
    if (v > (~std::uint64_t{0} - digit) / 10) return false;
    v = v * 10 + digit;
  }
  value = v;
  return true;
}

/// 1 to 16 hexadecimal digits of either case.
inline bool parse_hex(std::string_view text, std::uint64_t& value) {
  if (text.empty() || text.size() > 16) return false;
  std::uint64_t v = 0;
  for (char const c : text) {
    unsigned digit = static_cast<unsigned char>(c) - unsigned{'0'};
    if (digit > 9) {
      digit = (static_cast<unsigned char>(c) | 0x20U) - unsigned{'a'};
      if (digit > 5) return false;
      digit += 10;
    }
    v = (v << 4) | digit;
  }
  value = v;
  return true;
}

/// Eight hexadecimal digits at `text`, which must have eight readable bytes. All digits at once, in one word
/// (the "SIMD within a register" idea of Lamport, CACM 18(8), 1975).
inline bool parse_hex8(char const* text, std::uint64_t& value) {
  constexpr std::uint64_t each = 0x0101010101010101ULL;
  std::uint64_t w = 0;
  std::memcpy(&w, text, 8);
  if ((w & (each * 0x80)) != 0) return false;
  std::uint64_t const lower = w | (each * 0x20);
  // Bytes are below 128, so a sum with at most 127 a byte cannot carry into the next one; bit 7 then tells "at least".
  std::uint64_t const at_least_0 = w + each * (0x80 - '0');
  std::uint64_t const above_9 = w + each * (0x80 - '9' - 1);
  std::uint64_t const at_least_a = lower + each * (0x80 - 'a');
  std::uint64_t const above_f = lower + each * (0x80 - 'f' - 1);
  std::uint64_t const digit = at_least_0 & ~above_9;
  std::uint64_t const letter = at_least_a & ~above_f & above_9;
  if (((digit | letter) & (each * 0x80)) != each * 0x80) return false;
  std::uint64_t const is_letter = (letter >> 7) & each;
  std::uint64_t v = (lower & (each * 0x0f)) + is_letter * 9;  // one digit a byte, the first in the lowest byte
  v = ((v << 4) | (v >> 8)) & 0x00ff00ff00ff00ffULL;
  v = ((v << 8) | (v >> 16)) & 0x0000ffff0000ffffULL;
  value = ((v << 16) | (v >> 32)) & 0xffffffffULL;
  return true;
}

/// A finite decimal number that fits a float ("5", "-3.5e2", "+1"). "nan", "inf" and "0x10" are bad; 1e308 is out of
/// range; 1e-400 is 0.
inline number_status parse_real(std::string_view text, double& value) {
  if (!text.empty() && text.front() == '+') {
    text.remove_prefix(1);
    if (!text.empty() && text.front() == '-') return number_status::bad;
  }
  double v = 0;
  auto const [end, fault] = std::from_chars(text.data(), text.data() + text.size(), v);
  if (end != text.data() + text.size() || text.empty() || fault == std::errc::invalid_argument) return number_status::bad;
  if (fault == std::errc::result_out_of_range) {
    if (text.find("e-") == std::string_view::npos && text.find("E-") == std::string_view::npos) return number_status::out_of_range;
    v = 0;
  }
  if (std::isnan(v) || std::isinf(v)) return number_status::bad;
  if (std::fabs(v) > 3.402823466e38) return number_status::out_of_range;
  value = v;
  return number_status::good;
}

/// Spaces and carriage returns at both ends removed.
inline std::string_view trimmed(std::string_view text) {
  while (!text.empty() && (text.front() == ' ' || text.front() == '\t')) text.remove_prefix(1);
  while (!text.empty() && (text.back() == ' ' || text.back() == '\t' || text.back() == '\r')) text.remove_suffix(1);
  return text;
}

}  // namespace nestpipe::data
