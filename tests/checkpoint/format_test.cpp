// The parts that stand alone: hash, JSON, safetensors, names.

#include "scratch.hpp"

#include <nestpipe/checkpoint/file_hash.hpp>
#include <nestpipe/checkpoint/json.hpp>
#include <nestpipe/checkpoint/safetensors.hpp>
#include <nestpipe/checkpoint/type_name.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/optimizer/any_of.hpp>
#include <nestpipe/optimizer/sgd.hpp>
#include <nestpipe/storage/hashed.hpp>

#include <doctest/doctest.h>

#include <cmath>

using namespace checkpoint_test;
using namespace nestpipe::checkpoint;

namespace {

std::vector<std::byte> some_bytes(std::size_t n) {
  std::vector<std::byte> b(n);
  for (std::size_t i = 0; i < n; ++i) b[i] = static_cast<std::byte>(np::mix64(i) & 255);
  return b;
}

std::string refusal(std::string const& text) {
  try {
    json::parse(text);
  } catch (np::data_error const& e) {
    return e.what();
  }
  return {};
}

std::string open_view(std::string const& bytes) {
  try {
    safetensors_view const v{std::as_bytes(std::span{bytes.data(), bytes.size()}), "x"};
  } catch (np::data_error const& e) {
    return e.what();
  }
  return {};
}

std::string with_header(std::string header, std::size_t data) {
  std::uint64_t const n = header.size();
  return std::string{reinterpret_cast<char const*>(&n), 8} + header + std::string(data, 'd');
}

}  // namespace

TEST_CASE("the hash does not depend on pieces and sees every changed byte, exchanged words and length") {
  for (std::size_t const n : {0, 1, 7, 8, 31, 32, 33, 200}) {
    auto bytes = some_bytes(n);
    std::uint64_t const whole = file_hash::of(bytes);
    for (std::size_t const piece : {1, 3, 32, 50}) {
      file_hash h;
      for (std::size_t at = 0; at < n; at += piece) h.update(std::span<std::byte const>{bytes}.subspan(at, std::min(piece, n - at)));
      CHECK(h.value() == whole);
    }
    for (std::size_t i = 0; i < n; ++i) {
      for (unsigned const flip : {1U, 128U, 255U}) {
        bytes[i] ^= static_cast<std::byte>(flip);
        CHECK(file_hash::of(bytes) != whole);
        bytes[i] ^= static_cast<std::byte>(flip);
      }
    }
    bytes.push_back(std::byte{0});
    CHECK(file_hash::of(bytes) != whole);
  }
  auto bytes = some_bytes(64);
  std::uint64_t const whole = file_hash::of(bytes);
  std::swap_ranges(bytes.begin(), bytes.begin() + 8, bytes.begin() + 32);
  CHECK(file_hash::of(bytes) != whole);
  // Files of other builds must stay readable: the function is part of the format.
  CHECK(hex64(file_hash::of(some_bytes(100))) == "4fcca9ab8b8698b9");
}

TEST_CASE("hexadecimal numbers are read in exactly one spelling") {
  std::uint64_t x = 0;
  CHECK(parse_hex64(hex64(0x0123456789abcdefULL), x));
  CHECK(x == 0x0123456789abcdefULL);
  CHECK_FALSE(parse_hex64("0123456789ABCDEF", x));
  CHECK_FALSE(parse_hex64("0123456789abcde", x));
  CHECK_FALSE(parse_hex64("0123456789abcdeg", x));
}

TEST_CASE("JSON returns what was written") {
  float const odd[] = {0.1f, 1e-45f, 3.4028235e38f, -0.0f, 16777217.0f, 0.05f};
  std::string const name = std::string{"quote \" slash \\ / tab \t umlaut \u00fc emoji \U0001f600 zero "} + '\0' + "end";
  json_writer w;
  w.open('{').key(name).value(name).key("n").value(~std::uint64_t{0}).key("f").open('[');
  for (float const x : odd) w.value(x);
  w.value(std::numeric_limits<float>::infinity()).value(std::numeric_limits<float>::quiet_NaN()).close(']').key("t").value(true).key("e").open('{').close('}');
  w.line(1).key("l").open('[').close(']').close('}');
  json const j = json::parse(w.text());
  CHECK(j.at(name).text() == name);
  CHECK(j.at("n").u64() == ~std::uint64_t{0});
  auto const& f = j.at("f").items();
  for (std::size_t i = 0; i < std::size(odd); ++i) CHECK(std::bit_cast<std::uint32_t>(f[i].number()) == std::bit_cast<std::uint32_t>(odd[i]));
  CHECK(std::isinf(f[6].number()));
  CHECK(std::isnan(f[7].number()));
  CHECK(j.at("t").boolean());
  CHECK(j.at("e").fields().empty());
  CHECK(json::parse(" [ \"\\u0041\\ud83d\\ude00\\n\" , null ] ").items()[0].text() == "A\U0001f600\n");
  CHECK_THROWS_AS(json_writer{}.value("\xff"), np::config_error);
}

