#pragma once
/// @file
/// Checking and comparing checkpoints without a model.

#include <nestpipe/checkpoint/chain.hpp>
#include <nestpipe/checkpoint/dense_file.hpp>
#include <nestpipe/checkpoint/describe.hpp>
#include <nestpipe/checkpoint/directory.hpp>
#include <nestpipe/checkpoint/manifest_text.hpp>
#include <nestpipe/checkpoint/rows_file.hpp>
#include <nestpipe/engine/dense_part.hpp>

#include <algorithm>
#include <bit>
#include <cmath>
#include <filesystem>
#include <numeric>
#include <string>
#include <vector>

namespace nestpipe::checkpoint {

namespace detail {

/// Dense values and state, flat.
struct dense_arrays {
  std::vector<float> values, state;
};
inline dense_arrays read_all_dense(std::filesystem::path const& directory, manifest const& m) {
  std::uint64_t values = 0;
  std::uint64_t state = 0;
  for (auto const& p : m.parameters) {
    values += p.rows * p.cols;
    state += p.rows * p.state_floats;
  }
  dense_arrays d;
  d.values.resize(values);
  d.state.resize(state);
  read_dense(directory / dense_name, m.dense_file, m.parameters, d.values, d.state);
  return d;
}

/// All rows of a table, by ascending key.
struct whole_table {
  std::vector<key_type> keys;
  std::vector<float> rows;  ///< (n, row floats), in file order
  std::vector<std::size_t> order;  ///< places by ascending key
};
inline whole_table read_table(std::vector<chain_link> const& chain, std::uint64_t table) {
  whole_table t;
  table_entry const& spec = chain.back().saved.tables[table];
  std::size_t const width = spec.spec.dim + spec.state_floats;
  for_each_file(chain, table, [&](rows_block const& b, std::span<std::uint8_t const> live) {
    for (std::size_t i = 0; i < live.size(); ++i) {
      if (live[i] == 0) continue;
      t.keys.push_back(b.keys[i]);
      t.rows.insert(t.rows.end(), b.rows.data() + i * width, b.rows.data() + (i + 1) * width);
    }
  });
  t.order.resize(t.keys.size());
  std::iota(t.order.begin(), t.order.end(), std::size_t{0});
  std::sort(t.order.begin(), t.order.end(), [&](std::size_t a, std::size_t b) { return t.keys[a] < t.keys[b]; });
  return t;
}

/// Reads every byte of one directory, its parents left out.
inline void verify_link(std::filesystem::path const& directory, manifest const& m, std::vector<std::string>& problems) {
  std::size_t const before_this = problems.size();
  digest sum;
  try {
    dense_arrays const d = read_all_dense(directory, m);
    std::span<float const> values{d.values};
    std::span<float const> state{d.state};
    for (std::uint32_t i = 0; i < m.parameters.size(); ++i) {
      auto const& p = m.parameters[i];
      sum.add(engine::dense_stream + i, 0, values.first(p.rows * p.cols));
      sum.add(engine::dense_stream + i, 1, state.first(p.rows * p.state_floats));
      values = values.subspan(p.rows * p.cols);
      state = state.subspan(p.rows * p.state_floats);
    }
  } catch (error const& e) {
    problems.emplace_back(e.what());
  }
  std::vector<std::string> names{manifest_name, dense_name};
  std::vector<std::uint64_t> rows(m.tables.size(), 0);
  rows_reader reader;
  for (auto const& f : m.files) {
    names.push_back(f.name);
    rows[f.table] += f.rows;
    try {
      rows_place const place = place_of_file(m, f);
      rows_block const& b = reader.read(directory, place, f);
      bool sorted = true;
      for (std::size_t i = 0; i < b.keys.size(); ++i) {
        sum.add(place.table, b.keys[i], {b.rows.data() + i * place.row_floats, place.row_floats});
        if (i == 0) continue;
        std::uint32_t const before = shard_of(place.table, b.keys[i - 1], place.shards);
        std::uint32_t const now = shard_of(place.table, b.keys[i], place.shards);
        sorted = sorted && (before < now || (before == now && b.keys[i - 1] < b.keys[i]));
      }
      if (!sorted) problems.push_back("rows are not sorted by shard and key (" + (directory / f.name).string() + ")");
    } catch (error const& e) {
      problems.emplace_back(e.what());
    }
  }
  for (std::size_t t = 0; t < rows.size() && m.parent.directory.empty(); ++t) {
    if (rows[t] != m.tables[t].rows)
      problems.push_back("table " + m.tables[t].spec.name + " has " + std::to_string(rows[t]) + " rows in files, the manifest says " + std::to_string(m.tables[t].rows));
  }
  for (auto const& entry : std::filesystem::directory_iterator{directory}) {
    if (std::find(names.begin(), names.end(), entry.path().filename().string()) == names.end())
      problems.push_back("a file that the manifest does not name (" + entry.path().string() + ")");
  }
  if (problems.size() == before_this && sum != m.digest_of_all)
    problems.push_back("the files have digest " + sum.text() + ", the manifest says " + m.digest_of_all.text() + " (" + directory.string() + ")");
}

}  // namespace detail

/// Reads every byte of a checkpoint, and of those that a delta is made from. @return what is wrong, one line each; nothing if it is whole
inline std::vector<std::string> verify(std::filesystem::path const& given) {
  std::vector<std::string> problems;
  std::vector<chain_link> chain;
  try {
    chain = read_chain(given);
  } catch (error const& e) {
    return {e.what()};
  }
  for (auto const& link : chain) detail::verify_link(link.directory, link.saved, problems);
  if (chain.size() == 1 || !problems.empty()) return problems;
  manifest const& m = chain.back().saved;
  for (auto const& link : chain) {
    for (auto const& d : differences(link.saved, m, "parent", "delta")) problems.push_back(d + " (" + link.directory.string() + ")");
  }
  for (std::size_t t = 0; t < m.tables.size() && problems.empty(); ++t) {
    std::uint64_t rows = 0;
    detail::for_each_file(chain, t, [&](rows_block const&, std::span<std::uint8_t const> live) { rows += static_cast<std::uint64_t>(std::count(live.begin(), live.end(), std::uint8_t{1})); });
    if (rows != m.tables[t].rows)
      problems.push_back("table " + m.tables[t].spec.name + " has " + std::to_string(rows) + " rows in the chain, the manifest says " + std::to_string(m.tables[t].rows));
  }
  return problems;
}

/// How the floats of a table or of a dense parameter differ.
struct array_comparison {
  std::string name;
  std::uint64_t first_only = 0;   ///< rows
  std::uint64_t second_only = 0;
  std::uint64_t changed = 0;      ///< rows of both with any bit different, optimizer state included
  std::uint64_t equal = 0;
  double largest = 0;             ///< largest absolute difference of embeddings or values (not of state)
  bool same() const { return first_only == 0 && second_only == 0 && changed == 0; }
};

struct comparison {
  std::vector<std::string> settings;         ///< see differences()
  std::vector<array_comparison> tables;      ///< those that both have, with equal widths
  std::vector<array_comparison> parameters;
  bool same() const {
    auto const fine = [](auto const& list) { return std::all_of(list.begin(), list.end(), [](auto const& a) { return a.same(); }); };
    return settings.empty() && fine(tables) && fine(parameters);
  }
};

namespace detail {

/// @param width  floats of both rows  @param shown  of these the largest difference is taken
inline void compare_row(float const* a, float const* b, std::size_t width, std::size_t shown, array_comparison& c) {
  bool equal = true;
  for (std::size_t i = 0; i < width; ++i) {
    equal = equal && std::bit_cast<std::uint32_t>(a[i]) == std::bit_cast<std::uint32_t>(b[i]);
    if (i < shown) c.largest = std::max(c.largest, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
  }
  ++(equal ? c.equal : c.changed);
}

}  // namespace detail

/// Compares bit by bit. One table of both is in memory at a time. @throws data_error if one of them is damaged
inline comparison compare(std::filesystem::path const& first, std::filesystem::path const& second) {
  std::vector<chain_link> const chain_a = read_chain(first);
  std::vector<chain_link> const chain_b = read_chain(second);
  std::filesystem::path const& da = chain_a.back().directory;
  std::filesystem::path const& db = chain_b.back().directory;
  manifest const& a = chain_a.back().saved;
  manifest const& b = chain_b.back().saved;
  comparison result{differences(a, b, "first", "second"), {}, {}};
  for (std::size_t ta = 0; ta < a.tables.size(); ++ta) {
    for (std::size_t tb = 0; tb < b.tables.size(); ++tb) {
      auto const& sa = a.tables[ta];
      auto const& sb = b.tables[tb];
      if (sa.spec.name != sb.spec.name || sa.spec.dim != sb.spec.dim || sa.state_floats != sb.state_floats) continue;
      std::size_t const width = sa.spec.dim + sa.state_floats;
      auto const x = detail::read_table(chain_a, ta);
      auto const y = detail::read_table(chain_b, tb);
      array_comparison c;
      c.name = sa.spec.name;
      std::size_t i = 0;
      std::size_t j = 0;
      while (i < x.order.size() || j < y.order.size()) {
        if (j == y.order.size() || (i < x.order.size() && x.keys[x.order[i]] < y.keys[y.order[j]])) {
          ++c.first_only, ++i;
        } else if (i == x.order.size() || y.keys[y.order[j]] < x.keys[x.order[i]]) {
          ++c.second_only, ++j;
        } else {
          detail::compare_row(x.rows.data() + x.order[i++] * width, y.rows.data() + y.order[j++] * width, width, sa.spec.dim, c);
        }
      }
      result.tables.push_back(std::move(c));
    }
  }
  detail::dense_arrays const x = detail::read_all_dense(da, a);
  detail::dense_arrays const y = detail::read_all_dense(db, b);
  std::size_t xv = 0, xs = 0;
  for (auto const& p : a.parameters) {
    std::size_t yv = 0, ys = 0;
    for (auto const& q : b.parameters) {
      if (p.name == q.name && p.rows == q.rows && p.cols == q.cols && p.state_floats == q.state_floats) {
        array_comparison c;
        c.name = p.name;
        std::vector<float> rx, ry;
        for (std::size_t r = 0; r < p.rows; ++r) {
          auto const row = [&](detail::dense_arrays const& d, std::size_t v, std::size_t s, std::vector<float>& out) {
            auto const value = d.values.begin() + static_cast<std::ptrdiff_t>(v + r * p.cols);
            auto const state = d.state.begin() + static_cast<std::ptrdiff_t>(s + r * p.state_floats);
            out.assign(value, value + static_cast<std::ptrdiff_t>(p.cols));
            out.insert(out.end(), state, state + static_cast<std::ptrdiff_t>(p.state_floats));
          };
          row(x, xv, xs, rx);
          row(y, yv, ys, ry);
          detail::compare_row(rx.data(), ry.data(), rx.size(), p.cols, c);
        }
        result.parameters.push_back(std::move(c));
      }
      yv += q.rows * q.cols;
      ys += q.rows * q.state_floats;
    }
    xv += p.rows * p.cols;
    xs += p.rows * p.state_floats;
  }
  return result;
}

}  // namespace nestpipe::checkpoint
