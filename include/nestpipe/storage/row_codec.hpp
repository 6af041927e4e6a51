#pragma once
/// @file
/// Row codecs: how many floats are kept as fewer. For storage::encoded.
///
/// | requirement on C (a value) | meaning |
/// |---|---|
/// | `c.packed_floats(n)` | floats that n encoded floats take |
/// | `c.encode(x, n, packed)` | n floats to packed_floats(n), each to the nearest value, ties to even |
/// | `c.decode(packed, n, x)` | the reverse |
/// | `c.round(x, n, random)` | in place: each of n floats up or down at random to a value that the format has, unbiased |
/// | `c.name()` | for reports and checkpoints |
///
/// A model must also: keep what `decode` or `round` gave, to the bit, in another encode and decode (a row must not depend on
/// how often it went through storage); keep NaN and infinities what they are, and finite values finite; be a pure function.
/// `n` may be a compile-time size (fixed_size).

#include <nestpipe/core/fixed_size.hpp>
#include <nestpipe/core/random.hpp>
#include <nestpipe/storage/detail/rounding.hpp>

#include <concepts>
#include <cstring>
#include <string>

namespace nestpipe::storage {

template <class C>
concept row_codec = std::copy_constructible<C> && requires(C const& c, float* x, float const* p, std::size_t n, counter_random const& r) {
  { c.packed_floats(n) } -> std::convertible_to<std::size_t>;
  c.encode(p, n, x);
  c.decode(p, n, x);
  c.round(x, n, r);
  { c.name() } -> std::convertible_to<std::string>;
};

namespace codec {

/// As it is.
struct float32 {
  std::string name() const { return "float32"; }
  NESTPIPE_HOST_DEVICE constexpr std::size_t packed_floats(std::size_t n) const { return n; }
  template <class N>
  NESTPIPE_HOST_DEVICE void encode(float const* x, N count, float* packed) const {
    std::size_t const n = count;
    NESTPIPE_ELEMENT_LOOP
    for (std::size_t i = 0; i < n; ++i) packed[i] = x[i];
  }
  template <class N>
  NESTPIPE_HOST_DEVICE void decode(float const* packed, N count, float* x) const {
    std::size_t const n = count;
    NESTPIPE_ELEMENT_LOOP
    for (std::size_t i = 0; i < n; ++i) x[i] = packed[i];
  }
  template <class N>
  NESTPIPE_HOST_DEVICE void round(float*, N, counter_random const&) const {}
};

/// The upper half of a float: its range, 8 bits of precision, a relative error of at most 2^-9 (2^-8 rounded at random).
/// Element i shares a word with element i + half of the row, so that no lane of a vector has to move.
struct bfloat16 {
  std::string name() const { return "bfloat16"; }
  NESTPIPE_HOST_DEVICE constexpr std::size_t packed_floats(std::size_t n) const { return (n + 1) / 2; }
  template <class N>
  NESTPIPE_HOST_DEVICE void encode(float const* __restrict__ x, N count, float* __restrict__ packed) const {
    std::size_t const n = count;
    std::size_t const half = n / 2;
    NESTPIPE_ELEMENT_LOOP
    for (std::size_t i = 0; i < half; ++i)
      packed[i] = detail::float_of((detail::nearest_bfloat16(x[i]) >> 16) | detail::nearest_bfloat16(x[i + half]));
    if (n % 2 != 0) packed[half] = detail::float_of(detail::nearest_bfloat16(x[n - 1]));
  }
  template <class N>
  NESTPIPE_HOST_DEVICE void decode(float const* __restrict__ packed, N count, float* __restrict__ x) const {
    std::size_t const n = count;
    std::size_t const half = n / 2;
    NESTPIPE_ELEMENT_LOOP
    for (std::size_t i = 0; i < half; ++i) {
      std::uint32_t const word = detail::bits_of(packed[i]);
      x[i] = detail::float_of(word << 16);
      x[i + half] = detail::float_of(word & 0xffff0000U);
    }
    if (n % 2 != 0) x[n - 1] = packed[half];
  }
  template <class N>
  NESTPIPE_HOST_DEVICE void round(float* x, N count, counter_random const& random) const {
    std::size_t const n = count;
    NESTPIPE_ELEMENT_LOOP
    for (std::size_t i = 0; i < n; ++i)
      x[i] = detail::float_of(detail::random_bfloat16(x[i], static_cast<std::uint32_t>(random.bits(i) >> 48)));
  }
};

/// IEEE binary16: 11 bits of precision (a relative error of at most 2^-12; 2^-11 at random) from 2^-14 to 65504, an absolute
/// one of 2^-25 (2^-24) below. Larger values become 65504.
struct float16 {
  std::string name() const { return "float16"; }
  NESTPIPE_HOST_DEVICE constexpr std::size_t packed_floats(std::size_t n) const { return (n + 1) / 2; }
  template <class N>
  NESTPIPE_HOST_DEVICE void encode(float const* __restrict__ x, N count, float* __restrict__ packed) const {
    std::size_t const n = count;
    std::size_t const half = n / 2;
    NESTPIPE_ELEMENT_LOOP
    for (std::size_t i = 0; i < half; ++i)
      packed[i] = detail::float_of(detail::nearest_half(x[i]) | (detail::nearest_half(x[i + half]) << 16));
    if (n % 2 != 0) packed[half] = detail::float_of(detail::nearest_half(x[n - 1]));
  }
  template <class N>
  NESTPIPE_HOST_DEVICE void decode(float const* __restrict__ packed, N count, float* __restrict__ x) const {
    std::size_t const n = count;
    std::size_t const half = n / 2;
    NESTPIPE_ELEMENT_LOOP
    for (std::size_t i = 0; i < half; ++i) {
      std::uint32_t const word = detail::bits_of(packed[i]);
      x[i] = detail::half_to_float(word & 0xffffU);
      x[i + half] = detail::half_to_float(word >> 16);
    }
    if (n % 2 != 0) x[n - 1] = detail::half_to_float(detail::bits_of(packed[half]));
  }
  template <class N>
  NESTPIPE_HOST_DEVICE void round(float* x, N count, counter_random const& random) const {
    std::size_t const n = count;
    NESTPIPE_ELEMENT_LOOP
    for (std::size_t i = 0; i < n; ++i)
      x[i] = detail::half_to_float(detail::random_half(x[i], static_cast<std::uint32_t>(random.bits(i) >> 51)));
  }
};

/// Signed bytes and one scale s for the row: |x - q s| <= s / 2 (s at random), s = largest |x| / 127. s keeps 17 bits, so that
/// q s is exact, the row's largest element is 127 s and s is found again from it: that element alone is off by up to 2^-16 of
/// itself, and not rounded at random. A row with values that are not finite has a negative scale and keeps 126 steps for the
/// others: 127 and -127 are the infinities, -128 is NaN.
struct int8 {
  std::string name() const { return "int8"; }
  NESTPIPE_HOST_DEVICE constexpr std::size_t packed_floats(std::size_t n) const { return n == 0 ? 0 : 1 + (n + 3) / 4; }

