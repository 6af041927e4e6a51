// The text side: where lines come from and what goes wrong there.

#include "temp_dir.hpp"

#include <nestpipe/data/line_source.hpp>

#include <fcntl.h>
#include <unistd.h>

#include <set>

using namespace nestpipe;
using namespace nestpipe::data;

namespace {

struct seen {
  std::vector<std::string> text;
  std::vector<std::string> where;
  std::vector<std::uint64_t> row;
};

seen read(line_source source, std::size_t batch = 3) {
  seen out;
  line_block block;
  while (source.frame(block, batch) > 0) {
    for (std::size_t i = 0; i < block.size(); ++i) {
      out.text.emplace_back(block.text(i));
      out.where.push_back(source.where(block[i]));
      out.row.push_back(block[i].row);
    }
  }
  return out;
}

using lines = std::vector<std::string>;

// Standard input for the length of a test.
class input_from {
 public:
  explicit input_from(std::string const& path) : saved_{dup(0)} {
    int const file = open(path.c_str(), O_RDONLY);
    REQUIRE(file >= 0);
    dup2(file, 0);
    close(file);
  }
  input_from(input_from const&) = delete;
  input_from& operator=(input_from const&) = delete;
  ~input_from() {
    dup2(saved_, 0);
    close(saved_);
  }

 private:
  int saved_;
};

}  // namespace

TEST_CASE("line ends, blank lines, a byte-order mark and a last line without an end") {
  temp_dir const dir;
  CHECK(read({dir.write("a", "one\ntwo\n"), {}, {}}).text == lines{"one", "two"});
  CHECK(read({dir.write("a", "one\r\ntwo\r\n\r\nthree"), {}, {}}).text == lines{"one", "two", "three"});
  CHECK(read({dir.write("a", "\n\n  \none\n\n\ntwo\n \n"), {}, {}}).text == lines{"one", "two"});
  CHECK(read({dir.write("a", "\xef\xbb\xbfone\ntwo"), {}, {}}).text == lines{"one", "two"});
  CHECK(read({dir.write("a", "\xef\xbb\xbf\none"), {}, {}}).text == lines{"one"});
  CHECK(read({dir.write("a", "a"), {}, {}}).text == lines{"a"});
  CHECK(read({dir.write("a", "\t\t\none"), {}, {}}).text == lines{"\t\t", "one"});
  CHECK(read({dir.write("a", "\t\t\none # x\n  # only\n#\n"), {}, {.tabs_are_blank = true, .comment = '#'}}).text == lines{"one # x"});
  CHECK(read({dir.write("a", std::string{"a\0b\nc", 5}), {}, {}}).text == lines{std::string{"a\0b", 3}, "c"});
}

TEST_CASE("rows are numbered over all files, lines in their own") {
  temp_dir const dir;
  std::string const a = dir.write("a", "\n1\n2\n");
  std::string const b = dir.write("b", "3\n\n4");
  seen const s = read({std::vector{a, b}, {}, {}});
  CHECK(s.text == lines{"1", "2", "3", "4"});
  CHECK(s.row == std::vector<std::uint64_t>{0, 1, 2, 3});
  CHECK(s.where == lines{a + ":2", a + ":3", b + ":1", b + ":3"});
}

TEST_CASE("headers: one in each file, and the same") {
  temp_dir const dir;
  std::string const a = dir.write("a", "\nx,y\n1,2\n");
  std::string const b = dir.write("b", "x,y\r\n3,4\n");
  line_source source{std::vector{a, b}, {}, {.header = true}};
  CHECK(source.peek() == "1,2");
  CHECK(source.header() == "x,y");
  CHECK(read(source).text == lines{"1,2", "3,4"});
  std::string const c = dir.write("c", "y,x\n5,6\n");
  std::string const what = message_of<data_error>([&] { read({std::vector{a, c}, {}, {.header = true}}); });
  CHECK(contains(what, "header"));
  CHECK(contains(what, c + ":1"));
}

TEST_CASE("quoted cells may hold line ends; a stray quote takes one line only") {
  temp_dir const dir;
  line_rules const rules{.quotes = true, .delimiter = ','};
  std::string const path = dir.write("a", "a,\"x\ny\"\nb,\"p\n\n\"\"q\n\"\nc,5\" pipe\nd,e\n");
  seen const s = read({path, {}, rules});
  CHECK(s.text == lines{"a,\"x\ny\"", "b,\"p\n\n\"\"q\n\"", "c,5\" pipe", "d,e"});
  CHECK(s.where == lines{path + ":1", path + ":3", path + ":7", path + ":8"});
  CHECK(read({dir.write("b", "a,\"open\nb,1\nc,2\n"), {}, rules}).text == lines{"a,\"open", "b,1", "c,2"});
  std::string far = "a,\"open\n";
  for (int i = 0; i < 20000; ++i) far += "b,1\n";
  CHECK(read({dir.write("c", far), {}, rules}, 1000).text.size() == 20001);
}

TEST_CASE("lines longer than the buffer are read, without end refused") {
  temp_dir const dir;
  std::string const longest(3U << 20, 'x');
  CHECK(read({dir.write("a", "s\n" + longest + "\nt\n"), {}, {}}).text == lines{"s", longest, "t"});
  std::string const endless = dir.write("b", "s\n" + std::string(40U << 20, 'x'));
  std::string const what = message_of<data_error>([&] { read({endless, {}, {}}); });
  CHECK(contains(what, endless + ":2"));
  CHECK(contains(what, "16 MiB"));
}

