// Each of the 27 odd files, with what happens to it written down.

#include "temp_dir.hpp"

#include <nestpipe/data/any_dataset.hpp>
#include <nestpipe/data/criteo_tsv.hpp>
#include <nestpipe/data/csv.hpp>
#include <nestpipe/data/libffm.hpp>
#include <nestpipe/data/libsvm.hpp>

#include <functional>

using namespace nestpipe;
using namespace nestpipe::data;

namespace {

struct outcome {
  std::size_t samples = 0;
  std::size_t malformed = 0;
  double positives = 0;
  std::size_t ids = 0;
  std::string complaints;
  std::string error;  // when refused
};

outcome read(std::function<any_dataset()> const& open) {
  outcome out;
  try {
    any_dataset d = open();
    any_dataset::block block;
    sample_block samples;
    while (std::size_t const n = d.frame(block, 16)) {
      d.parse(block, 0, n, samples);
      samples.ids.check();
      for (float const x : samples.dense) CHECK(std::isfinite(x));
      out.samples += samples.samples;
      out.malformed += samples.malformed;
      out.ids += samples.ids.values.size();
      for (float const label : samples.labels) out.positives += static_cast<double>(label);
    }
    for (std::string const& c : d.complaints()) out.complaints += c + "\n";
  } catch (data_error const& e) {
    out.error = e.what();
  }
  return out;
}

std::vector<std::string> criteo_names() {
  std::vector<std::string> names{"label"};
  for (int i = 1; i <= 13; ++i) names.push_back("I" + std::to_string(i));
  for (int i = 1; i <= 26; ++i) names.push_back("C" + std::to_string(i));
  return names;
}

csv_options criteo_as_csv(bool header) {
  auto const names = criteo_names();
  return {.label = "label",
          .categorical = {names.begin() + 14, names.end()},
          .dense = {names.begin() + 1, names.begin() + 14},
          .columns = header ? std::vector<std::string>{} : names};
}

any_dataset open_criteo(std::string const& path, bool strict) { return criteo_tsv{path, {.lines = {.strict = strict}}}; }
any_dataset open_csv(std::string const& path, bool strict) {
  auto o = criteo_as_csv(false);
  o.lines.strict = strict;
  return csv{path, o};
}
any_dataset open_csv_header(std::string const& path, bool strict) {
  auto o = criteo_as_csv(true);
  o.lines.strict = strict;
  return csv{path, o};
}
any_dataset open_csv_created(std::string const& path, bool strict) { return csv{path, {.lines = {.strict = strict}, .categorical = {"created"}}}; }
any_dataset open_libsvm(std::string const& path, bool strict) { return libsvm{path, {.lines = {.strict = strict}}}; }
any_dataset open_regression(std::string const& path, bool strict) { return libsvm{path, {.lines = {.strict = strict}, .task = label_task::regression}}; }
any_dataset open_positional(std::string const& path, bool strict) { return libsvm{path, {.lines = {.strict = strict}, .fields = libsvm_fields::positional}}; }
any_dataset open_libffm(std::string const& path, bool strict) { return libffm{path, {.lines = {.strict = strict}}}; }

struct row {
  char const* file;
  any_dataset (*open)(std::string const&, bool);
  std::size_t samples;
  std::size_t malformed;
  double positives;
  std::size_t ids;
  char const* says;  // part of a complaint, of the strict error when rows are malformed, or of the refusal when no row is read
  bool refused = false;
};

row const odd_files[] = {
    // The unlabelled form: labels read 0.
    {"c01_no_label_39_columns.tsv", open_criteo, 20, 0, 0, 494, ""},
    {"c02_commas_not_tabs.csv", open_criteo, 0, 20, 0, 0, "commas separate its fields: read it as csv"},
    {"c02_commas_not_tabs.csv", open_csv, 20, 0, 2, 494, ""},
    {"c03_crlf.tsv", open_criteo, 20, 0, 2, 494, ""},
    {"c04_no_final_newline.tsv", open_criteo, 20, 0, 2, 494, ""},
    {"c05_trailing_tabs_stripped.tsv", open_criteo, 10, 10, 1, 252, ":2: found 38 columns: expected 40 columns separated by tabs"},
    {"c06_utf8_bom.tsv", open_criteo, 20, 0, 2, 494, ""},
    {"c07_blank_lines.tsv", open_criteo, 20, 0, 2, 494, ""},
    {"c08_floats_in_int_columns.tsv", open_criteo, 20, 0, 2, 494, ""},
    // -1 for a missing category: missing.
    {"c09_minus1_filled_categories.tsv", open_criteo, 96, 0, 3, 2094, ""},
    {"c10_header_row.csv", open_criteo, 0, 21, 0, 0, "commas separate its fields: read it as csv"},
    {"c10_header_row.csv", open_csv_header, 20, 0, 2, 494, ""},
    {"c11_extra_column.tsv", open_criteo, 15, 5, 2, 378, "found 41 columns"},
    {"c12_cut_mid_row.tsv", open_criteo, 19, 1, 2, 472, ":20: found"},
    {"c13_nul_and_latin1.tsv", open_criteo, 6, 1, 2, 146, ":4: found 39 columns: expected 40 columns separated by tabs"},
    // '', -1, 2, nan and yes are no labels; 1.0, +1 and 0 are.
    {"c14_bad_labels.tsv", open_criteo, 3, 5, 2, 68, ":1: label: not 0 or 1 ''"},
    // Beyond 64 bits is a number still; 1e308, inf, 0x10 and --3 are refused.
    {"c15_int_out_of_range.tsv", open_criteo, 2, 4, 1, 52, ":3: int_0: number out of range '1e308'"},
    {"s01_label_only.libsvm", open_libsvm, 4, 0, 2, 3, ""},
    // An index alone has weight 1; a colon without a value is malformed.
    {"s02_missing_value.libsvm", open_libsvm, 2, 1, 2, 3, ":3: pair: its value is not a finite number '4:'"},
    {"s03_trailing_comment.libsvm", open_libsvm, 1, 2, 1, 5, ":1: label: not 0, 1 or -1 '3'"},
    {"s03_trailing_comment.libsvm", open_regression, 3, 0, 6, 15, ""},
    {"s04_zero_based_and_one_based.libsvm", open_libsvm, 2, 0, 1, 7, ""},
    {"s05_extra_spaces_tabs.libsvm", open_libsvm, 3, 0, 2, 6, ""},
    {"s06_not_ascending.libsvm", open_libsvm, 2, 0, 1, 6, ""},
    {"s07_user_row_xlearn157.libsvm", open_libsvm, 1, 0, 1, 11, ""},
    {"s08_user_row_xlearn99.libffm", open_libffm, 1, 0, 0, 18, ""},
    {"s09_mixed_svm_and_ffm.txt", open_libsvm, 1, 1, 0, 2, ":1: pair: has two colons '0:1:1'; read field:index:value as libffm"},
    {"s09_mixed_svm_and_ffm.txt", open_libffm, 1, 1, 1, 2, ":2: word: not field:index:value '3:1'; read index:value as libsvm"},
    {"s10_crlf_minus1_labels.libfm", open_libsvm, 2, 0, 1, 4, ""},
    {"s10_crlf_minus1_labels.libfm", open_positional, 2, 0, 1, 4, ""},
    {"s11_nan_inf_values.libsvm", open_libsvm, 0, 3, 0, 0, ":1: pair: its value is not a finite number '1:nan'"},
    {"x01_utf16_bom.csv", open_csv_created, 0, 0, 0, 0, "the file is UTF-16 text", true},
};

}  // namespace

