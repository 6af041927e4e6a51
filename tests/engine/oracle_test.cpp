// Whole steps against double precision: maps for tables, one loop over the samples of the global batch, optimizers written
// from their formulas. Shares with the library the models (in double, on plain loops) and the first values of rows.
#include <doctest/doctest.h>

#include <nestpipe/comm/threads.hpp>
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/any_of.hpp>
#include <nestpipe/model/dlrm.hpp>
#include <nestpipe/model/fm.hpp>
#include <nestpipe/model/logistic.hpp>
#include <nestpipe/optimizer/adagrad.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/optimizer/any_of.hpp>
#include <nestpipe/optimizer/rowwise_adagrad.hpp>
#include <nestpipe/optimizer/sgd.hpp>
#include <nestpipe/schedule/nested.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/trainer.hpp>

#include <support/click_stream.hpp>
#include <support/sequence_model.hpp>

#include <cmath>
#include <map>
#include <string>
#include <vector>

namespace np = nestpipe;
using np::key_type;
using np::pooling;
using np::math::plain;

namespace {

template <class Scalar>
using models = np::model::any_of<np::model::logistic<Scalar, plain>, np::model::fm<Scalar, plain>, np::model::dlrm<Scalar, plain>, np::test::sequence_model<Scalar>>;
using optimizers = np::optimizer::any_of<np::optimizer::sgd, np::optimizer::adagrad, np::optimizer::rowwise_adagrad, np::optimizer::adam>;

std::string const model_names[] = {"logistic", "fm", "dlrm", "sequence"};
std::string const optimizer_names[] = {"sgd", "adagrad", "rowwise_adagrad", "adam"};
constexpr double rate = 0.02;

template <class Scalar>
models<Scalar> make_model(std::size_t which) {
  switch (which) {
    case 0: return np::model::logistic<Scalar, plain>{};
    case 1: return np::model::fm<Scalar, plain>{{1, 0.1f}};
    case 2: return np::model::dlrm<Scalar, plain>{{{12}, {10}, 0.2f}};
    default: return np::test::sequence_model<Scalar>{};
  }
}

optimizers make_optimizer(std::size_t which) {
  switch (which) {
    case 0: return np::optimizer::sgd{.rate = rate};
    case 1: return np::optimizer::adagrad{.rate = rate, .eps = 1e-8};
    case 2: return np::optimizer::rowwise_adagrad{.rate = rate};
    default: return np::optimizer::adam{.rate = rate};
  }
}

/// Parameters of one row or one dense array with their optimizer state, all in double.
struct values {
  std::vector<double> w, s, m;
  std::vector<bool> clear;  ///< every gradient so far was large enough to be judged
  double way = 0;           ///< sum of the sizes of all updates of a single number
};

/// One update from the formulas; `row_length` numbers share one accumulator under rowwise_adagrad.
void update(std::size_t which, values& v, std::vector<double> const& g, std::uint64_t step, std::size_t row_length) {
  std::size_t const n = v.w.size();
  v.s.resize(n, 0.0);
  v.m.resize(n, 0.0);
  if (which == 0) {
    for (std::size_t i = 0; i < n; ++i) v.w[i] -= rate * g[i];
  } else if (which == 1) {
    for (std::size_t i = 0; i < n; ++i) {
      v.s[i] += g[i] * g[i];
      v.w[i] -= rate * g[i] / (std::sqrt(v.s[i]) + 1e-8);
    }
  } else if (which == 2) {
    for (std::size_t r = 0; r < n; r += row_length) {
      double mean = 0;
      for (std::size_t i = r; i < r + row_length; ++i) mean += g[i] * g[i] / static_cast<double>(row_length);
      v.s[r] += mean;
      for (std::size_t i = r; i < r + row_length; ++i) v.w[i] -= rate / (std::sqrt(v.s[r]) + 1e-8) * g[i];
    }
  } else {
    double const t = static_cast<double>(step);
    for (std::size_t i = 0; i < n; ++i) {
      v.m[i] = 0.9 * v.m[i] + 0.1 * g[i];
      v.s[i] = 0.999 * v.s[i] + 0.001 * g[i] * g[i];
      v.w[i] -= rate * (v.m[i] / (1 - std::pow(0.9, t))) / (std::sqrt(v.s[i] / (1 - std::pow(0.999, t))) + 1e-8);
    }
  }
}

struct oracle {
  np::embedding_layout layout;
  std::size_t which_optimizer;
  std::uint64_t seed;
  models<double> model;
  std::map<std::pair<std::size_t, key_type>, values> rows;
  values dense;
  double loss = 0;

