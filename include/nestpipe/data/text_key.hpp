#pragma once
/// @file
/// Keys of categorical text.

#include <nestpipe/core/config.hpp>
#include <nestpipe/core/random.hpp>

#include <cstring>
#include <string_view>

namespace nestpipe::data {

/// 64-bit hash of the bytes of a categorical value. The same text has the same key in every column, file and run, numbers
/// included ("7" is text here); two of n distinct texts meet with a chance of about n^2 / 2^65.
/// Little-endian words of 8 bytes are mixed in turn, then the length.
inline key_type text_key(std::string_view text) {
  std::uint64_t h = 0x6e65737470697065ULL;
  std::size_t n = text.size();
  char const* p = text.data();
  for (; n >= 8; n -= 8, p += 8) {
    std::uint64_t word = 0;
    std::memcpy(&word, p, 8);
    h = mix64(h ^ word) + word;
  }
  std::uint64_t word = 0;
  if (n > 0) std::memcpy(&word, p, n);
  return mix64(mix64(h ^ word) + word, text.size());
}

}  // namespace nestpipe::data
