#include "temp_dir.hpp"

#include <nestpipe/data/row_filter.hpp>
#include <nestpipe/data/row_stream.hpp>

using namespace nestpipe;
using namespace nestpipe::data;

TEST_CASE("a split covers every row once") {
  row_split const split = row_split::from_text("10:8:9");
  CHECK(split.modulo == 10);
  auto const train = row_filter::part_of(split, split_part::train);
  auto const valid = row_filter::part_of(split, split_part::valid);
  auto const test = row_filter::part_of(split, split_part::test);
  for (std::uint64_t row = 0; row < 40; ++row) {
    CHECK(train.accepts(row) + valid.accepts(row) + test.accepts(row) == 1);
    CHECK(valid.accepts(row) == (row % 10 == 8));
    CHECK(test.accepts(row) == (row % 10 == 9));
  }
}

TEST_CASE("a part may be missing") {
  CHECK(row_filter::part_of(row_split::from_text("5:0:-"), split_part::train).accepts(4));
  CHECK_FALSE(row_split::from_text("5:0:-").test.has_value());
  CHECK_THROWS_AS(row_filter::part_of(row_split::from_text("5:0:-"), split_part::test), config_error);
  CHECK_THROWS_AS(row_filter::part_of(row_split::from_text("5:-:0"), split_part::valid), config_error);
}

TEST_CASE("wrong splits are refused, with the text") {
  for (char const* text : {"", "10", "10:8", "10:8:9:1", "0:0:0", "10:10:9", "10:8:8", "x:8:9", "-:8:9", "10:-1:9", "10::9", "10:8:", "10:8:9 "}) {
    CAPTURE(text);
    CHECK_THROWS_AS(row_split::from_text(text), config_error);
  }
  CHECK(contains(message_of<config_error>([] { row_split::from_text("10:a:9"); }), "10:a:9"));
}

TEST_CASE("ranges by count") {
  CHECK(row_filter::first_rows(3).accepts(2));
  CHECK_FALSE(row_filter::first_rows(3).accepts(3));
  CHECK(row_filter::first_rows(3).past(3));
  CHECK_FALSE(row_filter::after_rows(3).accepts(2));
  CHECK(row_filter::after_rows(3).accepts(3));
}

TEST_CASE("the size of a row stream is what it delivers") {
  for (std::uint64_t rows = 0; rows < 35; ++rows) {
    for (auto const part : {split_part::all, split_part::train, split_part::valid, split_part::test}) {
      row_filter filter = row_filter::part_of({.modulo = 7, .valid = 2, .test = 6}, part);
      filter.first = 4;
      filter.last = 25;
      row_stream stream{rows, {.filter = filter}};
      row_block block;
      CHECK(stream.frame(block, 1000) == stream.size());
      for (std::uint64_t const row : block.rows) CHECK(filter.accepts(row));
    }
  }
}
