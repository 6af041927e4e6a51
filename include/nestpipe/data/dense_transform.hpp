#pragma once
/// @file
/// How a number in the file becomes a dense input.

#include <array>
#include <cmath>
#include <cstdint>
#include <limits>

namespace nestpipe::data {

/// - signed_log1p: sign(x) log(1 + |x|). Odd, monotone, close to x near 0, finite for every finite x: counts with heavy
///   tails become small numbers, and -3, -1 and 0 are as good as any (log(x + shift) is not, where the shift is too small).
/// - identity: x as a float.
/// A missing value becomes 0 under both, which is also what x = 0 becomes. Readers that are wrapped in with_statistics
/// keep missing apart and give it the column's mean, or a bucket of its own.
enum class dense_kind : std::uint8_t { signed_log1p, identity };

/// signed_log1p by table for small integers (the common case), which has the same bits as the call.
class signed_log1p {
 public:
  static float of(double x) { return static_cast<float>(x < 0 ? -std::log1p(-x) : std::log1p(x)); }
  static float of_count(std::uint64_t x) {
    static std::array<float, 4096> const table = [] {
      std::array<float, 4096> t{};
      for (std::size_t i = 0; i < t.size(); ++i) t[i] = of(static_cast<double>(i));
      return t;
    }();
    return x < table.size() ? table[x] : of(static_cast<double>(x));
  }
};

struct dense_transform {
  dense_kind kind = dense_kind::signed_log1p;
  float missing = 0.0f;  ///< a not-a-number while a statistics decorator tells missing values apart

  float operator()(double x) const { return kind == dense_kind::identity ? static_cast<float>(x) : signed_log1p::of(x); }
  float count(std::uint64_t x) const { return kind == dense_kind::identity ? static_cast<float>(x) : signed_log1p::of_count(x); }
};

}  // namespace nestpipe::data
