#include "data_conformance.hpp"
#include "temp_dir.hpp"

#include <nestpipe/data/csv.hpp>

using namespace nestpipe;
using namespace nestpipe::data;

namespace {

using keys = std::vector<key_type>;
key_type k(std::string_view text) { return text_key(text); }

data_conformance::epoch read(std::string const& text, csv_options o) {
  temp_dir const dir;
  csv d{dir.write("a.csv", text), std::move(o)};
  return data_conformance::read(d, 100, 100);
}

}  // namespace

TEST_CASE("cells: quotes, doubled quotes, spaces, empty") {
  csv_splitter split;
  std::vector<std::string_view> cells;
  using list = std::vector<std::string_view>;
  CHECK((split("a,b,,d", ',', cells) && cells == list{"a", "b", "", "d"}));
  CHECK((split("", ',', cells) && cells == list{""}));
  CHECK((split(" a , b ,", ',', cells) && cells == list{"a", "b", ""}));
  CHECK((split("\"a,b\",c", ',', cells) && cells == list{"a,b", "c"}));
  CHECK((split("\"a\"\"b\"", ',', cells) && cells == list{"a\"b"}));
  CHECK((split("x, \" a \" ,\"\"", ',', cells) && cells == list{"x", " a ", ""}));
  CHECK((split("5\" pipe,\"q\"", ',', cells) && cells == list{"5\" pipe", "q"}));
  CHECK((split("a\tb \t", '\t', cells) && cells == list{"a", "b", ""}));
  CHECK((split("\"a\nb\",c", ',', cells) && cells == list{"a\nb", "c"}));
  CHECK((split("\"long text to be copied, with commas\",\"another, as long as the first\"", ',', cells) &&
         cells == list{"long text to be copied, with commas", "another, as long as the first"}));
  CHECK_FALSE(split("\"a", ',', cells));
  CHECK_FALSE(split("a,\"b\"c", ',', cells));
}

TEST_CASE("columns by name, with quoted header cells, in the order asked for") {
  auto const e = read("\"x,y\",label,b\n1,1,p\n2,0,q\n", {.label = "label", .categorical = {"b", "x,y"}});
  REQUIRE(e.samples.size() == 2);
  CHECK(e.samples[0].ids == std::vector<keys>{{k("p")}, {k("1")}});
  CHECK(e.samples[0].labels == std::vector<float>{1});
  CHECK(e.samples[1].ids == std::vector<keys>{{k("q")}, {k("2")}});
}

TEST_CASE("an unnamed column is addressed by its number, with or without #; without a header so are all") {
  for (char const* name : {"#0", "0"}) {
    auto const e = read(",label\n7,1\n", {.label = "label", .categorical = {name}});
    CHECK(e.samples[0].ids[0] == keys{k("7")});
  }
  auto const e = read("7,1,2.5\n8,0,3\n", {.label = "1", .categorical = {"0"}, .dense = {"#2"}, .header = false});
  REQUIRE(e.samples.size() == 2);
  CHECK(e.samples[1].ids[0] == keys{k("8")});
  CHECK(e.samples[0].dense[0] == signed_log1p::of(2.5));
  // A name goes before a number.
  CHECK(read("a,0,label\n7,8,1\n", {.label = "label", .categorical = {"0"}}).samples[0].ids[0] == keys{k("8")});
}

TEST_CASE("several values in a cell; an empty cell is an empty bag; ? is a value") {
  csv_options const o{.label = "y", .categorical = {"t"}, .value_separator = '|'};
  auto const e = read("y,t\n1,a|b\n1,\n1,|a||b |\n1,?\n1,\"x|y\"\n", o);
  REQUIRE(e.samples.size() == 5);
  CHECK(e.samples[0].ids[0] == keys{k("a"), k("b")});
  CHECK(e.samples[1].ids[0].empty());
  CHECK(e.samples[2].ids[0] == keys{k("a"), k("b")});
  CHECK(e.samples[3].ids[0] == keys{k("?")});
  CHECK(e.samples[4].ids[0] == keys{k("x"), k("y")});
  CHECK(read("y,t\n1,a|b\n", {.label = "y", .categorical = {"t"}}).samples[0].ids[0] == keys{k("a|b")});
}

