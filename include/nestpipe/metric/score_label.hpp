#pragma once
/// @file
/// Pairs of score and label in 64 bits each, and their canonical order.

#include <nestpipe/core/config.hpp>

#include <array>
#include <bit>
#include <cmath>
#include <span>
#include <utility>
#include <vector>

namespace nestpipe::metric {

/// A score and a label whose order as an integer is (score, label) ascending. -0 becomes +0; NaN sorts last.
struct score_label {
  std::uint64_t bits = 0;

  static score_label pack(float score, float label) {
    return {std::uint64_t{ordered(score)} << 32 | ordered(label)};
  }
  float score() const { return value(static_cast<std::uint32_t>(bits >> 32)); }
  float label() const { return value(static_cast<std::uint32_t>(bits)); }

  static std::uint32_t ordered(float v) {
    if (std::isnan(v)) return 0xffffffffU;
    std::uint32_t const b = std::bit_cast<std::uint32_t>(v + 0.0f);
    return (b & 0x80000000U) != 0 ? ~b : b | 0x80000000U;
  }
  static float value(std::uint32_t o) {
    return std::bit_cast<float>((o & 0x80000000U) != 0 ? o & 0x7fffffffU : ~o);
  }
};

/// Sorts by (score, label): radix sort of 8 bits a pass, passes in which all pairs agree left out. O(n), stable.
/// @param scratch as long as `pairs`  @return whichever of the two holds the result
inline std::span<score_label> sort(std::span<score_label> pairs, std::span<score_label> scratch) {
  constexpr std::size_t digits = 8;
  std::array<std::array<std::size_t, 256>, digits> count{};
  for (score_label const p : pairs) {
    for (std::size_t d = 0; d < digits; ++d) ++count[d][(p.bits >> (8 * d)) & 255];
  }
  for (std::size_t d = 0; d < digits; ++d) {
    if (pairs.empty() || count[d][(pairs[0].bits >> (8 * d)) & 255] == pairs.size()) continue;
    std::size_t sum = 0;
    for (std::size_t& c : count[d]) {
      std::size_t const here = c;
      c = sum;
      sum += here;
    }
    for (score_label const p : pairs) scratch[count[d][(p.bits >> (8 * d)) & 255]++] = p;
    std::swap(pairs, scratch);
  }
  return pairs;
}

/// The same; the result is in `pairs`. @param scratch grows to the size of `pairs`
inline void sort(std::vector<score_label>& pairs, std::vector<score_label>& scratch) {
  scratch.resize(pairs.size());
  if (sort(std::span{pairs}, std::span{scratch}).data() != pairs.data()) pairs.swap(scratch);
}

}  // namespace nestpipe::metric