  template <class N>
  NESTPIPE_HOST_DEVICE void encode(float const* __restrict__ x, N count, float* __restrict__ packed) const {
    std::size_t const n = count;
    if (n == 0) return;
    scale const s = scale_of(x, count);
    packed[0] = detail::float_of(detail::bits_of(s.step) | (s.finite ? 0 : detail::sign_bit));
    std::size_t const words = (n + 3) / 4;
    if (n % 4 == 0) {
      NESTPIPE_ELEMENT_LOOP
      for (std::size_t i = 0; i < words; ++i) {
        std::uint32_t const a = byte(nearest(x[i], s)), b = byte(nearest(x[i + words], s));
        std::uint32_t const c = byte(nearest(x[i + 2 * words], s)), d = byte(nearest(x[i + 3 * words], s));
        packed[1 + i] = detail::float_of(a | (b << 8) | (c << 16) | (d << 24));
      }
    } else {
      NESTPIPE_ELEMENT_LOOP
      for (std::size_t i = 0; i < words; ++i) {
        std::uint32_t word = 0;
        for (std::size_t k = 0; k < 4 && i + k * words < n; ++k) word |= byte(nearest(x[i + k * words], s)) << (8 * k);
        packed[1 + i] = detail::float_of(word);
      }
    }
    if (!s.finite) {
      NESTPIPE_ELEMENT_LOOP
      for (std::size_t i = 0; i < n; ++i) {
        if ((detail::bits_of(x[i]) & ~detail::sign_bit) < detail::infinity_bits) continue;
        std::uint32_t const shift = static_cast<std::uint32_t>(8 * (i / words));
        std::uint32_t const code = x[i] != x[i] ? 0x80U : x[i] > 0 ? 0x7fU : 0x81U;
        float& word = packed[1 + i % words];
        word = detail::float_of((detail::bits_of(word) & ~(0xffU << shift)) | (code << shift));
      }
    }
  }

