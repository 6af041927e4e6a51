#pragma once
/// @file
/// Time of one call, and the middle of several.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <vector>

namespace nestpipe::bench {

/// Seconds that f() takes.
template <class F>
double seconds_of(F&& f) {
  auto const start = std::chrono::steady_clock::now();
  f();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
}

/// Middle element; 0 of none.
inline double median(std::vector<double> values) {
  if (values.empty()) return 0;
  auto const middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

/// Median seconds of `reps` calls f(rep), after one that is not counted.
template <class F>
double median_seconds(std::size_t reps, F&& f) {
  f(std::size_t{0});
  std::vector<double> taken;
  for (std::size_t r = 0; r < reps; ++r) taken.push_back(seconds_of([&] { f(r); }));
  return median(std::move(taken));
}

/// Keeps the compiler from dropping what was written behind `p`.
inline void keep(void const* p) { asm volatile("" : : "g"(p) : "memory"); }

}  // namespace nestpipe::bench