  values& row(std::size_t t, key_type key) {
    auto const [at, fresh] = rows.try_emplace({t, key});
    if (fresh) {
      std::vector<float> first(layout.tables()[t].dim);
      layout.tables()[t].init(seed, static_cast<std::uint32_t>(t), key, first.data(), first.size());
      at->second.w.assign(first.begin(), first.end());
      at->second.clear.assign(first.size(), true);
    }
    return at->second;
  }

  void step(np::sample_block const& b, std::uint64_t number) {
    std::size_t const n = b.samples, width = layout.pooled_width();
    auto const weight = [&](std::size_t p) { return b.ids.weights.empty() ? 1.0 : static_cast<double>(b.ids.weights[p]); };
    std::vector<double> pooled(n * width, 0.0), d_pooled(n * width, 0.0), dense_in(b.dense.begin(), b.dense.end()), labels(b.labels.begin(), b.labels.end());
    std::vector<std::vector<double>> sequences, d_sequences;
    std::vector<std::vector<std::uint32_t>> offsets;
    for (std::size_t f = 0; f < layout.features().size(); ++f) {
      std::size_t const t = layout.table_of(f), dim = layout.dim_of_feature(f);
      pooling const kind = layout.features()[f].pooling;
      if (kind == pooling::none) {
        sequences.emplace_back();
        offsets.push_back({0});
      }
      for (std::size_t i = 0; i < n; ++i) {
        std::size_t const first = b.ids.offsets[f * n + i], last = b.ids.offsets[f * n + i + 1];
        for (std::size_t p = first; p < last; ++p) {
          values const& r = row(t, b.ids.values[p]);
          for (std::size_t k = 0; k < dim; ++k) {
            double const x = weight(p) * r.w[k];
            double* const out = pooled.data() + i * width + layout.column(f);
            if (kind == pooling::none) sequences.back().push_back(r.w[k]);
            if (kind == pooling::sum || kind == pooling::sum_and_squares) out[k] += x;
            if (kind == pooling::mean) out[k] += x / static_cast<double>(last - first);
            if (kind == pooling::sum_and_squares) out[dim + k] += x * x;
          }
        }
        if (kind == pooling::none) offsets.back().push_back(static_cast<std::uint32_t>(sequences.back().size() / dim));
      }
    }
    for (auto const& s : sequences) d_sequences.emplace_back(s.size(), 0.0);
    std::vector<np::model::sequence<double const>> in;
    std::vector<np::model::sequence<double>> out;
    std::size_t q = 0;
    for (std::size_t f = 0; f < layout.features().size(); ++f) {
      if (layout.features()[f].pooling != pooling::none) continue;
      in.push_back({offsets[q], sequences[q].data(), layout.dim_of_feature(f)});
      out.push_back({offsets[q], d_sequences[q].data(), layout.dim_of_feature(f)});
      ++q;
    }
    np::model::model_batch<double> batch;
    batch.samples = n;
    batch.dense = dense_in.data();
    batch.pooled = pooled.data();
    batch.sequences = in;
    batch.labels = labels.data();
    models<double>::workspace ws;
    std::vector<double> logits(n), d_logits(n), d_dense(dense.w.size());
    model.forward(dense.w.data(), batch, ws, logits.data());
    loss = model.loss(batch, logits.data(), 1.0 / static_cast<double>(n), d_logits.data()) / static_cast<double>(n);
    model.backward_inputs(dense.w.data(), batch, ws, d_logits.data(), {d_pooled.data(), out});
    model.backward_weights(dense.w.data(), batch, ws, d_logits.data(), d_dense.data());

    std::map<std::pair<std::size_t, key_type>, std::vector<double>> gradients;
    q = 0;
    for (std::size_t f = 0; f < layout.features().size(); ++f) {
      std::size_t const t = layout.table_of(f), dim = layout.dim_of_feature(f);
      pooling const kind = layout.features()[f].pooling;
      for (std::size_t i = 0; i < n; ++i) {
        std::size_t const first = b.ids.offsets[f * n + i], last = b.ids.offsets[f * n + i + 1];
        for (std::size_t p = first; p < last; ++p) {
          std::vector<double>& g = gradients[{t, b.ids.values[p]}];
          g.resize(dim, 0.0);
          double const w = weight(p);
          double const* const d = d_pooled.data() + i * width + layout.column(f);
          for (std::size_t k = 0; k < dim; ++k) {
            if (kind == pooling::none) g[k] += d_sequences[q][(p - b.ids.offsets[f * n]) * dim + k];
            if (kind == pooling::sum) g[k] += w * d[k];
            if (kind == pooling::mean) g[k] += w * d[k] / static_cast<double>(last - first);
            if (kind == pooling::sum_and_squares) g[k] += w * d[k] + 2 * w * w * row(t, b.ids.values[p]).w[k] * d[dim + k];
          }
        }
      }
      q += kind == pooling::none ? 1 : 0;
    }
    std::vector<double> square(layout.tables().size(), 0.0), count(layout.tables().size(), 0.0);
    for (auto const& [at, g] : gradients) {
      for (double const x : g) {
        square[at.first] += x * x;
        count[at.first] += 1;
      }
    }
    for (auto const& [at, g] : gradients) {
      values& r = row(at.first, at.second);
      for (std::size_t k = 0; k < g.size(); ++k) {
        if (std::abs(g[k]) <= 1e-4 * std::sqrt(square[at.first] / count[at.first])) r.clear[k] = false;
      }
      double const before = r.w[0];
      update(which_optimizer, r, g, number, g.size());
      r.way += std::abs(r.w[0] - before);
    }
    update(0, dense, d_dense, number, 1);  // the dense part trains with sgd
  }
};

np::test::click_stream stream() {
  np::test::stream_options o;
  o.rows = 60 * 4 + 17;
  o.weighted = true;
  o.key_range = 60;
  return np::test::click_stream{o};
}

np::trainer_config config_for(std::size_t model) {
  np::trainer_config c;
  c.batch_size = 60;
  c.seed = 4;
  c.dim = 8;
  if (model == 3) {
    np::row_init const init{np::row_init::kind::normal, 0.3f, 0};
    c.tables = {{"a", 4, init}, {"b", 3, init}, {"c", 17, init}};
    c.features = {{"f0", "a", pooling::none}, {"f1", "b", pooling::mean}, {"f2", "a", pooling::sum}, {"f3", "c", pooling::none}, {"f4", "b", pooling::none}};
  }
  return c;
}

struct deviation {
  double rows = 0, dense = 0, loss = 0;
  std::size_t judged = 0, all = 0;
};

deviation compare(std::size_t which_model, std::size_t which_optimizer, std::size_t ranks) {
  deviation worst;
  std::mutex mutex;
  std::map<std::pair<std::size_t, key_type>, std::vector<float>> trained;
  std::vector<float> dense;
  std::vector<double> losses;
  oracle reference;
  np::comm::threads::run(ranks, [&](np::comm::threads& comm) {
    using trainer_type = np::trainer<models<float>, np::storage::hashed<>, np::comm::threads, np::schedule::nested, optimizers, np::optimizer::sgd>;
    np::trainer_config c = config_for(which_model);
    c.micro_batches = 6 / ranks;
    if (comm.rank() == 0) c.on_step = [&](np::progress const& p) { losses.push_back(p.loss); };
    typename trainer_type::policies p;
    p.model = make_model<float>(which_model);
    p.row_optimizer = make_optimizer(which_optimizer);
    p.dense_optimizer.rate = rate;
    trainer_type t{c, comm, p};
    t.attach(stream().schema());
    if (comm.rank() == 0) {
      auto const& e = t.engine();
      reference.layout = e.config().layout;
      reference.which_optimizer = which_optimizer;
      reference.seed = c.seed;
      reference.model = make_model<double>(which_model);
      reference.model.attach({e.config().schema, e.config().layout, c.task});
      reference.dense.w.assign(e.dense().values().begin(), e.dense().values().end());
    }
    t.fit(stream());
    std::lock_guard lock{mutex};
    for (std::size_t table = 0; table < t.engine().rows().tables(); ++table) {
      np::storage::for_each(t.engine().rows().store(table), [&](key_type key, std::span<float const> row) {
        trained[{table, key}].assign(row.begin(), row.begin() + static_cast<std::ptrdiff_t>(t.engine().config().layout.tables()[table].dim));
      });
    }
    if (comm.rank() == 0) dense.assign(t.engine().dense().values().begin(), t.engine().dense().values().end());
  });

  np::test::click_stream data = stream();
  np::test::click_stream::block block;
  np::sample_block samples;
  for (std::uint64_t number = 1; data.frame(block, 60) != 0; ++number) {
    data.parse(block, 0, block.size(), samples);
    reference.step(samples, number);
    worst.loss = std::max(worst.loss, std::abs(losses[number - 1] - reference.loss) / std::abs(reference.loss));
  }
  REQUIRE(trained.size() == reference.rows.size());
  for (auto const& [at, row] : trained) {
    REQUIRE(reference.rows.count(at) == 1);
    values const& r = reference.rows.at(at);
    double error = 0, size = 0;
    for (std::size_t k = 0; k < row.size(); ++k) {
      ++worst.all;
      if (which_optimizer != 0 && !r.clear[k]) continue;
      ++worst.judged;
      error += std::pow(static_cast<double>(row[k]) - r.w[k], 2);
      size += r.w[k] * r.w[k];
    }
    // A row of one number that started at zero and came back near it has nothing to be relative to but its way.
    if (row.size() == 1) size = std::max(size, r.way * r.way);
    if (size > 0) worst.rows = std::max(worst.rows, std::sqrt(error / size));
  }
  double error = 0, size = 0;
  for (std::size_t i = 0; i < dense.size(); ++i) {
    error += std::pow(static_cast<double>(dense[i]) - reference.dense.w[i], 2);
    size += std::pow(reference.dense.w[i], 2);
  }
  worst.dense = std::sqrt(error / size);
  return worst;
}

}  // namespace

