// Statistics of dense columns, vocabularies: fitted on train, shared with the rest.

#include "data_conformance.hpp"
#include "temp_dir.hpp"

#include <nestpipe/data/any_dataset.hpp>
#include <nestpipe/data/column_statistics.hpp>
#include <nestpipe/data/csv.hpp>
#include <nestpipe/data/in_memory.hpp>
#include <nestpipe/data/vocabulary.hpp>

using namespace nestpipe;
using namespace nestpipe::data;
using data_conformance::read;

namespace {

using keys = std::vector<key_type>;
csv_options const options{.label = "y", .categorical = {"c"}, .dense = {"a", "b"}, .transform = {.kind = dense_kind::identity}};

}  // namespace

TEST_CASE("standardising: mean 0 and deviation 1 over what is present, missing at the mean") {
  temp_dir const dir;
  csv const train{dir.write("train", "y,c,a,b\n1,p,1,5\n0,p,3,5\n1,q,,5\n0,q,5,5\n"), options};
  auto const fitted = column_statistics::fit(train, true);
  CHECK(fitted.columns[0].mean == doctest::Approx(3));
  CHECK(fitted.columns[0].deviation == doctest::Approx(std::sqrt(8.0 / 3)));
  CHECK(fitted.columns[1].deviation == 1);  // constant
  with_statistics d{train, fitted};
  auto const s = read(d, 10, 10).samples;
  CHECK(s[0].dense == std::vector<float>{static_cast<float>(-2 / std::sqrt(8.0 / 3)), 0});
  CHECK(s[1].dense == std::vector<float>{0, 0});
  CHECK(s[2].dense == std::vector<float>{0, 0});
  // The numbers of train apply to other files.
  with_statistics other{csv{dir.write("test", "y,c,a,b\n1,p,,6\n1,p,11,\n"), options}, fitted};
  auto const t = read(other, 10, 10).samples;
  CHECK(t[0].dense == std::vector<float>{0, 1});
  CHECK(t[1].dense == std::vector<float>{static_cast<float>(8 / std::sqrt(8.0 / 3)), 0});
  // Without statistics, missing is 0; the reader that was wrapped is not changed.
  csv plain = train;
  CHECK(read(plain, 10, 10).samples[2].dense == std::vector<float>{0, 5});
}

TEST_CASE("buckets: quantiles, one bucket for missing, the dense column kept or not") {
  temp_dir const dir;
  std::string text = "y,c,a,b\n";
  for (int i = 0; i < 100; ++i) text += "1,p," + std::to_string(i) + "," + (i % 2 == 0 ? "" : "7") + "\n";
  csv const train{dir.write("train", text), options};
  auto const fitted = column_statistics::fit(train, false, {{"a", 4, false}, {"b", 3, true}});
  with_statistics d{train, fitted};
  CHECK(d.schema().features == std::vector<std::string>{"c", "a_bucket", "b_bucket"});
  CHECK(d.schema().dense == 1);
  CHECK(d.schema().dense_names == std::vector<std::string>{"b"});
  auto const s = read(d, 32, 5).samples;
  for (std::size_t i = 0; i < 100; ++i) {
    CAPTURE(i);
    CHECK(s[i].ids[1] == keys{i / 25});
    CHECK(s[i].ids[2] == keys{i % 2 == 0 ? 3U : 0U});  // all present values are equal: one bucket
    CHECK(s[i].dense == std::vector<float>{i % 2 == 0 ? 0.0f : 7.0f});
  }
  with_statistics other{csv{dir.write("test", "y,c,a,b\n1,p,-1000,1\n1,p,1000,9\n1,p,25,7\n"), options}, fitted};
  auto const t = read(other, 10, 10).samples;
  CHECK(t[0].ids[1] == keys{0});
  CHECK(t[1].ids[1] == keys{3});
  CHECK(t[2].ids[1] == keys{1});
}

TEST_CASE("buckets of a long column come from an evenly spaced part") {
  constexpr std::size_t n = 3'000'000;
  sample_columns c;
  c.schema = {.features = {}, .dense = 1, .labels = 1, .dense_names = {"x"}};
  c.ids.samples = n;
  for (std::size_t i = 0; i < n; ++i) c.dense.push_back(static_cast<float>(i % 1000));
  auto const fitted = column_statistics::fit(in_memory{std::move(c)}, false, {{"x", 10, true}});
  REQUIRE(fitted.columns[0].boundaries.size() == 9);
  for (std::size_t b = 0; b < 9; ++b) CHECK(fitted.columns[0].boundaries[b] == doctest::Approx(100.0 * static_cast<double>(b + 1)).epsilon(0.02));
}

TEST_CASE("a column without values, unknown columns, other data") {
  temp_dir const dir;
  csv const train{dir.write("train", "y,c,a,b\n1,p,,5\n"), options};
  auto const fitted = column_statistics::fit(train, true, {{"a", 5, true}});
  with_statistics d{train, fitted};
  auto const s = read(d, 10, 10).samples;
  CHECK(s[0].dense == std::vector<float>{0, 0});
  CHECK(s[0].ids[1] == keys{5});
  CHECK_THROWS_AS(column_statistics::fit(train, true, {{"nope", 5, true}}), data_error);
  CHECK_THROWS_AS(column_statistics::fit(train, true, {{"a", 1, true}}), config_error);
  CHECK_THROWS_AS(column_statistics::fit(train, true, {{"a", 5, true}, {"a", 6, true}}), config_error);
  csv const narrow{dir.write("n", "y,c,a\n1,p,1\n"), {.label = "y", .categorical = {"c"}, .dense = {"a"}}};
  CHECK_THROWS_AS((with_statistics{narrow, fitted}), config_error);
  CHECK_THROWS_AS(vocabulary::fit(csv{"-", options}, 2), config_error);
}

