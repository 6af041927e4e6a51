// Every member of the family, one suite.

#include "data_conformance.hpp"
#include "fixtures.hpp"
#include "temp_dir.hpp"

#include <nestpipe/data/any_dataset.hpp>
#include <nestpipe/data/column_statistics.hpp>
#include <nestpipe/data/criteo_tsv.hpp>
#include <nestpipe/data/csv.hpp>
#include <nestpipe/data/in_memory.hpp>
#include <nestpipe/data/libffm.hpp>
#include <nestpipe/data/libsvm.hpp>
#include <nestpipe/data/slots.hpp>
#include <nestpipe/data/synthetic.hpp>
#include <nestpipe/data/vocabulary.hpp>

#include <doctest/doctest.h>

using namespace nestpipe;
using namespace nestpipe::data;
using data_conformance::check;

namespace {

row_filter const valid_part = row_filter::part_of({.modulo = 10, .valid = 8, .test = 9}, split_part::valid);
row_filter const train_part = row_filter::part_of({.modulo = 10, .valid = 8, .test = 9}, split_part::train);

sample_columns columns(std::size_t n, bool weighted) {
  sample_columns c;
  c.schema = {.features = {"a", "b"}, .dense = 1};
  c.ids.features = 2;
  c.ids.samples = n;
  for (std::size_t f = 0; f < 2; ++f) {
    for (std::size_t i = 0; i < n; ++i) {
      for (std::size_t k = 0; k < (i + f) % 3; ++k) {
        c.ids.values.push_back(i * 10 + k);
        if (weighted) c.ids.weights.push_back(static_cast<float>(k) + 0.5f);
      }
      c.ids.offsets.push_back(static_cast<std::uint32_t>(c.ids.values.size()));
    }
  }
  for (std::size_t i = 0; i < n; ++i) {
    c.dense.push_back(static_cast<float>(i));
    c.labels.push_back(static_cast<float>(i % 2));
  }
  return c;
}

}  // namespace

TEST_CASE("criteo_tsv conforms: plain, shuffled, split, several files, with malformed rows") {
  temp_dir const dir;
  std::string text = fixtures::criteo(50);
  std::string const plain = dir.write("plain.tsv", text);
  check([&] { return criteo_tsv{plain}; }, {.rows = 50});
  check([&] { return criteo_tsv{plain, {.lines = {.shuffle_window = 8, .seed = 3}}}; }, {.rows = 50, .shuffled = true});
  check([&] { return criteo_tsv{plain, {.lines = {.shuffle_window = 1000}}}; }, {.rows = 50, .shuffled = true});
  check([&] { return criteo_tsv{plain, {.lines = {.filter = train_part}}}; }, {.rows = 40});
  check([&] { return criteo_tsv{plain, {.lines = {.filter = train_part, .shuffle_window = 9}}}; }, {.rows = 40, .shuffled = true});
  check([&] { return criteo_tsv{plain, {.lines = {.filter = valid_part}}}; }, {.rows = 5});
  check([&] { return criteo_tsv{plain, {.lines = {.filter = row_filter::first_rows(20)}}}; }, {.rows = 20});
  check([&] { return criteo_tsv{plain, {.lines = {.filter = row_filter::after_rows(20)}}}; }, {.rows = 30});
  check([&] { return criteo_tsv{plain, {.lines = {.filter = row_filter::after_rows(50)}}}; }, {.rows = 0});
  check([&] { return criteo_tsv{std::vector<std::string>{plain, plain}, {.lines = {.shuffle_window = 30}}}; }, {.rows = 100, .shuffled = true});
  std::string const odd = dir.write("odd.tsv", text + "bad line\n\n2" + fixtures::criteo_line(1).substr(1) + "\n" + fixtures::criteo_line(2));
  check([&] { return criteo_tsv{odd}; }, {.rows = 53, .malformed = 2});
  check([&] { return criteo_tsv{odd, {.lines = {.shuffle_window = 16}}}; }, {.rows = 53, .malformed = 2, .shuffled = true});
}

TEST_CASE("csv, libsvm, libffm and slots conform") {
  temp_dir const dir;
  std::string const csv_path = dir.write("a.csv", fixtures::csv(41));
  csv_options const csv_columns{.label = "click", .categorical = {"user", "tags"}, .dense = {"age"}, .value_separator = '|'};
  csv_options shuffled = csv_columns;
  shuffled.lines.shuffle_window = 10;
  check([&] { return csv{csv_path, csv_columns}; }, {.rows = 41});
  check([&] { return csv{csv_path, shuffled}; }, {.rows = 41, .shuffled = true});
  std::string const svm = dir.write("a.svm", fixtures::libsvm(30));
  check([&] { return libsvm{svm}; }, {.rows = 30});
  check([&] { return libsvm{svm, {.lines = {.shuffle_window = 7}, .fields = libsvm_fields::positional}}; }, {.rows = 30, .shuffled = true});
  std::string const ffm = dir.write("a.ffm", fixtures::libffm(30));
  check([&] { return libffm{ffm}; }, {.rows = 30});
  std::string const slot = dir.write("a.slots", fixtures::slots(30));
  check([&] { return slots{slot}; }, {.rows = 30});
  check([&] { return slots{slot, {.lines = {.shuffle_window = 7}}}; }, {.rows = 30, .shuffled = true});
}

TEST_CASE("synthetic and in_memory conform") {
  check([] { return synthetic{{.rows = 60, .max_bag = 3}}; }, {.rows = 60});
  check([] { return synthetic{{.rows = 60, .order = {.filter = train_part, .shuffle_window = 11}}}; }, {.rows = 48, .shuffled = true});
  check([] { return synthetic{{.rows = 0}}; }, {.rows = 0});
  check([] { return synthetic{{.rows = 20, .features = 0}}; }, {.rows = 20});
  check([] { return synthetic{{.rows = 20, .dense = 0}}; }, {.rows = 20});
  for (bool const weighted : {false, true}) {
    check([&] { return in_memory{columns(33, weighted)}; }, {.rows = 33});
    check([&] { return in_memory{columns(33, weighted), {.filter = valid_part}}; }, {.rows = 3});
    check([&] { return in_memory{columns(33, weighted), {.shuffle_window = 10}}; }, {.rows = 33, .shuffled = true});
    check([&] { return in_memory{columns(0, weighted)}; }, {.rows = 0});
  }
}

TEST_CASE("decorators and any_dataset conform") {
  temp_dir const dir;
  std::string const path = dir.write("a.csv", fixtures::csv(41));
  csv const plain{path, {.lines = {.shuffle_window = 10}, .label = "click", .categorical = {"user", "tags"}, .dense = {"age"}, .value_separator = '|'}};
  auto const statistics = column_statistics::fit(plain, true, {{"age", 4}});
  auto const words = std::make_shared<vocabulary const>(vocabulary::fit(plain, 3));
  check([&] { return with_statistics{plain, statistics}; }, {.rows = 41, .shuffled = true});
  check([&] { return with_vocabulary<csv>{plain, words}; }, {.rows = 41, .shuffled = true});
  check([&] { return any_dataset{plain}; }, {.rows = 41, .shuffled = true});
  check([&] { return any_dataset{synthetic{{.rows = 30}}}; }, {.rows = 30});
  check([&] { return any_dataset{with_statistics<any_dataset>{any_dataset{with_vocabulary<any_dataset>{any_dataset{plain}, words}}, statistics}}; },
        {.rows = 41, .shuffled = true});
}