TEST_CASE("every odd file is read to its end or refused with one line") {
  std::string const folder = shared_data("malformed");
  if (folder.empty()) return;
  std::vector<std::string> files;
  for (row const& want : odd_files) {
    CAPTURE(want.file);
    files.emplace_back(want.file);
    std::string const path = folder + "/" + want.file;
    outcome const got = read([&] { return want.open(path, false); });
    CHECK(got.samples == want.samples);
    CHECK(got.malformed == want.malformed);
    CHECK(got.positives == want.positives);
    CHECK(got.ids == want.ids);
    CHECK(got.error.empty() != want.refused);
    if (want.refused) {
      CHECK(contains(got.error, want.says));
      CHECK(contains(got.error, want.file));
      continue;
    }
    CHECK(got.complaints.empty() == (want.malformed == 0));
    CAPTURE(got.complaints);
    CHECK(contains(got.complaints, want.says));
    if (want.malformed > 0) CHECK(contains(got.complaints, path + ":"));
    outcome const strict = read([&] { return want.open(path, true); });
    CAPTURE(strict.error);
    CHECK(strict.error.empty() == (want.malformed == 0));
    if (want.malformed > 0) CHECK(contains(strict.error, "(" + path + ":"));
  }
  std::sort(files.begin(), files.end());
  files.erase(std::unique(files.begin(), files.end()), files.end());
  CHECK(files.size() == 27);
}