TEST_CASE("key counts agree with a map, zero and all-ones keys included") {
  key_counts counts;
  std::unordered_map<key_type, std::uint32_t> want;
  counter_random const random{3, 1, 4};
  for (std::uint64_t i = 0; i < 100000; ++i) {
    key_type const key = i % 3 == 0 ? random.below(i, 50) : i % 3 == 1 ? random.bits(i) : ~random.below(i, 3000);
    counts.add(key);
    ++want[key];
  }
  CHECK(counts.size() == want.size());
  for (auto const& [key, n] : want) REQUIRE(counts.count(key) == n);
  CHECK(counts.count(123456789012345) == 0);
  CHECK(key_counts{}.count(0) == 0);
  std::size_t visited = 0;
  counts.for_each([&](key_type key, std::uint32_t n) {
    ++visited;
    CHECK(want[key] == n);
  });
  CHECK(visited == want.size());
}

TEST_CASE("rare ids and ids unseen in train share one key per feature") {
  temp_dir const dir;
  csv_options const two{.label = "y", .categorical = {"c", "d"}, .value_separator = '|'};
  csv const train{dir.write("train", "y,c,d\n1,a|a,a\n0,b,a\n1,,c\n0,b|a,\n"), two};
  auto const words = vocabulary::fit(train, 2);
  CHECK(words.features() == 2);
  CHECK(words.seen(0) == 2);
  CHECK(words.kept(0) == 2);
  CHECK(words.seen(1) == 2);
  CHECK(words.kept(1) == 1);
  CHECK(vocabulary::rare_key(0) != vocabulary::rare_key(1));
  with_vocabulary<csv> d{csv{dir.write("test", "y,c,d\n1,a|z|b,c\n0,,a\n"), two}, words};
  auto const s = read(d, 10, 10).samples;
  CHECK(s[0].ids == std::vector<keys>{{text_key("a"), vocabulary::rare_key(0), text_key("b")}, {vocabulary::rare_key(1)}});
  CHECK(s[1].ids == std::vector<keys>{{}, {text_key("a")}});
  // Saved and loaded.
  auto const again = vocabulary::from_keys(2, {words.keys(0), words.keys(1)});
  with_vocabulary<csv> e{csv{dir("test"), two}, again};
  CHECK(read(e, 10, 10).samples == s);
  CHECK_THROWS_AS(vocabulary::fit(train, 0), config_error);
  CHECK_THROWS_AS((with_vocabulary<csv>{train, vocabulary::from_keys(1, {{}})}), config_error);
}

TEST_CASE("fitting reads a copy: the dataset stays where it was") {
  temp_dir const dir;
  csv train{dir.write("train", "y,c,a,b\n1,p,1,5\n0,p,3,5\n"), options};
  csv::block block;
  train.frame(block, 1);
  (void)vocabulary::fit(train, 1);
  (void)column_statistics::fit(train, true);
  CHECK(train.position() == data_position{0, 1});
  CHECK(train.frame(block, 10) == 1);
}

TEST_CASE("in_memory refuses columns that do not fit, and numbers that are not finite") {
  auto const make = [](auto change) {
    sample_columns c;
    c.schema = {.features = {"f"}, .dense = 1};
    c.ids = {.features = 1, .samples = 2, .offsets = {0, 1, 2}, .values = {5, 6}, .weights = {}};
    c.dense = {1, 2};
    c.labels = {0, 1};
    change(c);
    return in_memory{c};
  };
  CHECK(make([](auto&) {}).size_hint() == 2);
  CHECK(make([](auto& c) { c.labels.clear(); }).size_hint() == 2);
  CHECK_THROWS_AS(make([](auto& c) { c.labels.pop_back(); }), data_error);
  CHECK_THROWS_AS(make([](auto& c) { c.dense.push_back(1); }), data_error);
  CHECK_THROWS_AS(make([](auto& c) { c.ids.offsets = {0, 2, 1}; }), data_error);
  CHECK_THROWS_AS(make([](auto& c) { c.ids.features = 2; }), data_error);
  CHECK_THROWS_AS(make([](auto& c) { c.ids.weights = {1, std::nanf("")}; }), data_error);
  CHECK(contains(message_of<data_error>([&] { make([](auto& c) { c.dense[1] = std::nanf(""); }); }), "row 1"));
}

TEST_CASE("any_dataset refuses a block of another kind") {
  temp_dir const dir;
  any_dataset lines{csv{dir.write("train", "y,c,a,b\n1,p,1,5\n"), options}};
  any_dataset const rows{in_memory{sample_columns{.schema = {.features = {}}}}};
  any_dataset::block block;
  lines.frame(block, 1);
  sample_block out;
  CHECK_THROWS_AS(rows.parse(block, 0, 1, out), data_error);
}
