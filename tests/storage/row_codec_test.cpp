// Codecs on every kind of float, and stores that keep rows through them.
#include "storage_conformance.hpp"

#include <nestpipe/storage/any_of.hpp>
#include <nestpipe/storage/audited.hpp>
#include <nestpipe/storage/dense.hpp>
#include <nestpipe/storage/encoded.hpp>
#include <nestpipe/storage/hashed.hpp>

#include <cmath>
#include <limits>
#include <string>

namespace s = nestpipe::storage;
namespace c = storage_conformance;
using nestpipe::counter_random;
using nestpipe::key_type;
using s::codec::bfloat16;
using s::codec::float16;
using s::codec::float32;
using s::codec::int8;

namespace {

constexpr float infinity = std::numeric_limits<float>::infinity();

template <class Codec>
std::vector<float> through(Codec const& codec, std::vector<float> const& x) {
  std::vector<float> packed(codec.packed_floats(x.size())), out(x.size());
  codec.encode(x.data(), x.size(), packed.data());
  codec.decode(packed.data(), x.size(), out.data());
  return out;
}
template <class Codec>
std::vector<float> rounded(Codec const& codec, std::vector<float> x, std::uint64_t seed) {
  codec.round(x.data(), x.size(), counter_random{seed, 1, 2});
  return x;
}

/// The nearest even value with `precision` bits and exponents from `lowest`, in double precision.
double nearest(double x, int precision, int lowest, double largest) {
  if (x == 0 || !std::isfinite(x)) return x;
  int e = 0;
  std::frexp(x, &e);  // |x| in [2^(e-1), 2^e)
  double const unit = std::ldexp(1.0, std::max(e - precision, lowest));
  double const q = std::nearbyint(x / unit) * unit;
  return std::abs(q) > largest ? std::copysign(largest, x) : q;
}

bool same(float a, float b) { return std::bit_cast<std::uint32_t>(a) == std::bit_cast<std::uint32_t>(b); }

/// Any bit pattern, and magnitudes as training has them.
float any_float(std::uint64_t i) { return std::bit_cast<float>(static_cast<std::uint32_t>(nestpipe::mix64(i, 77))); }
std::vector<float> usual_row(std::size_t n, std::uint64_t seed, float scale = 0.1f) {
  std::vector<float> x(n);
  counter_random const random{seed, 5, 6};
  for (std::size_t i = 0; i < n; ++i) x[i] = random.normal(i) * scale;
  return x;
}

template <class Codec>
void check_idempotent(Codec const& codec) {
  std::uint64_t next = 0;
  bool good = true;
  for (std::size_t const n : {1, 2, 3, 4, 5, 7, 8, 16, 17, 31, 33, 64, 130}) {
    for (int round = 0; round < 300; ++round) {
      std::vector<float> x(n);
      int const shape = round % 4;
      for (std::size_t i = 0; i < n; ++i) {
        x[i] = any_float(next++);
        if (shape != 0 && !std::isfinite(x[i])) x[i] = 1;
        if (shape == 2) x[i] = std::ldexp(x[i], -std::ilogb(x[i]) % 40 - 130);  // subnormal, or near it
      }
      if (shape == 3) x = usual_row(n, next);
      std::vector<float> const once = through(codec, x), twice = through(codec, once);
      std::vector<float> const random = rounded(codec, x, next), stored = through(codec, random);
      for (std::size_t i = 0; i < n; ++i) {
        good = good && same(once[i], twice[i]) && same(random[i], stored[i]);
        for (float const y : {once[i], random[i]}) good = good && std::isnan(x[i]) == std::isnan(y) && std::isfinite(x[i]) == std::isfinite(y);
        if (std::isinf(x[i])) good = good && once[i] == x[i] && random[i] == x[i];
      }
    }
  }
  CHECK(good);
}

/// Mean of many roundings, in steps of the format, against what was rounded.
template <class Codec>
void check_unbiased(Codec const& codec, std::vector<float> const& x, std::vector<double> const& step) {
  constexpr int times = 20000;
  std::vector<double> sum(x.size());
  bool neighbours = true;
  for (int k = 0; k < times; ++k) {
    auto const y = rounded(codec, x, static_cast<std::uint64_t>(k));
    for (std::size_t i = 0; i < x.size(); ++i) {
      sum[i] += static_cast<double>(y[i]) - static_cast<double>(x[i]);
      neighbours = neighbours && std::abs(static_cast<double>(y[i]) - static_cast<double>(x[i])) < step[i] * 1.001;
    }
  }
  CHECK(neighbours);
  // A rounding error has a deviation of at most half a step; 5 deviations of the mean.
  for (std::size_t i = 0; i < x.size(); ++i) CHECK(std::abs(sum[i] / times) < 5 * 0.5 * step[i] / std::sqrt(double{times}));
}

std::vector<double> steps_of(std::vector<float> const& x, int precision, int lowest) {
  std::vector<double> steps;
  for (float const v : x) steps.push_back(std::ldexp(1.0, std::max(std::ilogb(v) + 1 - precision, lowest)));
  return steps;
}

s::storage_spec spec(std::size_t dim, std::size_t state, std::size_t extra = 0) {
  s::storage_spec spec = c::spec(dim + state + extra, {});
  spec.dim = dim;
  spec.extra_floats = extra;
  return spec;
}

}  // namespace