TEST_CASE("JSON that is none is refused") {
  for (char const* const bad : {"", "{", "{\"a\"}", "{\"a\":}", "[1,]", "[1 2]", "{\"a\":1,\"a\":2}", "\"open", "\"\\x\"", "\"\\u12\"", "\"\\ud800\"", "\"\xc0\x80\"", "nul", "1 1", "[\"a\nb\"]", "\"\\"})
    CHECK_MESSAGE(refusal(bad) != "", bad);
  CHECK(refusal(std::string(100, '[')).find("nested too deeply") != std::string::npos);
  CHECK_THROWS_AS(json::parse("18446744073709551616").u64(), np::data_error);
  CHECK_THROWS_AS(json::parse("1.5").u64(), np::data_error);
  CHECK_THROWS_AS(json::parse("-1").u64(), np::data_error);
  CHECK_THROWS_AS(json::parse("{}").at("x"), np::data_error);
}

TEST_CASE("safetensors return what was written, data begin at a multiple of eight bytes") {
  scratch_directory dir;
  std::vector<std::uint64_t> const keys{1, ~std::uint64_t{0}, 3};
  std::vector<std::int64_t> const signed_numbers{-1, 5};
  std::vector<float> const values{0.5f, -0.0f, 1e-45f, 2.0f, 3.0f, 4.0f};
  std::vector<std::uint8_t> const bytes{7, 8, 9};
  safetensors_writer w;
  w.metadata("k\"ey", "text");
  w.add("keys", {3}, std::span<std::uint64_t const>{keys});
  w.add("a \"name\"\\", {3, 2}, std::span<float const>{values});
  w.add("empty", {0, 4}, std::span<float const>{});
  w.add("bytes", {3}, std::span<std::uint8_t const>{bytes});
  w.add("signed", {2, 1}, std::span<std::int64_t const>{signed_numbers});
  CHECK_THROWS_AS(w.add("keys", {3}, std::span<std::uint64_t const>{keys}), np::config_error);
  CHECK_THROWS_AS(w.add("wrong", {4}, std::span<std::uint64_t const>{keys}), np::config_error);
  np::checkpoint::detail::file_sum const sum = w.write(dir / "x.safetensors");
  std::string const file = slurp(dir / "x.safetensors");
  std::span<std::byte const> const all = std::as_bytes(std::span{file.data(), file.size()});
  CHECK(sum.bytes == file.size());
  CHECK(sum.checksum == file_hash::of(all));
  std::uint64_t header = 0;
  std::memcpy(&header, file.data(), 8);
  CHECK(header % 8 == 0);
  CHECK(file[8] == '{');

  safetensors_view const v{all, "x"};
  std::vector<std::uint64_t> k(3);
  v.read("keys", {3}, std::span<std::uint64_t>{k});
  CHECK(k == keys);
  std::vector<float> f(6);
  v.read("a \"name\"\\", {3, 2}, std::span<float>{f});
  CHECK(std::memcmp(f.data(), values.data(), 24) == 0);
  std::vector<std::int64_t> s(2);
  v.read("signed", {2, 1}, std::span<std::int64_t>{s});
  CHECK(s == signed_numbers);
  CHECK(v.find("empty")->shape == std::vector<std::uint64_t>{0, 4});
  CHECK(v.find("nothing") == nullptr);
  CHECK_THROWS_WITH_AS(v.read("keys", {4}, std::span<std::uint64_t>{k}), "tensor keys is U64 (3), expected U64 (4) (x)", np::data_error);
  CHECK_THROWS_AS(v.read("a \"name\"\\", {3}, std::span<std::uint64_t>{k}), np::data_error);
  CHECK_THROWS_AS(v.read("nothing", {3}, std::span<std::uint64_t>{k}), np::data_error);
}

TEST_CASE("safetensors that are none are refused") {
  std::string const good = "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}";
  CHECK(open_view(with_header(good, 8)) == "");
  CHECK(open_view(with_header(good, 7)) != "");
  CHECK(open_view(with_header(good, 9)) != "");
  CHECK(open_view("short") != "");
  CHECK(open_view(std::string(8, '\xff') + good) != "");
  for (char const* const bad : {
           "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,8]}}",
           "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[8,0]}}",
           "{\"a\":{\"dtype\":\"Q4\",\"shape\":[2],\"data_offsets\":[0,8]}}",
           "{\"a\":{\"dtype\":\"F32\",\"shape\":[4611686018427387904,4],\"data_offsets\":[0,8]}}",
           "{\"a\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
           "{\"a\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]},\"b\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[4,8]}}",
           "{\"a\":{\"dtype\":\"F32\",\"shape\":[2]}}",
           "[]",
       })
    CHECK_MESSAGE(open_view(with_header(bad, 8)) != "", bad);
}

TEST_CASE("policies are called by their own names") {
  using optimizer = np::optimizer::any_of<np::optimizer::sgd, np::optimizer::adam>;
  CHECK(active_policy_name(np::optimizer::sgd{}) == "sgd");
  CHECK(active_policy_name(optimizer{np::optimizer::adam{}}) == "adam");
  CHECK(active_policy_name(np::storage::hashed<>{}) == "hashed");
  struct own {
    char const* name() const { return "mine"; }
  };
  CHECK(active_policy_name(own{}) == "mine");
  CHECK(state_layout("adam", 4, 8).size() == 2);
  CHECK(state_layout("adam", 4, 8)[1].name == "exp_avg_sq");
  CHECK(state_layout("somebody's", 4, 5)[0].floats == 5);
  CHECK(state_layout("sgd", 4, 0).empty());
}
