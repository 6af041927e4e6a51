#pragma once
/// @file
/// A figure of Google Benchmark beside its limit: the two run in turn, so that both see the same machine.

#include "clock.hpp"

#include <benchmark/benchmark.h>

#include <utility>

namespace nestpipe::bench {

/// Each iteration times figure() and limit(); the counters are `rate` and `limit` (units per second, medians), `ratio` and, where the
/// limit is a promise, `bar`: what the ratio must reach, or, when it is larger than 10, what the rate must. Register with UseManualTime() and at least seven iterations.
/// @param units       what one call of figure() handles  @param limit_units  the same for limit()
template <class Figure, class Limit>
void beside(benchmark::State& state, double units, Figure&& figure, double limit_units, Limit&& limit, double bar = 0) {
  std::vector<double> ours, theirs;
  figure();  // first calls allocate
  limit();
  for (auto _ : state) {
    ours.push_back(seconds_of(figure));
    theirs.push_back(seconds_of(limit));
    state.SetIterationTime(ours.back());
  }
  double const rate = units / median(std::move(ours));
  double const most = limit_units / median(std::move(theirs));
  state.counters["rate"] = rate;
  state.counters["limit"] = most;
  state.counters["ratio"] = rate / most;
  if (bar > 0) state.counters["bar"] = bar;
}

}  // namespace nestpipe::bench
