#pragma once
/// @file
/// Where numbers stopped being finite, for the message of a run that diverged.

#include <nestpipe/core/schema.hpp>
#include <nestpipe/embedding/micro_route.hpp>

#include <cmath>
#include <span>
#include <string>

namespace nestpipe::engine {

/// The first table of which a micro-batch reads a row that is not finite; the number of tables when all are. O(entries * dim).
/// @param rows  the landing buffer
inline std::size_t table_not_finite(embedding_layout const& layout, embedding::micro_route const& route, float const* rows) {
  std::size_t const tables = layout.tables().size();
  for (std::size_t t = 0; t < tables; ++t) {
    std::size_t const dim = layout.tables()[t].dim;
    for (std::size_t e = route.table_entry[t]; e < route.table_entry[t + 1]; ++e) {
      for (std::size_t i = 0; i < dim; ++i) {
        if (!std::isfinite(rows[route.landing()[e] + i])) return t;
      }
    }
  }
  return tables;
}

/// ", <what> <name>" of the first dense parameter that is not finite any more, or else the table that `table_not_finite` found on this
/// rank, or else the first dense gradient, which all ranks see; empty when all are finite.
/// @param table  number of tables: none
template <class Dense>
std::string where_not_finite(std::span<float const> gradient, Dense const& dense, embedding_layout const& layout, std::size_t table) {
  auto const first_bad = [&](auto const& values) -> std::string {
    std::size_t at = 0;
    for (auto const& p : dense.parameters()) {
      for (std::size_t i = 0; i < p.size(); ++i) {
        if (!std::isfinite(values[at + i])) return "dense parameter " + p.name;
      }
      at += p.size();
    }
    return {};
  };
  if (auto const name = first_bad(dense.values()); !name.empty()) return ", " + name;
  if (table < layout.tables().size()) return ", table " + layout.tables()[table].name;
  if (auto const name = first_bad(gradient); !name.empty()) return ", gradient of " + name;
  return {};
}

}  // namespace nestpipe::engine
