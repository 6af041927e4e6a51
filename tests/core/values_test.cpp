#include <doctest/doctest.h>

#include <nestpipe/core/digest.hpp>
#include <nestpipe/core/error.hpp>
#include <nestpipe/core/fixed_size.hpp>
#include <nestpipe/core/huge_memory.hpp>
#include <nestpipe/core/jagged.hpp>
#include <nestpipe/core/schema.hpp>

#include <limits>
#include <set>
#include <string>
#include <vector>

namespace np = nestpipe;

namespace {

template <class E, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (E const& e) {
    return e.what();
  }
  return {};
}

bool has(std::string const& text, std::string const& part) { return text.find(part) != std::string::npos; }

}  // namespace

TEST_CASE("an error is one line: what, where, remedy") {
  CHECK(std::string{np::error{"it broke", "file:3", "mend it"}.what()} == "it broke (file:3); mend it");
  CHECK(std::string{np::error{"it broke"}.what()} == "it broke");
  CHECK(std::string{np::error{"two\nlines", "a\r\nb"}.what()} == "two lines (a  b)");
  CHECK_NOTHROW(np::require(true, "no"));
  CHECK(message_of<np::config_error>([] { np::require(false, "yes", "here"); }) == "yes (here)");
}

TEST_CASE("jagged batches: bags, and malformed offsets are refused") {
  np::jagged j;
  j.features = 2;
  j.samples = 3;
  j.offsets = {0, 1, 1, 3, 4, 4, 6};
  j.values = {5, 6, 7, 8, 0, ~np::key_type{0}};
  CHECK_NOTHROW(j.check());
  CHECK(j.bag(0, 1).empty());
  CHECK(j.bag(0, 2).size() == 2);
  CHECK(j.bag(1, 2)[1] == ~np::key_type{0});
  auto const refuse = [&](auto change) {
    np::jagged bad = j;
    change(bad);
    return message_of<np::data_error>([&] { bad.check(); });
  };
  CHECK(has(refuse([](np::jagged& b) { b.offsets.pop_back(); }), "expected 7 offsets, got 6"));
  CHECK(has(refuse([](np::jagged& b) { b.offsets[0] = 1; }), "first offset"));
  CHECK(has(refuse([](np::jagged& b) { b.offsets[4] = 2; }), "offsets decrease (feature 1, sample 0)"));
  CHECK(has(refuse([](np::jagged& b) { b.values.pop_back(); }), "6 but there are 5"));
  CHECK(has(refuse([](np::jagged& b) { b.weights = {1.0f}; }), "weights"));
  np::jagged none;
  CHECK_NOTHROW(none.check());  // no features, no samples
  none.features = 4;
  CHECK_NOTHROW(none.check());  // no samples
  none.samples = 2;
  CHECK_THROWS_AS(none.check(), np::data_error);
}

TEST_CASE("a layout resolves names and says what does not fit") {
  using np::pooling;
  np::embedding_layout const l{{{"a", 4}, {"b", 3}}, {{"x", "b", pooling::sum}, {"y", "a", pooling::none}, {"z", "b", pooling::sum_and_squares}, {"u", "a", pooling::mean}}};
  CHECK(l.table_of(0) == 1);
  CHECK(l.features_of(1).size() == 2);
  CHECK(l.features_of(1)[1] == 2);
  CHECK(l.column(0) == 0);
  CHECK(l.width(1) == 0);
  CHECK(l.column(2) == 3);
  CHECK(l.width(2) == 6);
  CHECK(l.column(3) == 9);
  CHECK(l.pooled_width() == 13);
  CHECK(l.dim_of_feature(2) == 3);
  auto const refuse = [](std::vector<np::table> t, std::vector<np::feature> f) { return message_of<np::config_error>([&] { np::embedding_layout{t, f}; }); };
  CHECK(has(refuse({{"a", 0}}, {}), "dim must be at least 1 (table a)"));
  CHECK(has(refuse({{"a", 1}, {"a", 2}}, {}), "two tables"));
  CHECK(has(refuse({{"a", 1}}, {{"x", "c"}}), "feature x, table c"));
  CHECK(has(refuse({{"a", 1}}, {{"x", "a"}, {"x", "a"}}), "two features"));
}

