// The real logs: rows, positives and whatever else their READMEs count.

#include "temp_dir.hpp"

#include <nestpipe/data/any_dataset.hpp>
#include <nestpipe/data/criteo_tsv.hpp>
#include <nestpipe/data/csv.hpp>
#include <nestpipe/data/slots.hpp>
#include <nestpipe/data/vocabulary.hpp>

#include <cmath>

using namespace nestpipe;
using namespace nestpipe::data;

namespace {

struct counted {
  std::size_t rows = 0, malformed = 0, several = 0;
  double label_sum = 0;
  std::vector<key_counts> keys;           // by feature
  std::vector<std::size_t> empty;         // bags, by feature
  std::vector<std::size_t> missing;       // dense values, by column
  std::size_t distinct(std::size_t f) const { return keys[f].size(); }
};

counted count(any_dataset d) {
  d.keep_missing(true);
  counted c;
  c.keys.resize(d.schema().features.size());
  c.empty.resize(c.keys.size());
  c.missing.resize(d.schema().dense);
  any_dataset::block block;
  sample_block s;
  while (std::size_t const n = d.frame(block, 5000)) {
    d.parse(block, 0, n, s);
    s.ids.check();
    c.rows += s.samples;
    c.malformed += s.malformed;
    for (float const label : s.labels) c.label_sum += static_cast<double>(label);
    for (std::size_t f = 0; f < s.ids.features; ++f) {
      for (std::size_t i = 0; i < s.samples; ++i) {
        auto const bag = s.ids.bag(f, i);
        for (key_type const key : bag) c.keys[f].add(key);
        c.empty[f] += bag.empty() ? 1 : 0;
        c.several += bag.size() > 1 ? 1 : 0;
      }
    }
    for (std::size_t i = 0; i < s.samples * s.dense_width; ++i) c.missing[i % s.dense_width] += std::isnan(s.dense[i]) ? 1 : 0;
  }
  return c;
}

}  // namespace

TEST_CASE("criteo, the first thousand rows of day 0") {
  std::string const path = shared_data("criteo-1tb-day0-1k/day_0_first1000.tsv");
  if (path.empty()) return;
  counted const c = count(criteo_tsv{path});
  CHECK(c.rows == 1000);
  CHECK(c.malformed == 0);
  CHECK(c.label_sum == 21);
  std::size_t distinct = 0;
  for (auto const& k : c.keys) distinct += k.size();
  CHECK(distinct == 5527);
  CHECK(c.missing[9] == 88);
  CHECK(c.missing[1] == 90);
  CHECK(c.missing[3] == 523);
  for (std::size_t const f : {13, 15, 16, 22}) CHECK(c.empty[f] == 461);
  CHECK(c.empty[25] == 0);
}

TEST_CASE("adult census") {
  std::vector<std::string> const columns{"age", "workclass", "fnlwgt", "education", "education_num", "marital_status", "occupation", "relationship",
                                         "race", "sex", "capital_gain", "capital_loss", "hours_per_week", "native_country", "income"};
  for (auto const& [name, rows, malformed, positives] : {std::tuple{"adult.data.gz", 32561, 0, 7841}, {"adult.test.gz", 16281, 1, 3846}}) {
    std::string const path = shared_data(std::string{"adult-census/"} + name);
    if (path.empty()) return;
    csv const d{path,
                {.label = "income",
                 .categorical = {"workclass", "education", "marital_status", "occupation", "relationship", "race", "sex", "native_country"},
                 .dense = {"age", "fnlwgt", "education_num", "capital_gain", "capital_loss", "hours_per_week"},
                 .columns = columns,
                 .positive = {">50K", ">50K."}}};
    counted const c = count(d);
    CHECK(c.rows == static_cast<std::size_t>(rows));
    CHECK(c.malformed == static_cast<std::size_t>(malformed));
    CHECK(c.label_sum == positives);
    CHECK(c.distinct(6) == 2);
    CHECK(c.empty[0] == 0);  // "?" is a value
    if (malformed == 1) CHECK(contains(d.complaints().at(0), ":1: found 1 column instead of 15"));
  }
}

TEST_CASE("kuairand as one table") {
  for (auto const& [name, rows, several] : {std::tuple{"train", 85305, 11044}, {"valid", 9479, 1031}, {"test", 133545, 15739}}) {
    std::string const path = shared_data(std::string{"kuairand-ctr/"} + name + ".csv.gz");
    if (path.empty()) return;
    counted const c = count(csv{path,
                                {.label = "is_click",
                                 .categorical = {"user_id", "video_id", "author_id", "music_id", "video_type", "upload_type", "tag", "tab", "hour", "user_active_degree",
                                                 "follow_user_num_range", "fans_user_num_range", "friend_user_num_range", "register_days_range"},
                                 .dense = {"video_duration_s", "video_age_days", "follow_user_num", "fans_user_num", "register_days"},
                                 .value_separator = '|'}});
    CHECK(c.rows == static_cast<std::size_t>(rows));
    CHECK(c.malformed == 0);
    CHECK(c.label_sum / static_cast<double>(c.rows) == doctest::Approx(0.44).epsilon(0.02));
    CHECK(c.several == static_cast<std::size_t>(several));
    CHECK(c.distinct(5) > 1);
  }
}

