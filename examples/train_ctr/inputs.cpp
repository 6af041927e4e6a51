#include "inputs.hpp"

#include <nestpipe/core/digest.hpp>
#include <nestpipe/data/column_statistics.hpp>
#include <nestpipe/data/criteo_tsv.hpp>
#include <nestpipe/data/csv.hpp>
#include <nestpipe/data/libffm.hpp>
#include <nestpipe/data/libsvm.hpp>
#include <nestpipe/data/slots.hpp>
#include <nestpipe/data/synthetic.hpp>
#include <nestpipe/data/vocabulary.hpp>

#include <algorithm>

namespace train_ctr {
namespace {

namespace data = nestpipe::data;

data::label_task label_task(options const& o) { return o.regression ? data::label_task::regression : data::label_task::binary; }

/// What the first dataset has found out and the others must share.
struct learnt {
  std::vector<std::uint64_t> fields;
  std::size_t positional = 0;
};

data::any_dataset open_lines(options const& o, std::vector<std::string> const& paths, data::row_filter filter, bool training, learnt& known) {
  data::line_options lines;
  lines.strict = o.strict;
  lines.filter = filter;
  if (training) {
    lines.shuffle_window = o.shuffle_window;
    lines.seed = o.seed;
  }
  data::dense_transform transform;
  if (o.raw_dense) transform.kind = data::dense_kind::identity;
  if (o.format == "csv") {
    data::csv_options c;
    c.lines = lines;
    c.label = o.label;
    c.categorical = o.categorical;
    c.dense = o.dense;
    c.columns = o.columns;
    c.header = o.header;
    c.delimiter = o.delimiter;
    c.value_separator = o.separator;
    c.positive = o.positive;
    c.task = label_task(o);
    c.transform = transform;
    return data::csv{paths, std::move(c)};
  }
  if (o.format == "libsvm") {
    data::libsvm_options c;
    c.lines = lines;
    c.fields = o.fields == "positional" ? data::libsvm_fields::positional : data::libsvm_fields::bag;
    c.features = known.positional;
    c.task = label_task(o);
    data::libsvm d{paths, c};
    if (c.fields == data::libsvm_fields::positional) known.positional = d.schema().features.size();
    return d;
  }
  if (o.format == "libffm" || o.format == "slots") {
    data::field_options c;
    c.lines = lines;
    c.fields = known.fields;
    c.task = label_task(o);
    if (o.format == "libffm") {
      data::libffm d{paths, std::move(c)};
      known.fields = d.format().fields();
      return d;
    }
    data::slots d{paths, std::move(c)};
    known.fields = d.format().fields();
    return d;
  }
  data::criteo_options c;
  c.lines = lines;
  c.transform = transform;
  return data::criteo_tsv{paths, c};
}

data::any_dataset synthetic_part(options const& o, std::uint64_t first, std::uint64_t rows, bool training) {
  data::synthetic_options s;
  s.first_row = first;
  s.rows = rows;
  s.seed = o.seed;
  s.vocabulary = o.synthetic_vocabulary;
  s.exponent = o.synthetic_exponent;
  if (training) {
    s.order.shuffle_window = o.shuffle_window;
    s.order.seed = o.seed;
  }
  return data::synthetic{s};
}

inputs open_raw(options const& o) {
  if (o.data[0] == "synthetic") {
    data::synthetic_options s;
    s.seed = o.seed;
    s.vocabulary = o.synthetic_vocabulary;
    s.exponent = o.synthetic_exponent;
    std::uint64_t const n = o.synthetic_valid_rows;
    return {synthetic_part(o, 0, o.synthetic_rows, true), synthetic_part(o, o.synthetic_rows, n, false), synthetic_part(o, o.synthetic_rows + n, n, false),
            data::synthetic{s}.best_auc()};
  }
  learnt known;
  known.fields = o.slots;
  data::row_filter train, valid, test;
  bool has_valid = false, has_test = false;
  if (!o.split.empty()) {
    auto const split = data::row_split::from_text(o.split);
    train = data::row_filter::part_of(split, data::split_part::train);
    if ((has_valid = split.valid.has_value())) valid = data::row_filter::part_of(split, data::split_part::valid);
    if ((has_test = split.test.has_value() && o.test.empty())) test = data::row_filter::part_of(split, data::split_part::test);
  } else if (o.train_rows > 0) {
    train = data::row_filter::first_rows(o.train_rows);
    valid = data::row_filter::after_rows(o.train_rows);
    has_valid = true;
  }
  inputs in{open_lines(o, o.data, train, true, known), {}, {}};
  if (has_valid) in.valid = open_lines(o, o.data, valid, false, known);
  else if (!o.valid.empty()) in.valid = open_lines(o, o.valid, {}, false, known);
  if (has_test) in.test = open_lines(o, o.data, test, false, known);
  else if (!o.test.empty()) in.test = open_lines(o, o.test, {}, false, known);
  return in;
}

// Fitted values as a short text: equal values, equal text.
std::string fingerprint(data::column_statistics const& s) {
  nestpipe::digest d;
  for (std::size_t i = 0; i < s.columns.size(); ++i) {
    auto const& c = s.columns[i];
    d.add(std::bit_cast<std::uint64_t>(c.mean), nestpipe::mix64(std::bit_cast<std::uint64_t>(c.deviation), i), c.boundaries);
    d.add(i, c.buckets * 4 + (c.keep ? 2 : 0) + (s.standardize ? 1 : 0), {});
  }
  return d.text();
}
std::string fingerprint(data::vocabulary const& v, std::size_t features) {
  nestpipe::digest d;
  for (std::size_t f = 0; f < features; ++f) {
    for (nestpipe::key_type const key : v.keys(f)) d.add(f, key, {});
  }
  return d.text();
}

template <class Wrap>
void wrap_all(inputs& in, Wrap wrap) {
  in.train = wrap(std::move(in.train));
  if (in.valid) in.valid = wrap(std::move(*in.valid));
  if (in.test) in.test = wrap(std::move(*in.test));
}

}  // namespace

inputs open_inputs(options const& o) {
  inputs in = open_raw(o);
  in.transform = o.raw_dense ? "dense as they are" : "dense by signed log1p";
  in.order = "shuffle " + std::to_string(o.shuffle_window) + ", split " + (o.split.empty() ? "none" : o.split) + ", first " + std::to_string(o.train_rows);
  if (o.standardize || !o.buckets.empty()) {
    std::vector<data::bucket_request> requests;
    for (auto const& [column, k] : o.buckets)
      requests.push_back({column, k, std::count(o.bucket_only.begin(), o.bucket_only.end(), column) == 0});
    auto const statistics = data::column_statistics::fit(in.train, o.standardize, requests);
    in.transform += ", statistics " + fingerprint(statistics);
    wrap_all(in, [&](data::any_dataset d) -> data::any_dataset { return data::with_statistics<data::any_dataset>{std::move(d), statistics}; });
  }
  if (o.min_count > 0) {
    auto const words = std::make_shared<data::vocabulary const>(data::vocabulary::fit(in.train, o.min_count));
    in.transform += ", vocabulary " + fingerprint(*words, in.train.schema().features.size());
    wrap_all(in, [&](data::any_dataset d) -> data::any_dataset { return data::with_vocabulary<data::any_dataset>{std::move(d), words}; });
  }
  return in;
}

}  // namespace train_ctr
