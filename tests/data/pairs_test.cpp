// libsvm, libffm and slots.

#include "data_conformance.hpp"
#include "temp_dir.hpp"

#include <nestpipe/data/libffm.hpp>
#include <nestpipe/data/libsvm.hpp>
#include <nestpipe/data/slots.hpp>

using namespace nestpipe;
using namespace nestpipe::data;

namespace {

using keys = std::vector<key_type>;
template <class D>
data_conformance::epoch read(std::string const& text, typename D::options o = {}) {
  temp_dir const dir;
  D d{dir.write("a.txt", text), std::move(o)};
  return data_conformance::read(d, 100, 100);
}

}  // namespace

TEST_CASE("libsvm: one bag with weights") {
  auto const e = read<libsvm>("1 0:0.5 7:1 7:2 # 3:4\n-1\n0 18446744073709551615:-1e3\n+1\t5 \n");
  REQUIRE(e.samples.size() == 4);
  CHECK(e.samples[0].ids == std::vector<keys>{{0, 7, 7}});
  CHECK(e.samples[0].weights == std::vector<float>{0.5f, 1, 2});
  CHECK(e.samples[1].ids == std::vector<keys>{{}});
  CHECK(e.samples[1].labels[0] == 0);
  CHECK(e.samples[2].ids == std::vector<keys>{{~key_type{0}}});
  CHECK(e.samples[2].weights == std::vector<float>{-1e3f});
  CHECK(e.samples[3].labels[0] == 1);
  CHECK(e.samples[3].weights == std::vector<float>{1});
}

TEST_CASE("libsvm: malformed pairs and labels") {
  for (char const* line : {"2 1:1", "x 1:1", ": 1:1", "1 a:1", "1 -1:1", "1 1:", "1 1:x", "1 1:nan", "1 1:inf", "1 1:1e400", "1 1:2:3", "1 :1", "1 1.5:1", "1 18446744073709551616:1"}) {
    CAPTURE(line);
    auto const e = read<libsvm>(std::string{line} + "\n0 1:1\n");
    CHECK(e.malformed == 1);
    CHECK(e.samples.size() == 1);
    CHECK(e.samples[0].weights.size() == 1);
  }
}

TEST_CASE("libsvm positional: the j-th pair is feature j") {
  auto const e = read<libsvm>("1 5:1 9:1 5:2\n0 6:1\n1 1:1 2:1 3:1 4:1\n", {.fields = libsvm_fields::positional});
  REQUIRE(e.samples.size() == 2);
  CHECK(e.malformed == 1);
  CHECK(e.samples[0].ids == std::vector<keys>{{5}, {9}, {5}});
  CHECK(e.samples[1].ids == std::vector<keys>{{6}, {}, {}});
  CHECK(read<libsvm>("1 5:1\n", {.fields = libsvm_fields::positional, .features = 4}).samples[0].ids.size() == 4);
  CHECK_THROWS_AS(read<libsvm>("1\n1 5:1\n", {.fields = libsvm_fields::positional}), data_error);
  CHECK_THROWS_AS((libsvm{"-", {.fields = libsvm_fields::positional}}), config_error);
}

TEST_CASE("libsvm regression keeps the label") {
  auto const e = read<libsvm>("3.5 1:1\n-1 1:1\nnan 1:1\n", {.task = label_task::regression});
  REQUIRE(e.samples.size() == 2);
  CHECK(e.malformed == 1);
  CHECK(e.samples[0].labels[0] == 3.5f);
  CHECK(e.samples[1].labels[0] == -1);
}

TEST_CASE("libffm: a feature for each field, found by a pass or given") {
  temp_dir const dir;
  std::string const path = dir.write("a.ffm", "1 7:1:0.5 2:3:1 7:9:2\n0 100000000:4:1\n");
  libffm d{path};
  CHECK(d.schema().features == std::vector<std::string>{"field_2", "field_7", "field_100000000"});
  auto const e = data_conformance::read(d, 10, 10);
  CHECK(e.samples[0].ids == std::vector<keys>{{3}, {1, 9}, {}});
  CHECK(e.samples[0].weights == std::vector<float>{1, 0.5f, 2});
  CHECK(e.samples[1].ids == std::vector<keys>{{}, {}, {4}});
  // Further files take the list of the first; fields that are not in it are passed over.
  libffm more{dir.write("b.ffm", "1 7:5:1 8:6:1\n"), {.fields = d.format().fields()}};
  CHECK(more.schema().features == d.schema().features);
  CHECK(data_conformance::read(more, 10, 10).samples[0].ids == std::vector<keys>{{}, {5}, {}});
  CHECK_THROWS_AS(libffm{"-"}, config_error);
  CHECK(contains(message_of<data_error>([&] { libffm{dir.write("c", "1 1:2\n")}; }), "no field:id pairs"));
  CHECK_THROWS_AS((libffm{path, {.fields = {1, 1}}}), config_error);
}

TEST_CASE("libffm: malformed words") {
  for (char const* line : {"1 1:2", "1 1:2:", "1 1:2:3:4", "1 a:2:3", "1 1:b:3", "1 1:2:nan", "1 1", "2 1:2:3"}) {
    CAPTURE(line);
    auto const e = read<libffm>("1 1:2:3\n" + std::string{line} + "\n");
    CHECK(e.malformed == 1);
    CHECK(e.samples.size() == 1);
  }
}

TEST_CASE("slots: several ids a slot, all 64 bits, the label alone or as a pair") {
  auto const e = read<slots>("1:1 18443006865882872744:3 5:29 6:29\n0 7:3\n-1 8:29\n2 1:3\n1 1\n1 x:3\n1 1:2:3\n");
  REQUIRE(e.samples.size() == 3);
  CHECK(e.malformed == 4);
  CHECK(e.samples[0].labels[0] == 1);
  CHECK(e.samples[0].ids == std::vector<keys>{{18443006865882872744ULL}, {5, 6}});
  CHECK(e.samples[1].ids == std::vector<keys>{{7}, {}});
  CHECK(e.samples[2].labels[0] == 0);
  CHECK(e.samples[0].weights.empty());
}