  template <class N>
  NESTPIPE_HOST_DEVICE void decode(float const* __restrict__ packed, N count, float* __restrict__ x) const {
    std::size_t const n = count;
    if (n == 0) return;
    std::uint32_t const header = detail::bits_of(packed[0]);
    float const step = detail::float_of(header & ~detail::sign_bit);
    std::size_t const words = (n + 3) / 4;
    for (std::size_t k = 0; k < 4; ++k) {
      std::size_t const first = k * words < n ? k * words : static_cast<std::size_t>(n);
      std::size_t const last = first + words < n ? first + words : static_cast<std::size_t>(n);
      NESTPIPE_ELEMENT_LOOP
      for (std::size_t i = first; i < last; ++i) x[i] = static_cast<float>(code_at(packed, i - first, k)) * step;
    }
    if ((header & detail::sign_bit) == 0) return;
    NESTPIPE_ELEMENT_LOOP
    for (std::size_t i = 0; i < n; ++i) {
      std::int32_t const q = code_at(packed, i % words, i / words);
      if (q == -128) x[i] = detail::float_of(0x7fc00000U);
      if (q == 127) x[i] = detail::float_of(detail::infinity_bits);
      if (q == -127) x[i] = detail::float_of(detail::infinity_bits | detail::sign_bit);
    }
  }

  template <class N>
  NESTPIPE_HOST_DEVICE void round(float* x, N count, counter_random const& random) const {
    std::size_t const n = count;
    if (n == 0) return;
    scale const s = scale_of(x, count);
    NESTPIPE_ELEMENT_LOOP
    for (std::size_t i = 0; i < n; ++i) {
      std::uint32_t const bits = detail::bits_of(x[i]);
      std::uint32_t const magnitude = bits & ~detail::sign_bit;
      // Up to half a step up or down, never to where two values are equally near.
      float const moved = static_cast<float>(static_cast<std::int32_t>(random.bits(i) >> 48)) * 0x1p-16f + (0x1p-17f - 0.5f);
      std::int32_t const q = clamp(to_integer(detail::float_of(detail::select(magnitude < detail::infinity_bits, bits, 0)) / s.divisor + moved), s);
      std::int32_t const pinned = static_cast<std::int32_t>(detail::select(bits > magnitude, static_cast<std::uint32_t>(-s.most), static_cast<std::uint32_t>(s.most)));
      std::int32_t const chosen = static_cast<std::int32_t>(detail::select(magnitude == s.largest, static_cast<std::uint32_t>(pinned), static_cast<std::uint32_t>(q)));
      std::uint32_t const special = detail::select(magnitude > detail::infinity_bits, 0x7fc00000U, bits);
      x[i] = detail::float_of(detail::select(magnitude < detail::infinity_bits, detail::bits_of(static_cast<float>(chosen) * s.step), special));
    }
  }