TEST_CASE("bfloat16 and float16 are the nearest values of their formats, ties to even") {
  bool bf = true, half = true;
  for (std::uint64_t i = 0; i < 200000; ++i) {
    float x = any_float(i);
    if (i % 2 == 0) x = std::bit_cast<float>((std::bit_cast<std::uint32_t>(x) & 0x80ffffffU) | 0x38000000U);  // halves, normal and not
    if (i % 3 == 0) x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xffff8000U);                  // ties
    if (i % 7 == 0) x = std::bit_cast<float>(std::bit_cast<std::uint32_t>(x) & 0xfffff000U);
    if (!std::isfinite(x)) continue;
    bf = bf && same(through(bfloat16{}, {x})[0], static_cast<float>(nearest(static_cast<double>(x), 8, -133, 0x1.fep127)));
    half = half && same(through(float16{}, {x})[0], static_cast<float>(nearest(static_cast<double>(x), 11, -24, 65504)));
  }
  CHECK(bf);
  CHECK(half);
  CHECK(through(float16{}, {1e9f, -65519.0f, 1e-9f, -0.0f}) == std::vector<float>{65504, -65504, 0, 0});
  CHECK(std::signbit(through(float16{}, {-0.0f})[0]));
  CHECK(through(bfloat16{}, {std::numeric_limits<float>::max()})[0] == 0x1.fep127f);
}

TEST_CASE("every half is decoded to its value") {
  bool good = true;
  for (std::uint32_t h = 0; h < 0x7c00; ++h) {
    double const value = h < 0x400 ? std::ldexp(h, -24) : std::ldexp((h & 0x3ff) + 0x400, static_cast<int>(h >> 10) - 25);
    good = good && static_cast<double>(s::detail::half_to_float(h)) == value && static_cast<double>(s::detail::half_to_float(h | 0x8000)) == -value;
    good = good && s::detail::nearest_half(static_cast<float>(value)) == h;
  }
  CHECK(good);
}

TEST_CASE("int8 is off by at most half a step of its row") {
  bool good = true;
  for (std::uint64_t k = 0; k < 2000; ++k) {
    auto const x = usual_row(1 + k % 70, k, std::ldexp(1.0f, static_cast<int>(k % 60) - 30));
    float largest = 0;
    for (float const v : x) largest = std::max(largest, std::abs(v));
    double const step = static_cast<double>(largest) / 127;
    auto const y = through(int8{}, x);
    for (std::size_t i = 0; i < x.size(); ++i) good = good && std::abs(static_cast<double>(y[i]) - static_cast<double>(x[i])) <= step * 0.5021;
  }
  CHECK(good);
  CHECK(through(int8{}, {0, 0, 0}) == std::vector<float>{0, 0, 0});
  auto const y = through(int8{}, {1, infinity, -infinity, std::numeric_limits<float>::quiet_NaN(), -0.5f});
  CHECK(y[0] == doctest::Approx(1));
  CHECK(y[1] == infinity);
  CHECK(y[2] == -infinity);
  CHECK(std::isnan(y[3]));
  CHECK(y[4] == doctest::Approx(-0.5));
}

TEST_CASE_TEMPLATE("what was decoded or rounded stays as it is; what is finite stays finite, what is not stays what it is", Codec, float32, bfloat16, float16, int8) {
  static_assert(s::row_codec<Codec>);
  check_idempotent(Codec{});
}
TEST_CASE("so it does with the codec chosen at run time") {
  using kind = s::codec::any::kind;
  for (kind const k : {kind::float32, kind::bfloat16, kind::float16, kind::int8}) check_idempotent(s::codec::any{k});
  CHECK(s::codec::any{kind::int8}.name() == "int8");
  auto const x = usual_row(9, 1);
  CHECK(through(s::codec::any{kind::float16}, x) == through(float16{}, x));
}

TEST_CASE("rounding at random is right in the mean, and only ever goes to a neighbour") {
  std::vector<float> const x{0.1f, -0.3f, 1.0f, 0.7071f, 1e-3f, -255.3f, 1.99999f, 3e-5f, -7e-6f, 6e-8f};
  check_unbiased(bfloat16{}, x, steps_of(x, 8, -133));
  check_unbiased(float16{}, x, steps_of(x, 11, -24));
  auto const row = usual_row(32, 3);
  float largest = 0;
  for (float const v : row) largest = std::max(largest, std::abs(v));
  check_unbiased(int8{}, row, std::vector<double>(32, static_cast<double>(largest) / 127));
}

