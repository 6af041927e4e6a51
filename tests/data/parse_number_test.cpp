#include <nestpipe/core/random.hpp>
#include <nestpipe/data/dense_transform.hpp>
#include <nestpipe/data/parse_number.hpp>
#include <nestpipe/data/text_key.hpp>

#include <doctest/doctest.h>

#include <cstdio>
#include <set>
#include <string>

using namespace nestpipe;
using namespace nestpipe::data;

TEST_CASE("eight hexadecimal digits at once agree with one at a time") {
  counter_random const random{1, 2, 3};
  char text[32];
  for (std::uint64_t i = 0; i < 200000; ++i) {
    auto const want = static_cast<std::uint32_t>(random.bits(i));
    std::snprintf(text, sizeof text, i % 2 == 0 ? "%08x" : "%08X", want);
    std::uint64_t fast = 0;
    std::uint64_t slow = 0;
    REQUIRE(parse_hex8(text, fast));
    REQUIRE(parse_hex({text, 8}, slow));
    REQUIRE(fast == want);
    REQUIRE(slow == want);
  }
  // Every byte value in every place.
  for (int place = 0; place < 8; ++place) {
    for (int byte = 0; byte < 256; ++byte) {
      std::string bytes = "0a9F3c7E";
      bytes[static_cast<std::size_t>(place)] = static_cast<char>(byte);
      std::uint64_t fast = 0;
      std::uint64_t slow = 0;
      CAPTURE(place);
      CAPTURE(byte);
      bool const good = parse_hex8(bytes.data(), fast);
      CHECK(good == parse_hex(bytes, slow));
      if (good) CHECK(fast == slow);
    }
  }
}

TEST_CASE("hexadecimal ids: 1 to 16 digits") {
  std::uint64_t v = 0;
  CHECK((parse_hex("0", v) && v == 0));
  CHECK((parse_hex("ffffffffffffffff", v) && v == ~std::uint64_t{0}));
  CHECK_FALSE(parse_hex("", v));
  CHECK_FALSE(parse_hex("10000000000000000", v));
  CHECK_FALSE(parse_hex("0x1", v));
  CHECK_FALSE(parse_hex("-1", v));
  CHECK_FALSE(parse_hex("12 ", v));
}

TEST_CASE("unsigned numbers use all 64 bits") {
  std::uint64_t v = 0;
  CHECK((parse_unsigned("18446744073709551615", v) && v == ~std::uint64_t{0}));
  CHECK((parse_unsigned("000", v) && v == 0));
  CHECK_FALSE(parse_unsigned("18446744073709551616", v));
  CHECK_FALSE(parse_unsigned("99999999999999999999", v));
  CHECK_FALSE(parse_unsigned("", v));
  CHECK_FALSE(parse_unsigned("-1", v));
  CHECK_FALSE(parse_unsigned("1.0", v));
}

TEST_CASE("real numbers: finite decimals within float range") {
  struct {
    char const* text;
    number_status status;
    double value;
  } const cases[] = {
      {"5", number_status::good, 5},        {"-3.5e2", number_status::good, -350}, {"+1", number_status::good, 1},
      {"1e-400", number_status::good, 0},   {"-0", number_status::good, -0.0},     {".5", number_status::good, 0.5},
      {"1e308", number_status::out_of_range, 0}, {"1e400", number_status::out_of_range, 0}, {"-1e400", number_status::out_of_range, 0},
      {"", number_status::bad, 0},          {"nan", number_status::bad, 0},        {"inf", number_status::bad, 0},
      {"-inf", number_status::bad, 0},      {"0x10", number_status::bad, 0},       {"--3", number_status::bad, 0},
      {"+-3", number_status::bad, 0},       {"1 ", number_status::bad, 0},         {"1,5", number_status::bad, 0},
      {"9223372036854775808", number_status::good, 9223372036854775808.0},
  };
  for (auto const& c : cases) {
    CAPTURE(c.text);
    double v = -7;
    CHECK(parse_real(c.text, v) == c.status);
    CHECK(v == (c.status == number_status::good ? c.value : -7));
  }
}

TEST_CASE("the dense transform is safe for -3, -1, 0 and missing, odd and monotone") {
  dense_transform const t;
  CHECK(t(-3) == doctest::Approx(-std::log(4.0)));
  CHECK(t(-1) == doctest::Approx(-std::log(2.0)));
  CHECK(t(0) == 0);
  CHECK(t.missing == 0);
  CHECK(t(3.4e38) < 100);
  CHECK(t(5) == -t(-5));
  for (std::uint64_t x = 0; x < 10000; ++x) {
    REQUIRE(t.count(x) == t(static_cast<double>(x)));  // the table has the same bits
    REQUIRE(t.count(x + 1) > t.count(x));
  }
  CHECK(dense_transform{.kind = dense_kind::identity}(-2.5) == -2.5f);
}

TEST_CASE("keys of text: every byte and the length count") {
  std::set<key_type> keys;
  std::size_t n = 0;
  std::string const base = "cef3390ed299c09874189c387777674a";
  for (std::size_t length = 0; length <= base.size(); ++length) {
    keys.insert(text_key(base.substr(0, length)));
    ++n;
    for (std::size_t i = 0; i < length; ++i) {
      std::string other = base.substr(0, length);
      other[i] = static_cast<char>(other[i] ^ 1);
      keys.insert(text_key(other));
      ++n;
    }
  }
  for (int i = 0; i < 200000; ++i) keys.insert(text_key("n" + std::to_string(i)));
  keys.insert(text_key(std::string(1, '\0')));
  keys.insert(text_key(std::string(2, '\0')));
  CHECK(keys.size() == n + 200002);
  CHECK(text_key("adult") == text_key(std::string{"adult"}));
  CHECK(text_key("swapped word 1word 2") != text_key("swapped word 2word 1"));
  // Written down once: saved models depend on it.
  CHECK(text_key("") == 15533322089083524763ULL);
  CHECK(text_key(base) == 14002963748355046027ULL);
}