TEST_CASE("dense cells: missing texts, negative, not a number") {
  auto const e = read("y,d\n1,\n1,?\n1,NA\n1,-3\n1,abc\n1,1e400\n1,inf\n1,nan\n", {.label = "y", .dense = {"d"}});
  CHECK(e.malformed == 3);
  REQUIRE(e.samples.size() == 5);
  CHECK(e.samples[0].dense[0] == 0);
  CHECK(e.samples[3].dense[0] == signed_log1p::of(-3));
  CHECK(read("y,d\n1,-2.5\n", {.label = "y", .dense = {"d"}, .transform = {.kind = dense_kind::identity}}).samples[0].dense[0] == -2.5f);
}

TEST_CASE("labels: numbers, positive texts, regression, none") {
  auto const numbers = read("y,c\n1,a\n0,a\n1.0,a\n2,a\n-1,a\n,a\nyes,a\n", {.label = "y", .categorical = {"c"}});
  CHECK(numbers.samples.size() == 3);
  CHECK(numbers.malformed == 4);
  auto const texts = read("y,c\n>50K,a\n <=50K.,a\n >50K.,a\n,a\n", {.label = "y", .categorical = {"c"}, .positive = {">50K", ">50K."}});
  REQUIRE(texts.samples.size() == 3);
  CHECK(texts.samples[0].labels[0] == 1);
  CHECK(texts.samples[1].labels[0] == 0);
  CHECK(texts.samples[2].labels[0] == 1);
  CHECK(texts.malformed == 1);
  auto const real = read("y,c\n2.5,a\n-7,a\nnan,a\n", {.label = "y", .categorical = {"c"}, .task = label_task::regression});
  REQUIRE(real.samples.size() == 2);
  CHECK(real.samples[1].labels[0] == -7);
  CHECK(read("c\na\n", {.categorical = {"c"}}).samples[0].labels[0] == 0);
}

TEST_CASE("rows of another width are malformed and counted") {
  auto const e = read("y,c\n1,a\n1\n1,a,b\n1,\"a\n0,b\n", {.label = "y", .categorical = {"c"}});
  CHECK(e.samples.size() == 2);
  CHECK(e.malformed == 3);
}

TEST_CASE("declared columns for files without a header; tabs between cells") {
  auto const e = read("1\tx\t3\n0\ty\t4\n", {.label = "y", .categorical = {"c"}, .dense = {"d"}, .columns = {"y", "c", "d"}, .delimiter = '\t'});
  REQUIRE(e.samples.size() == 2);
  CHECK(e.samples[1].ids[0] == keys{k("y")});
}

TEST_CASE("wrong columns are refused before anything is read") {
  auto const refuse = [](csv_options const& o) { return message_of<data_error>([&] { read("y,c,c,z\n1,a,b,c\n", o); }); };
  CHECK(contains(refuse({.label = "nope", .categorical = {"z"}}), "'nope'"));
  CHECK(contains(refuse({.label = "nope", .categorical = {"z"}}), "y, c, c, z"));
  CHECK(contains(refuse({.label = "y", .categorical = {"c"}}), "two columns"));
  CHECK(contains(refuse({.label = "y", .categorical = {"#9"}}), "'#9'"));
  CHECK(contains(refuse({.label = "y", .categorical = {"#0"}}), "label"));
  CHECK_THROWS_AS(read("y\n1\n", {.label = "y"}), config_error);
  CHECK_THROWS_AS(read("y,c\n1,a\n", {.label = "y", .categorical = {"c", "y"}}), config_error);
  CHECK_THROWS_AS(read("y,c\n1,a\n", {.label = "y", .categorical = {"c", "c"}}), config_error);
  CHECK(contains(message_of<data_error>([] { read("y,c\n", {.label = "y", .categorical = {"c"}}); }), "no data rows"));
}
