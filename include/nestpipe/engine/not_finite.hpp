#pragma once
/// @file
/// Where numbers stopped being finite, for the message of a run that diverged.

#include <nestpipe/embedding/window.hpp>

#include <cmath>
#include <span>
#include <string>

namespace nestpipe::engine {

/// ", <what> <name>" of the first dense parameter that is not finite any more, or else the first table of this rank's window of the
/// batch (the other window may be filling), or else the first dense gradient, which all ranks see; empty when all are finite.
template <class Dense, class Rows, class Window>
std::string where_not_finite(std::span<float const> gradient, Dense const& dense, Rows const& rows, Window const& w) {
  std::size_t at = 0;
  for (auto const& p : dense.parameters()) {
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (!std::isfinite(dense.values()[at + i])) return ", dense parameter " + p.name;
    }
    at += p.size();
  }
  for (std::size_t t = 0; t < rows.tables(); ++t) {
    if constexpr (requires { w.rows(t); }) {  // rows in device memory are left out
      float const* const values = w.rows(t);
      for (std::size_t i = 0; i < w.slots(t) * w.row_floats(t); ++i) {
        if (!std::isfinite(values[i])) return ", table " + rows.table_spec(t).name;
      }
    }
  }
  at = 0;
  for (auto const& p : dense.parameters()) {
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (!std::isfinite(gradient[at + i])) return ", gradient of dense parameter " + p.name;
    }
    at += p.size();
  }
  return {};
}

}  // namespace nestpipe::engine