TEST_CASE("kuairand logs as published") {
  for (auto const& [name, rows, clicks] : {std::tuple{"log_20220425_20220430", 94784, .4379}, {"log_20220501_20220508", 133545, .4448}}) {
    std::string const path = shared_data(std::string{"kuairand-pure-slice/"} + name + ".csv.gz");
    if (path.empty()) return;
    counted const c = count(csv{path, {.label = "is_click", .categorical = {"user_id", "video_id", "tab"}}});
    CHECK(c.rows == static_cast<std::size_t>(rows));
    CHECK(c.malformed == 0);
    CHECK(c.label_sum / static_cast<double>(c.rows) == doctest::Approx(clicks).epsilon(0.001));
    CHECK(c.distinct(2) <= 15);
  }
}

TEST_CASE("movielens tags, whole and split by row number") {
  std::string const path = shared_data("movielens-tag-slice/movielenslatest_x1.test.csv.gz");
  if (path.empty()) return;
  csv_options o{.label = "label", .categorical = {"user_id", "item_id", "tag_id"}};
  counted const all = count(csv{path, o});
  CHECK(all.rows == 200686);
  CHECK(all.label_sum == 66850);
  CHECK(all.distinct(0) == 11412);
  CHECK(all.distinct(1) == 16602);
  CHECK(all.distinct(2) == 47203);
  double positives = 0;
  for (auto const& [part, rows] : {std::pair{split_part::train, 160550}, {split_part::valid, 20068}, {split_part::test, 20068}}) {
    o.lines.filter = row_filter::part_of(row_split::from_text("10:8:9"), part);
    o.lines.shuffle_window = 50000;
    counted const c = count(csv{path, o});
    CHECK(c.rows == static_cast<std::size_t>(rows));
    positives += c.label_sum;
  }
  CHECK(positives == 66850);
}

TEST_CASE("movielens small: CRLF, quoted titles, ratings as real labels") {
  std::string const ratings = shared_data("ml-latest-small/ratings.csv.gz");
  if (ratings.empty()) return;
  counted const r = count(csv{ratings, {.label = "rating", .categorical = {"userId", "movieId"}, .task = label_task::regression}});
  CHECK(r.rows == 100836);
  CHECK(r.malformed == 0);
  CHECK(r.distinct(0) == 610);
  CHECK(r.distinct(1) == 9724);
  CHECK(r.label_sum / 100836 == doctest::Approx(3.5016).epsilon(0.0001));
  counted const m = count(csv{shared_data("ml-latest-small/movies.csv.gz"), {.categorical = {"#0", "genres"}, .value_separator = '|'}});
  CHECK(m.rows == 9742);
  CHECK(m.malformed == 0);
  CHECK(m.distinct(0) == 9742);
}

TEST_CASE("open bandit: an unnamed column, 128-bit text keys") {
  for (auto const& [name, clicks] : {std::pair{"random_women", 46}, {"random_men", 46}, {"bts_women", 46}, {"bts_men", 69}}) {
    std::string const path = shared_data(std::string{"open-bandit-small/"} + name + ".csv.gz");
    if (path.empty()) return;
    counted const c = count(csv{path, {.label = "click", .categorical = {"#0", "item_id", "position", "user_feature_0", "user_feature_3"}, .dense = {"propensity_score"}}});
    CHECK(c.rows == 10000);
    CHECK(c.malformed == 0);
    CHECK(c.label_sum == clicks);
    CHECK(c.distinct(0) == 10000);
    CHECK(c.distinct(2) == 3);
  }
}

TEST_CASE("slots: 64-bit ids") {
  std::string const path = shared_data("paddlerec-slots/slot_dnn_demo_10.txt");
  if (path.empty()) return;
  slots const d{path};
  CHECK(d.schema().features.size() == 270);
  counted const c = count(d);
  CHECK(c.rows == 10);
  CHECK(c.malformed == 0);
  std::size_t ids = 0;
  std::uint64_t largest = 0;
  for (auto const& k : c.keys) {
    k.for_each([&](key_type key, std::uint32_t n) {
      ids += n;
      largest = std::max(largest, key);
    });
  }
  CHECK(ids == 4537);
  CHECK(largest == 18443006865882872744ULL);
}