TEST_CASE("rows and dense parameters after five steps against double precision") {
  for (std::size_t m = 0; m < 4; ++m) {
    for (std::size_t o = 0; o < 4; ++o) {
      deviation const off = compare(m, o, 1 + (m + o) % 3);
      INFO(model_names[m] << ", " << optimizer_names[o] << ": rows " << off.rows << ", dense " << off.dense << ", loss " << off.loss << ", judged " << off.judged << " of " << off.all);
      CHECK(off.rows <= 1e-5);
      CHECK(off.dense <= 1e-5);
      CHECK(off.loss <= 1e-5);
      CHECK(off.judged * 10 >= off.all * 9);  // or the test would say nothing
      MESSAGE(model_names[m] << ", " << optimizer_names[o] << ": relative deviation of rows " << off.rows << ", dense " << off.dense << "; " << off.judged << " of " << off.all
                             << " numbers judged");
    }
  }
}

TEST_CASE("rows that a batch does not touch keep their bits, and are not created") {
  np::test::stream_options few;
  few.rows = 90;
  few.key_range = 20;
  few.seed = 8;
  using trainer_type = np::trainer<models<float>, np::storage::hashed<>, np::comm::threads, np::schedule::nested, optimizers, np::optimizer::adam>;
  for (std::size_t o = 0; o < 4; ++o) {
    np::comm::threads::run(2, [&](np::comm::threads& comm) {
      np::trainer_config c = config_for(2);
      c.epochs = 2;
      typename trainer_type::policies p;
      p.model = make_model<float>(2);
      p.row_optimizer = make_optimizer(o);
      trainer_type t{c, comm, p};
      t.fit(stream(), [](std::uint64_t, np::fit_result const&) { return false; });  // one epoch
      auto const rows = [&] {
        std::map<std::pair<std::size_t, key_type>, std::vector<float>> all;
        for (std::size_t table = 0; table < t.engine().rows().tables(); ++table) {
          np::storage::for_each(t.engine().rows().store(table), [&](key_type key, std::span<float const> row) { all[{table, key}].assign(row.begin(), row.end()); });
        }
        return all;
      };
      auto const before = rows();
      t.fit(np::test::click_stream{few});  // the second epoch, on other data
      auto const after = rows();
      std::map<std::pair<std::size_t, key_type>, int> touched;
      np::test::click_stream data{few};
      np::test::click_stream::block block;
      np::sample_block samples;
      while (data.frame(block, 60) != 0) {
        data.parse(block, 0, block.size(), samples);
        for (std::size_t f = 0; f < samples.ids.features; ++f) {
          for (std::size_t k = samples.ids.offsets[f * samples.samples]; k < samples.ids.offsets[(f + 1) * samples.samples]; ++k) touched[{f, samples.ids.values[k]}] = 1;
        }
      }
      std::size_t kept = 0, moved = 0;
      for (auto const& [at, row] : after) {
        auto const old = before.find(at);
        if (touched.count(at) != 0) {
          moved += old != before.end() && old->second != row ? 1 : 0;
          continue;
        }
        REQUIRE(old != before.end());
        CHECK(std::memcmp(old->second.data(), row.data(), row.size() * sizeof(float)) == 0);
        ++kept;
      }
      CHECK(kept > 20);
      CHECK(moved > 5);
    });
  }
}