TEST_CASE("what cannot be read is one clear line") {
  temp_dir const dir;
  auto const refuse = [](std::string const& path) { return message_of<data_error>([&] { read({path, {}, {}}); }); };
  CHECK(contains(refuse(dir("missing")), dir("missing")));
  CHECK(contains(refuse(dir("missing")), "No such file"));
  CHECK(contains(refuse(dir.path()), "directory"));
  CHECK(contains(refuse(dir.write("empty", "")), "empty"));
  CHECK(contains(refuse(dir.write("blank", "\n\n \n")), "no data rows"));
  CHECK(contains(refuse(dir.write("bom", "\xef\xbb\xbf")), "no data rows"));
  CHECK(contains(refuse(dir.write("u16", std::string_view{"\xff\xfe"
                                                          "a\0",
                                                          4})),
                 "UTF-16"));
  CHECK(contains(refuse(dir.write("u16be", std::string_view{"\xfe\xff\0a", 4})), "UTF-16"));
  CHECK_THROWS_AS(read({std::vector<std::string>{}, {}, {}}), config_error);
  CHECK_THROWS_AS(read({std::vector<std::string>{"-", "-"}, {}, {}}), config_error);
}

#if defined(NESTPIPE_WITH_ZLIB)
TEST_CASE("gzip: told by its first bytes, members one after another, cut and damaged files refused by name") {
  temp_dir const dir;
  std::string text;
  for (int i = 0; i < 200000; ++i) text += "line " + std::to_string(i) + "\n";
  std::string const plain = dir.write("plain", text);
  std::string const packed = dir.write_gzip("packed", text);
  lines const want = read({plain, {}, {}}, 1000).text;
  CHECK(read({packed, {}, {}}, 1000).text == want);
  std::string const z = temp_dir::gzip(text);
  std::size_t const half = text.find('\n', text.size() / 2) - 2;  // inside a line
  std::string const members = temp_dir::gzip(std::string_view{text}.substr(0, half)) + temp_dir::gzip("") + temp_dir::gzip(std::string_view{text}.substr(half));
  CHECK(read({dir.write("members", members), {}, {}}, 1000).text == want);
  CHECK(read({dir.write("padded", z + std::string(1024, '\0')), {}, {}}, 1000).text == want);
  CHECK(read({std::vector{packed, plain}, {}, {}}, 1000).text.size() == 400000);

  auto const refuse = [](std::string const& path) { return message_of<data_error>([&] { read({path, {}, {}}, 1000); }); };
  for (std::size_t const size : {std::size_t{2}, std::size_t{9}, z.size() / 2, z.size() - 1}) {
    std::string const cut = dir.write("cut.gz", std::string_view{z}.substr(0, size));
    CHECK(contains(refuse(cut), "cut"));
    CHECK(contains(refuse(cut), cut));
  }
  std::string wrong = z;
  wrong[z.size() / 2] = static_cast<char>(wrong[z.size() / 2] ^ 0x55);
  CHECK(contains(refuse(dir.write("wrong.gz", wrong)), "damaged"));
  CHECK(contains(refuse(dir.write("nothing.gz", temp_dir::gzip(""))), "empty"));
  // A reader that is dropped half-way ends its thread.
  for (int i = 0; i < 20; ++i) {
    line_source source{packed, {}, {}};
    line_block block;
    CHECK(source.frame(block, 10) == 10);
  }
}
#endif

TEST_CASE("standard input: peek, read, no second time") {
  temp_dir const dir;
  input_from const in{dir.write("a", "1\n2\n3\n4\n5\n")};
  line_source source{"-", {.shuffle_window = 3}, {}};
  CHECK(source.single_pass());
  CHECK(source.peek() == "1");
  source.rewind(0);
  line_block block;
  CHECK(source.frame(block, 2) == 2);
  CHECK(contains(source.where(block[0]), "standard input:"));
  CHECK_THROWS_AS(source.rewind(0), data_error);
  CHECK_THROWS_AS(source.rewind(1), data_error);
  source.seek({0, 3});
  CHECK(source.frame(block, 10) == 2);
  CHECK(source.frame(block, 10) == 0);
}

TEST_CASE("standard input may be gzip, and forward positions are reached by skipping") {
  temp_dir const dir;
#if defined(NESTPIPE_WITH_ZLIB)
  input_from const in{dir.write_gzip("a", "1\n2\n3\n4\n5\n")};
#else
  input_from const in{dir.write("a", "1\n2\n3\n4\n5\n")};
#endif
  line_source source{"-", {}, {}};
  source.seek({0, 2});
  line_block block;
  CHECK(source.frame(block, 10) == 3);
  CHECK(block.text(0) == "3");
}

TEST_CASE("shuffling permutes inside windows, differently in each epoch and for each seed") {
  temp_dir const dir;
  std::string text;
  for (int i = 0; i < 100; ++i) text += std::to_string(i) + "\n";
  std::string const path = dir.write("a", text);
  auto const order = [&](std::uint64_t seed, std::uint64_t epoch) {
    line_source source{path, {.shuffle_window = 30, .seed = seed}, {}};
    source.rewind(epoch);
    return read(source).row;  // the copy stands where the original does
  };
  auto const first = order(1, 0);
  REQUIRE(first.size() == 100);
  for (std::size_t begin = 0; begin < 100; begin += 30) {
    std::set<std::uint64_t> const window(first.begin() + static_cast<long>(begin), first.begin() + static_cast<long>(std::min<std::size_t>(begin + 30, 100)));
    CHECK(window.size() == std::min<std::size_t>(30, 100 - begin));
    CHECK(*window.begin() == begin);
  }
  CHECK(order(1, 0) == first);
  CHECK(order(1, 1) != first);
  CHECK(order(2, 0) != first);
}

TEST_CASE("a seek past the end says so") {
  temp_dir const dir;
  line_source source{dir.write("a", "1\n2\n"), {}, {}};
  CHECK(contains(message_of<data_error>([&] { source.seek({0, 3}); }), "row 3"));
}