TEST_CASE("random bits belong to an element, not to a call") {
  auto const x = usual_row(16, 4);
  CHECK(rounded(bfloat16{}, x, 1) == rounded(bfloat16{}, x, 1));
  CHECK(rounded(bfloat16{}, x, 1) != rounded(bfloat16{}, x, 2));
  std::vector<float> const short_row{x.begin(), x.begin() + 7};
  auto const whole = rounded(float16{}, x, 1), part = rounded(float16{}, short_row, 1);
  CHECK(std::equal(part.begin(), part.end(), whole.begin()));
}

TEST_CASE("a store that encodes as float32 meets the contract, to the bit") {
  c::check_storage(s::encoded<s::hashed<>, float32>{}, {.growth_rows = 60000});
  c::check_storage(s::encoded<s::hashed<>, s::codec::any>{}, {.growth_rows = 60000});
}

TEST_CASE_TEMPLATE("a narrow store gives back the nearest row, state and extra floats to the bit, and takes less memory", Codec, bfloat16, float16, int8) {
  for (bool const with_state : {false, true}) {
    for (std::size_t const dim : {1, 4, 9, 16, 30}) {
      std::size_t const state = dim + 1, extra = 1, w = dim + state + extra;
      s::encoded<s::hashed<>, Codec> store{{}, {}, {s::rounding::stochastic, with_state}};
      s::hashed<> plain;
      store.open(spec(dim, state, extra));
      plain.open(spec(dim, state, extra));
      std::vector<key_type> keys;
      std::vector<float> rows;
      for (key_type k = 0; k < 3000; ++k) {
        keys.push_back(c::key_number(k, {}));
        auto const row = usual_row(w, k);
        rows.insert(rows.end(), row.begin(), row.end());
      }
      std::vector<s::row_handle> handles(keys.size(), s::no_row);
      store.write(keys, handles, rows.data());
      plain.write(keys, handles, rows.data());
      std::vector<float> back(rows.size(), -1.0f);
      keys.push_back(~key_type{0});  // not there
      handles.resize(keys.size());
      back.insert(back.end(), w, -1.0f);
      store.read(keys, handles, back.data());
      CHECK(handles.back() == s::no_row);
      bool good = std::all_of(back.end() - static_cast<std::ptrdiff_t>(w), back.end(), [](float v) { return v == -1.0f; });
      for (std::size_t k = 0; k + 1 < keys.size(); ++k) {
        std::vector<float> const embedding{&rows[k * w], &rows[k * w] + dim}, its_state{&rows[k * w + dim], &rows[k * w + dim] + state};
        auto wanted = through(Codec{}, embedding);
        auto const kept = with_state ? through(Codec{}, its_state) : its_state;
        wanted.insert(wanted.end(), kept.begin(), kept.end());
        wanted.push_back(rows[k * w + w - 1]);
        good = good && c::same_bits(&back[k * w], wanted.data(), w);
      }
      CHECK(good);
      std::size_t met = 0;
      s::for_each(store, [&](key_type key, std::span<float const> row) {
        auto const k = static_cast<std::size_t>(std::find(keys.begin(), keys.end(), key) - keys.begin());
        good = good && row.size() == w && c::same_bits(row.data(), &back[k * w], w);
        ++met;
      });
      CHECK(met == 3000);
      CHECK(good);
      if (dim < 4) continue;  // a scale takes as much as bytes save
      std::size_t const fewer = dim - Codec{}.packed_floats(dim) + (with_state ? state - Codec{}.packed_floats(state) : 0);
      // Blocks of hashed hold whole rows, so not every byte saved is a byte less.
      CHECK(plain.counters().bytes - store.counters().bytes >= 3000 * fewer * sizeof(float) * 4 / 5);
    }
  }
}

TEST_CASE("the layer that rounds is found under others, and only when it is in use") {
  using store = s::encoded<s::hashed<>, s::codec::any>;
  static_assert(s::may_round<s::audited<store>>);
  static_assert(s::may_round<s::any_of<s::hashed<>, s::audited<store>>>);
  static_assert(!s::may_round<s::any_of<s::hashed<>, s::dense>>);
  CHECK(!s::rounding_of(store{}));
  s::any_of<s::hashed<>, s::audited<store>> chosen;
  CHECK(!s::rounding_of(chosen));
  chosen = s::audited<store>{store{{}, s::codec::any::kind::bfloat16, {s::rounding::nearest}}};
  chosen.open(spec(3, 1));
  auto const rounding = s::rounding_of(chosen);
  REQUIRE(rounding);
  std::vector<float> row{0.1f, 0.2f, 0.3f, 0.4f};
  rounding(row.data(), counter_random{1, 2, 3});
  auto const wanted = through(bfloat16{}, {0.1f, 0.2f, 0.3f});
  CHECK(std::equal(wanted.begin(), wanted.end(), row.begin()));
  CHECK(row[3] == 0.4f);
}