 private:
  struct scale {
    float step;              ///< 0 when all finite elements are 0
    float divisor;           ///< the step, or 1 where it is 0
    std::int32_t most;       ///< 127, or 126 in a row with values that are not finite
    std::uint32_t largest;   ///< bits of the largest finite magnitude
    bool finite;
  };

  template <class N>
  NESTPIPE_HOST_DEVICE static scale scale_of(float const* x, N count) {
    std::size_t const n = count;
    std::uint32_t largest = 0, all = 0;
    NESTPIPE_ELEMENT_LOOP
    for (std::size_t i = 0; i < n; ++i) {
      std::uint32_t const magnitude = detail::bits_of(x[i]) & ~detail::sign_bit;
      std::uint32_t const finite = detail::select(magnitude < detail::infinity_bits, magnitude, 0);
      largest = finite > largest ? finite : largest;
      all = magnitude > all ? magnitude : all;
    }
    scale s{};
    s.finite = all < detail::infinity_bits;
    s.most = s.finite ? 127 : 126;
    s.largest = largest;
    s.step = detail::float_of(detail::bits_of(detail::float_of(largest) / static_cast<float>(s.most)) & ~0x7fU);
    s.divisor = s.step > 0 ? s.step : 1.0f;
    if (s.step == 0) s.largest = detail::infinity_bits;  // nothing is pinned: all become 0
    return s;
  }

  NESTPIPE_HOST_DEVICE static std::int32_t clamp(std::int32_t q, scale const& s) {
    std::int32_t const below = q < s.most ? q : s.most;
    return below > -s.most ? below : -s.most;
  }
  /// The nearest integer, ties to even, of |v| < 2^22: beside 1.5 * 2^23 a float has no bits behind the point.
  NESTPIPE_HOST_DEVICE static std::int32_t to_integer(float v) {
    return static_cast<std::int32_t>(detail::bits_of(v + 12582912.0f) - detail::bits_of(12582912.0f));
  }
  /// Of a value that is not finite: anything, encode overwrites it.
  NESTPIPE_HOST_DEVICE static std::int32_t nearest(float x, scale const& s) { return clamp(to_integer(x / s.divisor), s); }
  NESTPIPE_HOST_DEVICE static std::uint32_t byte(std::int32_t q) { return static_cast<std::uint32_t>(q) & 0xffU; }
  NESTPIPE_HOST_DEVICE static std::int32_t code_at(float const* packed, std::size_t word, std::size_t k) {
    return static_cast<std::int32_t>(detail::bits_of(packed[1 + word]) << (24 - 8 * k)) >> 24;
  }
};

/// One of them, chosen at run time: a switch per row.
class any {
 public:
  enum class kind : std::uint8_t { float32, bfloat16, float16, int8 };

  any() = default;
  any(kind k) : kind_{k} {}  // NOLINT: implicit, it stands for the codec

  /// Calls `f` with the chosen codec.
  template <class F>
  decltype(auto) visit(F&& f) const {
    switch (kind_) {
      case kind::bfloat16: return f(bfloat16{});
      case kind::float16: return f(float16{});
      case kind::int8: return f(int8{});
      default: return f(float32{});
    }
  }

  kind chosen() const { return kind_; }
  bool exact() const { return kind_ == kind::float32; }
  std::string name() const {
    return visit([](auto const& c) { return c.name(); });
  }
  std::size_t packed_floats(std::size_t n) const {
    return visit([&](auto const& c) { return c.packed_floats(n); });
  }
  template <class N>
  void encode(float const* x, N n, float* packed) const {
    visit([&](auto const& c) { c.encode(x, n, packed); });
  }
  template <class N>
  void decode(float const* packed, N n, float* x) const {
    visit([&](auto const& c) { c.decode(packed, n, x); });
  }
  template <class N>
  void round(float* x, N n, counter_random const& random) const {
    visit([&](auto const& c) { c.round(x, n, random); });
  }

 private:
  kind kind_ = kind::float32;
};

}  // namespace codec
}  // namespace nestpipe::storage
