#pragma once
/// @file
/// What an engine is, as a manifest, and what two manifests disagree about.

#include <nestpipe/checkpoint/manifest.hpp>
#include <nestpipe/checkpoint/type_name.hpp>

#include <algorithm>
#include <bit>
#include <charconv>
#include <string>
#include <type_traits>
#include <vector>

namespace nestpipe::checkpoint {

/// Everything about an engine that a manifest holds, without rows, files and digest.
template <class Engine>
manifest describe(Engine& engine, data::data_position position) {
  auto const& c = engine.config();
  manifest m;
  m.step = engine.step();
  m.samples = engine.samples();
  m.seed = c.seed;
  m.shards = c.shards;
  m.batch_size = c.batch_size;
  m.world_size = engine.comm().size();
  m.micro_batches = c.micro_batches * m.world_size;
  m.per_rank_files = c.per_rank_files;
  m.data_transform = c.data_transform;
  m.data_order = c.data_order;
  m.task = c.task;
  m.position = position;
  m.columns = c.schema;
  for (std::size_t t = 0; t < engine.rows().tables(); ++t) {
    auto const& spec = engine.rows().table_spec(t);
    m.tables.push_back({spec, engine.rows().row_floats(t) - spec.dim, 0});
  }
  m.features.assign(c.layout.features().begin(), c.layout.features().end());
  m.policies = {active_policy_name(engine.model()), active_policy_name(engine.rows().optimizer()), active_policy_name(engine.dense().optimizer()),
                m.tables.empty() ? std::string{"none"} : active_policy_name(engine.rows().store(0))};
  for (auto const& p : engine.dense().parameters()) m.parameters.push_back({p.name, p.rows, p.cols, engine.dense().state_size(p.cols)});
  return m;
}

namespace detail {

/// Collects "what: checkpoint a, trainer b", or whatever the two sides are called.
class difference_list {
 public:
  difference_list(std::string left, std::string right) : left_{std::move(left)}, right_{std::move(right)} {}

  template <class A>
  void compare(std::string const& what, A const& saved, A const& now) {
    bool same = saved == now;
    if constexpr (std::is_same_v<A, float>) same = std::bit_cast<std::uint32_t>(saved) == std::bit_cast<std::uint32_t>(now);  // a NaN is like itself
    if (!same) found.push_back(what + ": " + left_ + " " + text(saved) + ", " + right_ + " " + text(now));
  }
  /// Items of both lists by name: those in one list only, and `both(saved, now)` for those in both.
  template <class List, class Name, class Both>
  void match(std::string const& what, List const& saved, List const& now, Name name, Both both) {
    auto const find = [&](List const& list, std::string const& wanted) {
      return std::find_if(list.begin(), list.end(), [&](auto const& x) { return name(x) == wanted; });
    };
    for (auto const& x : saved) {
      auto const other = find(now, name(x));
      if (other == now.end()) {
        found.push_back(what + " " + name(x) + " is missing in the " + right_);
        continue;
      }
      compare(what + " " + name(x) + ", place", static_cast<std::size_t>(&x - saved.data()), static_cast<std::size_t>(other - now.begin()));
      both(what + " " + name(x), x, *other);
    }
    for (auto const& x : now) {
      if (find(saved, name(x)) == saved.end()) found.push_back(what + " " + name(x) + " is missing in the " + left_);
    }
  }
  std::vector<std::string> found;

 private:
  static std::string text(std::string const& s) { return s; }
  static std::string text(float x) {
    char digits[32];
    return {digits, std::to_chars(digits, digits + sizeof digits, x).ptr};
  }
  template <class Integer>
  static std::string text(Integer n) { return std::to_string(n); }

  std::string left_, right_;
};

}  // namespace detail

/// What two manifests disagree about, apart from where training stands: one line each, nothing if models, tables, features,
/// optimizers and parameters are the same. Numbers of ranks, storage, batch size and cardinality do not matter.
inline std::vector<std::string> differences(manifest const& saved, manifest const& now, std::string const& left = "checkpoint", std::string const& right = "trainer") {
  detail::difference_list d{left, right};
  d.compare("model", saved.policies.model, now.policies.model);
  d.compare("optimizer of rows", saved.policies.row_optimizer, now.policies.row_optimizer);
  d.compare("optimizer of dense parameters", saved.policies.dense_optimizer, now.policies.dense_optimizer);
  d.compare("task", std::string{detail::task_name(saved.task)}, std::string{detail::task_name(now.task)});
  d.compare("seed", saved.seed, now.seed);
  d.compare("shards", saved.shards, now.shards);
  d.compare("dense columns", saved.columns.dense, now.columns.dense);
  d.compare("labels", saved.columns.labels, now.columns.labels);
  d.compare("how inputs are made from the data", saved.data_transform, now.data_transform);
  d.match("table", saved.tables, now.tables, [](auto const& t) { return t.spec.name; }, [&](std::string const& what, auto const& a, auto const& b) {
    d.compare(what + ", dim", a.spec.dim, b.spec.dim);
    d.compare(what + ", optimizer state (floats)", a.state_floats, b.state_floats);
    d.compare(what + ", first values", std::string{detail::init_name(a.spec.init.distribution)}, std::string{detail::init_name(b.spec.init.distribution)});
    d.compare(what + ", scale of first values", a.spec.init.scale, b.spec.init.scale);
    d.compare(what + ", leading zeros of first values", a.spec.init.zero_prefix, b.spec.init.zero_prefix);
    d.compare(what + ", value of missing rows", a.spec.missing, b.spec.missing);
  });
  d.match("feature", saved.features, now.features, [](auto const& f) { return f.name; }, [&](std::string const& what, auto const& a, auto const& b) {
    d.compare(what + ", table", a.table, b.table);
    d.compare(what + ", pooling", std::string{detail::pooling_name(a.pooling)}, std::string{detail::pooling_name(b.pooling)});
  });
  d.match("dense parameter", saved.parameters, now.parameters, [](auto const& p) { return p.name; }, [&](std::string const& what, auto const& a, auto const& b) {
    auto const shape = [](auto const& p) { return "(" + std::to_string(p.rows) + ", " + std::to_string(p.cols) + ")"; };
    d.compare(what + ", shape", shape(a), shape(b));
    d.compare(what + ", optimizer state (floats per row)", a.state_floats, b.state_floats);
  });
  return std::move(d.found);
}

/// Why reading cannot go on at the saved position with `now`'s batches and ranks; empty if it can.
inline std::string position_problem(manifest const& saved, manifest const& now) {
  if (saved.position.row == 0) return {};
  if (saved.data_order != now.data_order)
    return "it was saved in the middle of an epoch whose rows came as \"" + saved.data_order + "\", these come as \"" + now.data_order + "\"";
  if (saved.per_rank_files != now.per_rank_files)
    return std::string{"it was saved in the middle of an epoch "} + (saved.per_rank_files ? "with" : "without") + " files per rank";
  if (saved.per_rank_files && saved.world_size != now.world_size)
    return "it was saved in the middle of an epoch with files per rank by " + std::to_string(saved.world_size) + " ranks, these are " + std::to_string(now.world_size);
  std::uint64_t const rows = now.per_rank_files ? now.batch_size / now.world_size : now.batch_size;
  if (saved.position.row % rows == 0) return {};
  return "its reader stands at row " + std::to_string(saved.position.row) + ", which is no whole number of batches of " + std::to_string(rows) +
         " rows (it was saved with batch size " + std::to_string(saved.batch_size) + ")";
}

}  // namespace nestpipe::checkpoint
