#include "options.hpp"

#include "schedules.hpp"

#include <nestpipe/core/error.hpp>
#include <nestpipe/core/version.hpp>

#include <CLI/CLI.hpp>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <iostream>

namespace train_ctr {
namespace {

using nestpipe::require;

/// Values and flags whose policies are not there yet.
[[noreturn]] void later(std::string const& what) { throw nestpipe::config_error{what + " comes in a later version", {}, "leave it out"}; }

std::string list_of(std::vector<std::string> const& names) {
  std::string list;
  for (auto const& name : names) list += (list.empty() ? "" : ", ") + name;
  return list;
}

void one_of(std::string const& flag, std::string const& value, std::vector<std::string> const& known, std::vector<std::string> const& coming = {}) {
  for (auto const& k : known) {
    if (k == value) return;
  }
  for (auto const& c : coming) {
    if (c == value) later(flag + " " + value);
  }
  throw nestpipe::config_error{flag + ": there is no '" + value + "'", {}, "choose one of " + list_of(known)};
}

void positive(std::string const& flag, std::uint64_t value) { require(value > 0, flag + " must be at least 1", std::to_string(value)); }

/// `set`: the flag was given.
void number(std::string const& flag, bool set, double value) {
  if (!set) return;
  require(std::isfinite(value) && value >= 0 && value <= 3e38, flag + " must be a finite number, 0 or more", std::to_string(value));
}

char one_character(std::string const& flag, std::string const& text) {
  if (text == "tab" || text == "\\t") return '\t';
  require(text.size() == 1, flag + " takes one character (or the word tab)", text);
  return text[0];
}

struct optimizer_flags {
  std::vector<std::pair<CLI::Option*, double*>> numbers;
};

/// The numbers of the row optimizer, or with the prefix "dense-" of the dense one.
optimizer_flags add_optimizer(CLI::App& app, std::string const& prefix, optimizer_choice& o, std::string const& group) {
  optimizer_flags flags;
  auto const add = [&](std::string const& name, double& value, std::string const& help) {
    flags.numbers.emplace_back(app.add_option("--" + prefix + name, value, help)->group(group), &value);
  };
  app.add_option("--" + prefix + "optimizer", o.name, "sgd, momentum, adagrad, rowwise_adagrad, adam or ftrl [" + o.name + "]")->group(group);
  add("lr", o.rate, "learning rate [the optimizer's own default]");
  add("l2", o.l2, "l2 penalty; on rows lazy: only rows that a batch touches [0]");
  add("l1", o.l1, "l1 penalty, ftrl only [0]");
  add("eps", o.eps, "adagrad, rowwise_adagrad, adam");
  add("beta1", o.beta1, "adam; for ftrl its beta");
  add("beta2", o.beta2, "adam");
  add("momentum", o.momentum, "momentum");
  add("initial-accumulator", o.initial_accumulator, "adagrad, rowwise_adagrad");
  return flags;
}

/// Flags that this optimizer reads, prefix aside.
std::vector<std::string> numbers_of(std::string const& optimizer) {
  if (optimizer == "momentum") return {"lr", "l2", "momentum"};
  if (optimizer == "adagrad" || optimizer == "rowwise_adagrad") return {"lr", "l2", "eps", "initial-accumulator"};
  if (optimizer == "adam") return {"lr", "l2", "eps", "beta1", "beta2"};
  if (optimizer == "ftrl") return {"lr", "l2", "l1", "beta1"};
  return {"lr", "l2"};
}

std::string bucket_text(std::string const& text, options& o) {
  // NAME:K or NAME:K:only; the name itself may hold colons.
  std::string rest = text;
  bool only = false;
  if (rest.size() > 5 && rest.compare(rest.size() - 5, 5, ":only") == 0) {
    only = true;
    rest.resize(rest.size() - 5);
  }
  std::size_t const colon = rest.rfind(':');
  std::uint64_t k = 0;
  char const* const end = rest.data() + rest.size();
  bool const good = colon != std::string::npos && colon > 0 && std::from_chars(rest.data() + colon + 1, end, k).ptr == end && k >= 2;
  require(good, "--bucketize takes COLUMN:BUCKETS or COLUMN:BUCKETS:only with at least 2 buckets", text);
  std::string name = rest.substr(0, colon);
  o.buckets.emplace_back(name, k);
  if (only) o.bucket_only.push_back(name);
  return name;
}

void check(options& o) {
  require(!o.data.empty(), "no data", {}, "give --data PATH, --data synthetic, or --data - for standard input");
  bool const synthetic = o.data.size() == 1 && o.data[0] == "synthetic";
  for (auto const& path : o.data) require(synthetic || path != "synthetic", "--data synthetic stands alone", {}, "give either files or synthetic");
  require(!synthetic || (o.valid.empty() && o.test.empty()), "--data synthetic makes its own valid and test rows", {}, "leave out --valid and --test");
  one_of("--format", o.format, {"criteo", "libsvm", "libffm", "csv", "slots"});
  one_of("--fields", o.fields, {"bag", "positional"});
  one_of("--files", o.files, {"shared"}, {"per-rank"});
  bool const csv = o.format == "csv" && !synthetic;
  require(csv || (o.label.empty() && o.categorical.empty() && o.dense.empty() && o.columns.empty() && o.positive.empty()),
          "--label, --categorical, --dense, --columns and --positive describe a CSV file", {}, "add --format csv");
  require(!csv || !o.categorical.empty() || !o.dense.empty(), "a CSV file needs its input columns named", {}, "give --categorical A,B,... or --dense X,Y,...");
  require(!csv || !o.label.empty(), "a CSV file needs its label column named", {}, "give --label NAME");
  bool const stream = std::count(o.data.begin(), o.data.end(), "-") != 0;
  require(!stream || o.epochs <= 1, "standard input can be read only once", "--epochs " + std::to_string(o.epochs), "give a file, or one epoch");
  require(!stream || (o.split.empty() && o.train_rows == 0), "standard input can be read only once, so it cannot be split", {}, "give a file");
  require(std::count(o.valid.begin(), o.valid.end(), "-") == 0, "standard input can be read only once, validation reads its rows every epoch", {}, "give --valid a file");
  require(o.split.empty() || o.train_rows == 0, "--split and --train-rows are two ways to split the data", {}, "give one of them");
  require((o.split.empty() && o.train_rows == 0) || (o.valid.empty()), "the valid rows are given twice: --valid and a split of --data", {}, "give one of them");
  positive("--dim", o.dim);
  positive("--batch-size", o.batch_size);
  require(o.batch_size <= 1'000'000'000, "--batch-size is at most 1000000000", std::to_string(o.batch_size));
  positive("--ranks", o.ranks);
  require(o.ranks <= 1024, "--ranks is at most 1024", std::to_string(o.ranks));
  positive("--micro-batches", o.micro_batches);
  require(o.micro_batches <= 1'000'000, "--micro-batches is at most 1000000", std::to_string(o.micro_batches));
  positive("--shards", o.shards);
  positive("--synthetic-rows", o.synthetic_rows);
  positive("--synthetic-valid-rows", o.synthetic_valid_rows);
  positive("--synthetic-vocabulary", o.synthetic_vocabulary);
  for (std::size_t const h : o.hidden) positive("--hidden", h);
  for (std::size_t const h : o.bottom) positive("--bottom", h);
  number("--synthetic-exponent", true, o.synthetic_exponent);
  number("--row-clip", true, o.row_clip);
  number("--dense-clip", true, o.dense_clip);
  number("--embedding-scale", o.embedding_scale != -1, o.embedding_scale);
  number("--link-latency", true, o.link_latency);
  number("--link-bandwidth", true, o.link_bandwidth);
  require(o.link_latency < 60, "--link-latency is in seconds a message, below 60", std::to_string(o.link_latency));
  require(std::isfinite(o.decay_power) && o.decay_power > 0, "--decay-power must be a finite number above 0");
  require(o.decay_end >= 0 && o.decay_end <= 1, "--decay-end is a factor from 0 to 1");

  one_of("--model", o.model, {"logistic", "fm", "deepfm", "dcn", "dlrm"}, {"rafm"});
  one_of("--codec", o.codec, {"float32", "bfloat16", "float16", "int8"});
  positive("--admit-count", o.admit_count);
  require(o.admit_probability > 0 && o.admit_probability <= 1, "--admit-probability must be above 0 and at most 1", std::to_string(o.admit_probability));
  bool const admits = o.admit_count > 1 || o.admit_probability < 1;
  require(!admits || (o.save.empty() && o.save_best.empty() && o.resume.empty()), "checkpoints do not hold the counts of admission yet", {},
          "leave out --save, --save-best and --resume, or --admit-count and --admit-probability");
  one_of("--storage", o.storage, {"hashed", "dense", "tiered", "rocksdb"});
  bool const tiered = o.storage == "tiered";
  require(tiered || o.memory_budget == 0, "--memory-budget bounds the fast tier of --storage tiered", o.storage, "leave it out, or use --storage tiered");
  require(!tiered || o.memory_budget >= 65536, "--storage tiered needs to know how much memory rows may take", {}, "give --memory-budget BYTES, at least 64K");
  require(tiered || o.slow_tier.empty(), "--slow-tier belongs to --storage tiered", o.storage, "leave it out");
  if (tiered && o.slow_tier.empty()) o.slow_tier = "rocksdb";
  if (tiered) one_of("--slow-tier", o.slow_tier, {"rocksdb"}, {"file"});
  require(tiered || o.storage == "rocksdb" || o.storage_dir.empty(), "--storage-dir is where --storage tiered and rocksdb keep rows", o.storage, "leave it out");
#if !defined(NESTPIPE_WITH_ROCKSDB)
  require(!tiered && o.storage != "rocksdb", "--storage " + o.storage + " needs RocksDB, and this program was built without it", {}, "install librocksdb-dev and build again");
#endif
  if (o.storage == "dense" && synthetic && o.cardinality == 0) o.cardinality = o.synthetic_vocabulary;
  require(o.storage != "dense" || o.cardinality > 0, "--storage dense needs to know that all ids are below some number", {}, "give --cardinality N, or use --storage hashed");
  for (optimizer_choice const* p : {&o.rows, &o.dense_part})
    one_of(p == &o.rows ? "--optimizer" : "--dense-optimizer", p->name, {"sgd", "momentum", "adagrad", "rowwise_adagrad", "adam", "ftrl"});
  one_of("--schedule", o.schedule, schedule_names(), coming_schedules());
  require(o.early_rows.empty() || o.schedule == "dual_buffer" || o.schedule == "nested", "--early-rows belongs to the schedules dual_buffer and nested", o.schedule, "leave it out");
  require(o.split_backward.empty() || o.schedule == "frozen_window" || o.schedule == "nested", "--split-backward belongs to the schedules frozen_window and nested", o.schedule, "leave it out");
  for (auto const& [flag, value] : {std::pair{"--early-rows", &o.early_rows}, std::pair{"--split-backward", &o.split_backward}}) {
    if (!value->empty()) one_of(flag, *value, {"on", "off"});
  }
  require(o.look_ahead == 0 || o.schedule == "prefetch" || o.schedule == "dual_buffer" || o.schedule == "nested",
          "--look-ahead belongs to the schedules prefetch, dual_buffer and nested", o.schedule, "leave it out");
  require(o.look_ahead <= 59, "--look-ahead is at most 59", std::to_string(o.look_ahead));
  one_of("--executor", o.executor, {"threads", "inline"});
  one_of("--reduction", o.reduction, {"ordered", "native"});
  one_of("--cluster", o.cluster, {"off", "fast", "exact"});

  bool const has_valid = synthetic || !o.valid.empty() || o.train_rows > 0 || (!o.split.empty() && o.split.find(":-:") == std::string::npos);
  bool const has_test = synthetic || !o.test.empty() || (!o.split.empty() && o.split.back() != '-');
  require(!admits || !(has_valid && has_test && o.epochs > 1), "the best epoch is kept in a checkpoint, and checkpoints do not hold the counts of admission yet", {},
          "train one epoch, leave out --test or the valid rows, or leave out --admit-count and --admit-probability");
  require(o.patience == 0 || has_valid, "--patience needs valid rows to judge by", {}, "give --valid, --split or --train-rows");
  require(o.save_best.empty() || has_valid, "--save-best needs valid rows to judge by", {}, "give --valid, --split or --train-rows");
  require(o.predict.empty() || has_test, "--predict writes the scores of the test rows", {}, "give --test or --split");
  require(!(o.regression && o.patience > 0), "--patience judges by AUC, which a regression does not have");
}

}  // namespace

launch launched() {
  for (auto const& [size, rank] : {std::pair{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK"}, std::pair{"PMI_SIZE", "PMI_RANK"}, std::pair{"MV2_COMM_WORLD_SIZE", "MV2_COMM_WORLD_RANK"}}) {
    char const* const s = std::getenv(size);
    char const* const r = std::getenv(rank);
    if (s == nullptr || r == nullptr) continue;
    launch found;
    std::from_chars(s, s + std::strlen(s), found.size);
    std::from_chars(r, r + std::strlen(r), found.rank);
    return found;
  }
  return {};
}

parsed parse(int argc, char** argv) {
  parsed result;
  options& o = result.chosen;
  for (int i = 1; i < argc; ++i) o.given.emplace_back(argv[i]);

  std::string const version = std::to_string(nestpipe::version.major_number) + "." + std::to_string(nestpipe::version.minor_number) + "." + std::to_string(nestpipe::version.patch_number);
  CLI::App app{"Trains a click model on a log and says how well it predicts.", "train_ctr"};
  app.set_version_flag("--version", version);
  app.get_formatter()->column_width(38);
  std::string task = "binary", delimiter, separator;
  std::vector<std::string> bucketize;
  std::uint64_t total_micro_batches = 0;
  bool no_header = false;

  std::string g = "Data";
  app.add_option("--data", o.data, "training log: PATH (repeatable; plain or gzip), - for standard input, or synthetic")->group(g)->allow_extra_args(false);
  app.add_option("--valid", o.valid, "file for validation after every epoch (repeatable)")->group(g)->allow_extra_args(false);
  app.add_option("--test", o.test, "file evaluated once, at the end, with the best epoch by valid AUC (repeatable)")->group(g)->allow_extra_args(false);
  app.add_option("--split", o.split, "MOD:VALID:TEST: rows of --data whose number modulo MOD is VALID or TEST; - for none")->group(g);
  app.add_option("--train-rows", o.train_rows, "the first N rows of --data train, the others are for validation")->group(g);
  app.add_option("--format", o.format, "criteo, libsvm, libffm, csv or slots [criteo]")->group(g);
  app.add_option("--label", o.label, "CSV: column of the label")->group(g);
  app.add_option("--categorical", o.categorical, "CSV: columns of ids, A,B,...")->delimiter(',')->group(g)->allow_extra_args(false);
  app.add_option("--dense", o.dense, "CSV: columns of numbers, X,Y,... (sign(x) log(1 + |x|) unless --raw-dense)")->delimiter(',')->group(g)->allow_extra_args(false);
  app.add_option("--columns", o.columns, "CSV: names of all columns of a file without a header row")->delimiter(',')->group(g)->allow_extra_args(false);
  app.add_flag("--no-header", no_header, "CSV: no header row; columns are addressed by number from 0")->group(g);
  app.add_option("--delimiter", delimiter, "CSV: between cells [,]")->group(g);
  app.add_option("--separator", separator, "CSV: between the values of one cell")->group(g);
  app.add_option("--positive", o.positive, "CSV: label text that means 1 (repeatable)")->group(g)->allow_extra_args(false);
  app.add_option("--fields", o.fields, "libsvm: bag (all pairs are one bag) or positional (the j-th pair is feature j) [bag]")->group(g);
  app.add_option("--slots", o.slots, "slots, libffm: numbers of the slots or fields to read [all of the training log]")->delimiter(',')->group(g)->allow_extra_args(false);
  app.add_flag("--standardize", o.standardize, "dense columns to mean 0 and deviation 1, fitted on the training rows")->group(g);
  app.add_option("--bucketize", bucketize, "COLUMN:K cuts a dense column into K quantiles as a further feature; COLUMN:K:only drops the number (repeatable)")->group(g)->allow_extra_args(false);
  app.add_flag("--raw-dense", o.raw_dense, "numbers as they are, without the logarithm")->group(g);
  app.add_option("--min-count", o.min_count, "ids seen fewer times in the training rows, or never, share one row per feature")->group(g);
  app.add_option("--shuffle-window", o.shuffle_window, "training rows are permuted within windows of N rows, anew every epoch [0: file order]")->group(g);
  app.add_option("--task", task, "binary or regression [binary]")->group(g);
  app.add_flag("--strict", o.strict, "the first malformed line is an error")->group(g);
  app.add_option("--files", o.files, "shared: all ranks read the same files [shared]")->group(g);
  app.add_option("--synthetic-rows", o.synthetic_rows, "training rows of the synthetic stream [400000]")->group(g);
  app.add_option("--synthetic-valid-rows", o.synthetic_valid_rows, "its rows for validation, and as many for the test [50000]")->group(g);
  app.add_option("--synthetic-vocabulary", o.synthetic_vocabulary, "its ids per feature [100000]")->group(g);
  app.add_option("--synthetic-exponent", o.synthetic_exponent, "its zipf exponent [1.05]")->group(g);

  g = "Model";
  app.add_option("--model", o.model, "logistic, fm, deepfm, dcn or dlrm [dlrm]")->group(g);
  app.add_option("--dim", o.dim, "floats of an embedding [16]")->group(g);
  app.add_option("--hidden", o.hidden, "widths of the hidden layers, A,B,... [deepfm, dcn 256,128; dlrm's top 512,256]")->delimiter(',')->group(g)->allow_extra_args(false);
  app.add_option("--bottom", o.bottom, "dlrm: widths of the layers below [512,256]")->delimiter(',')->group(g)->allow_extra_args(false);
  app.add_option("--cross-layers", o.cross_layers, "dcn [3]")->group(g);
  app.add_option("--cross-rank", o.cross_rank, "dcn: rank of the cross matrices; 0: full [0]")->group(g);
  app.add_option("--embedding-scale", o.embedding_scale, "size of the first embeddings [the model's]")->group(g);
  app.add_option("--codec", o.codec, "format of stored embeddings: float32, bfloat16, float16 or int8, rounded at random [float32]")->group(g);
  app.add_option("--admit-count", o.admit_count, "an id gets its row with its N-th occurrence; before, it reads zeros [1]")->group(g);
  app.add_option("--admit-probability", o.admit_probability, "and from then on with this probability at each occurrence [1]")->group(g);
  app.add_option("--storage", o.storage, "hashed, dense, tiered (memory over a disk) or rocksdb [hashed]")->group(g);
  app.add_option("--memory-budget", o.memory_budget, "storage tiered: bytes that rows of one rank may take in memory; K, M, G; the disk tier's buffers come on top")
      ->group(g)
      ->transform(CLI::AsSizeValue(false));
  app.add_option("--slow-tier", o.slow_tier, "storage tiered: where the other rows are: rocksdb [rocksdb]")->group(g);
  app.add_option("--storage-dir", o.storage_dir, "storage tiered, rocksdb: folder for rows, removed at the end [a place for temporary files]")->group(g);
  app.add_option("--cardinality", o.cardinality, "storage dense: all ids are below N")->group(g);
  app.add_option("--shards", o.shards, "key ranges of a model, fixed for its life [1024]")->group(g);

  g = "Training";
  app.add_option("--batch-size", o.batch_size, "rows of a global batch, over all ranks [2048]")->group(g);
  app.add_option("--epochs", o.epochs, "passes over the data; 0 with --resume only evaluates [1]")->group(g);
  app.add_option("--steps", o.steps, "stop after N global batches [0: no limit]")->group(g);
  app.add_option("--patience", o.patience, "stop after N epochs without a better valid AUC [0: never]")->group(g);
  app.add_option("--seed", o.seed, "of the first parameters, the shuffle and the synthetic stream [1]")->group(g);
  app.add_option("--row-clip", o.row_clip, "largest norm of a row's gradient [0: off]")->group(g);
  app.add_option("--dense-clip", o.dense_clip, "largest global norm of the dense gradient [0: off]")->group(g);
  app.add_option("--warmup-steps", o.warmup_steps, "learning rates rise linearly over N steps [0]")->group(g);
  app.add_option("--decay-start", o.decay_start, "step at which they begin to fall [0]")->group(g);
  app.add_option("--decay-steps", o.decay_steps, "over how many steps they fall [0: never]")->group(g);
  app.add_option("--decay-power", o.decay_power, "of the polynomial [1]")->group(g);
  app.add_option("--decay-end", o.decay_end, "last factor [0]")->group(g);
  auto const row_flags = add_optimizer(app, "", o.rows, "Optimizer of rows");
  auto const dense_flags = add_optimizer(app, "dense-", o.dense_part, "Optimizer of dense parameters");

  g = "Machine";
  app.add_option("--ranks", o.ranks, "threads of this process that train together; under mpirun its processes do [1]")->group(g);
  auto* const micro = app.add_option("--micro-batches", o.micro_batches, "of one rank [1]")->group(g);
  app.add_option("--total-micro-batches", total_micro_batches, "of all ranks: what the results depend on")->group(g)->excludes(micro);
  app.add_option("--schedule", o.schedule, list_of(schedule_names()) + " [nested]")->group(g);
  app.add_option("--look-ahead", o.look_ahead, "batches routed beyond the next, so that storage tiered knows which rows are due [1]")->group(g);
  app.add_option("--early-rows", o.early_rows, "on or off: rows that the last batch does not touch are sent before its update [on]")->group(g);
  app.add_option("--split-backward", o.split_backward, "on or off: gradients of embeddings are sent before those of weights are computed [on]")->group(g);
  app.add_option("--tune-steps", o.tune_steps, "try each on and off of the schedule for N steps, keep the fastest [0: as given]")->group(g);
  app.add_option("--executor", o.executor, "threads (one per lane) or inline [threads]")->group(g);
  app.add_option("--reduction", o.reduction, "ordered (same bits for any number of ranks) or native [ordered]")->group(g);
  app.add_option("--cluster", o.cluster, "off, fast or exact: samples that share ids go to one micro-batch [off]")->group(g);
  app.add_option("--cluster-groups", o.cluster_groups, "samples move only within a group; ranks divide it, it divides all micro-batches [0: the ranks]")->group(g);
  app.add_flag("--reuse-rows", o.reuse_rows, "a row goes to a rank once per batch and stays: fewer bytes, more memory")->group(g);
  app.add_option("--link-latency", o.link_latency, "emulated links between ranks: seconds a message [0: none]")->group(g);
  app.add_option("--link-bandwidth", o.link_bandwidth, "emulated links between ranks: bytes a second [0: no limit]")->group(g);
  app.add_option("--threads", o.threads, "of one rank: so many micro-batches are computed at once; same results [1]")->group(g);

  g = "Results";
  app.add_option("--save", o.save, "directory for a checkpoint of the last state")->group(g);
  app.add_option("--save-every", o.save_every, "then --save is a folder of checkpoints, one every N steps, written while training goes on, and one of the last state [0: only that]")->group(g);
  auto* const keep = app.add_option("--keep", o.keep, "with --save-every: the last N checkpoints stay; 0: all [3]")->group(g);
  app.add_flag("--incremental", o.incremental, "with --save-every: most checkpoints hold only the rows that changed since the one before")->group(g);
  app.add_option("--save-best", o.save_best, "directory for a checkpoint of the best epoch by valid AUC")->group(g);
  app.add_option("--resume", o.resume, "continue from a checkpoint, or from the last one in a folder of them")->group(g);
  app.add_option("--report", o.report, "write a JSON report")->group(g);
  app.add_option("--predict", o.predict, "write row,score of the test rows as CSV")->group(g);
  app.add_option("--trace", o.trace, "write what every lane did as Chrome trace events (the last 2048 of each lane)")->group(g);
  app.add_option("--timeline", o.timeline, "draw a few batches as an SVG")->group(g);
  app.add_flag("--quiet", o.quiet, "no progress lines")->group(g);

  for (CLI::Option* option : app.get_options()) {  // CLI11 lets "-5" wrap around
    if (option->get_type_name() == "UINT") option->check([](std::string const& text) { return text.starts_with('-') ? "a count cannot be negative: " + text : std::string{}; }, "", "");
  }

  try {
    app.parse(argc, argv);
  } catch (CLI::CallForHelp const&) {
    std::cout << app.help();
    result.done = true;
    return result;
  } catch (CLI::CallForVersion const&) {
    std::cout << version << "\n";
    result.done = true;
    return result;
  } catch (CLI::ParseError const& e) {
    throw nestpipe::config_error{e.what(), {}, "train_ctr --help lists the flags"};
  }

  positive("--threads", o.threads);
  one_of("--task", task, {"binary", "regression"});
  o.regression = task == "regression";
  o.header = !no_header;
  if (!delimiter.empty()) o.delimiter = one_character("--delimiter", delimiter);
  if (!separator.empty()) o.separator = one_character("--separator", separator);
  for (auto const& text : bucketize) bucket_text(text, o);
  for (auto const* flags : {&row_flags, &dense_flags}) {
    for (auto const& [option, value] : flags->numbers) number(option->get_name(), option->count() != 0, *value);
  }

  launch const launcher = launched();
  if (launcher.size > 0) {
#if defined(NESTPIPE_WITH_MPI)
    require(app.count("--ranks") == 0 || o.ranks == launcher.size, "--ranks " + std::to_string(o.ranks) + " under an MPI job of " + std::to_string(launcher.size) + " processes", {},
            "leave --ranks out: every process is a rank");
    o.ranks = launcher.size;
    o.mpi = true;
#else
    require(launcher.size == 1, "started by an MPI launcher, but this program was built without MPI", {}, "build with MPI, or use --ranks N for threads");
#endif
  }
  check(o);
  require(o.save_every == 0 || !o.save.empty(), "--save-every needs a folder for its checkpoints", {}, "add --save DIR");
  require(o.save_every != 0 || keep->count() == 0, "--keep belongs to --save-every", {}, "add --save-every N, or leave it out");
  require(o.save_every != 0 || !o.incremental, "--incremental belongs to --save-every", {}, "add --save-every N, or leave it out");
  for (bool const dense : {false, true}) {
    std::string const& name = dense ? o.dense_part.name : o.rows.name;
    auto const known = numbers_of(name);
    for (auto const& [option, value] : (dense ? dense_flags : row_flags).numbers) {
      std::string const flag = option->get_name().substr(dense ? 8 : 2);
      require(option->count() == 0 || std::find(known.begin(), known.end(), flag) != known.end(), option->get_name() + " does nothing with the optimizer " + name, {},
              "leave it out; " + name + " reads " + list_of(known));
    }
  }
  if (app.count("--total-micro-batches") != 0) {
    positive("--total-micro-batches", total_micro_batches);
    require(total_micro_batches % o.ranks == 0, std::to_string(total_micro_batches) + " micro-batches do not divide among " + std::to_string(o.ranks) + " ranks", {},
            "make --total-micro-batches a multiple of the ranks");
    o.micro_batches = total_micro_batches / o.ranks;
  }
  require(o.cluster_groups == 0 || (o.cluster_groups % o.ranks == 0 && o.ranks * o.micro_batches % o.cluster_groups == 0),
          "--cluster-groups " + std::to_string(o.cluster_groups) + " must be a multiple of the " + std::to_string(o.ranks) + " ranks and divide the " +
              std::to_string(o.ranks * o.micro_batches) + " micro-batches",
          {}, "change it, or leave it out");
  return result;
}

}  // namespace train_ctr