TEST_CASE("first values are pure functions of seed, table, key and element") {
  np::row_init const uniform{np::row_init::kind::uniform, 0.5f, 2};
  std::vector<float> a(40), b(40), c(10);
  uniform(1, 2, 3, a.data(), 40);
  uniform(1, 2, 3, b.data(), 40);
  uniform(1, 2, 3, c.data(), 10);
  CHECK(a == b);
  CHECK(std::vector<float>(a.begin(), a.begin() + 10) == c);
  CHECK(a[0] == 0.0f);
  CHECK(a[1] == 0.0f);
  for (std::size_t i = 2; i < 40; ++i) CHECK(std::abs(a[i]) <= 0.5f);
  std::set<float> const distinct(a.begin() + 2, a.end());
  CHECK(distinct.size() > 35);
  for (auto const& [seed, table, key] : {std::array<std::uint64_t, 3>{2, 2, 3}, {1, 3, 3}, {1, 2, 4}, {1, 2, ~0ULL}}) {
    uniform(seed, static_cast<std::uint32_t>(table), key, b.data(), 40);
    CHECK(a != b);
  }
  np::row_init const normal{np::row_init::kind::normal, 2.0f, 0};
  std::vector<float> many(20'000);
  normal(7, 0, 0, many.data(), many.size());
  double sum = 0, square = 0;
  for (float const v : many) {
    sum += static_cast<double>(v);
    square += static_cast<double>(v) * static_cast<double>(v);
  }
  CHECK(sum / 20'000 == doctest::Approx(0).epsilon(0.05).scale(1));
  CHECK(square / 20'000 == doctest::Approx(4).epsilon(0.05));
}

TEST_CASE("shards spread evenly and owners share them out") {
  constexpr std::uint32_t shards = 64;
  std::vector<int> count(shards);
  for (np::key_type k = 0; k < 64'000; ++k) ++count[np::shard_of(3, k, shards)];
  for (int const n : count) CHECK((n > 800 && n < 1200));
  CHECK(np::shard_of(0, 5, 1) == 0);
  for (std::uint32_t w = 1; w <= 5; ++w) {
    for (std::uint32_t s = 0; s < shards; ++s) CHECK(np::owner_of(s, w) < w);
  }
  np::counter_random const random{1, 2, 3};
  for (std::uint64_t i = 0; i < 1000; ++i) {
    CHECK(random.uniform(i) >= 0.0f);
    CHECK(random.uniform(i) < 1.0f);
    CHECK(random.below(i, 7) < 7);
    CHECK(random.below(i, 1ULL << 40) < 1ULL << 40);
  }
}

TEST_CASE("a digest is a sum: order and partition do not matter, a single bit does") {
  std::vector<float> const x{1.0f, 2.0f}, y{-0.0f};
  np::digest ab, ba, a, b;
  ab.add(1, 2, x);
  ab.add(3, 4, y);
  ba.add(3, 4, y);
  ba.add(1, 2, x);
  CHECK(ab == ba);
  a.add(1, 2, x);
  b.add(3, 4, y);
  a += b;
  CHECK(a == ab);
  np::digest other;
  other.add(1, 2, x);
  other.add(3, 4, std::vector<float>{0.0f});  // not -0
  CHECK(other != ab);
  np::digest swapped;
  swapped.add(2, 1, x);
  swapped.add(3, 4, y);
  CHECK(swapped != ab);
  CHECK(ab.text().size() == 32);
  CHECK(np::digest::from_words(ab.low(), ab.high()) == ab);
  CHECK(np::digest::from_words(0x1f, 0xab).text() == "00000000000000ab000000000000001f");
  np::digest carry = np::digest::from_words(~0ULL, 0);
  carry += np::digest::from_words(1, 0);
  CHECK(carry == np::digest::from_words(0, 1));
}

TEST_CASE("common dims are known to the compiler, all others are numbers") {
  for (std::size_t d = 1; d < 200; ++d) {
    CHECK(np::with_fixed_dim(d, [](auto dim) { return std::size_t{dim}; }) == d);
    CHECK(np::with_fixed_size(d, [](auto size) { return std::size_t{size}; }) == d);
  }
  CHECK(np::with_fixed_dim(16, [](auto dim) { return !std::is_same_v<decltype(dim), std::size_t>; }));
  CHECK(np::with_fixed_size(33, [](auto size) { return !std::is_same_v<decltype(size), std::size_t>; }));
}

TEST_CASE("memory is zero, aligned, and says when there is none") {
  for (std::size_t const bytes : {std::size_t{0}, std::size_t{1}, std::size_t{100}, np::huge_memory::huge_page + 5}) {
    np::huge_memory m{bytes, "test"};
    CHECK(m.size() == bytes);
    if (bytes == 0) continue;
    CHECK(reinterpret_cast<std::uintptr_t>(m.data()) % np::alignment_bytes == 0);
    CHECK(m.data()[0] == std::byte{0});
    CHECK(m.data()[bytes - 1] == std::byte{0});
    m.data()[bytes - 1] = std::byte{7};
    np::huge_memory moved{std::move(m)};
    CHECK(moved.data()[bytes - 1] == std::byte{7});
    CHECK(m.size() == 0);  // NOLINT: moved from
  }
#if !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)
  std::size_t const all = std::numeric_limits<std::size_t>::max() / 4;
  CHECK(has(message_of<np::error>([&] { np::huge_memory{all, "table clicks"}; }), std::to_string(all) + " bytes (table clicks)"));
#endif
}
