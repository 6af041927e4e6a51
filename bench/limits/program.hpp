#pragma once
/// @file
/// main() of a benchmark program: a short set of cases, or with --full all of its sweeps.

#include <benchmark/benchmark.h>

#include <string_view>

namespace nestpipe::bench {

/// @param register_cases  called with whether --full was given
template <class F>
int program(int argc, char** argv, F&& register_cases) {
  bool full = false;
  int kept = 0;
  for (int i = 0; i < argc; ++i) {
    if (std::string_view{argv[i]} == "--full") {
      full = true;
    } else {
      argv[kept++] = argv[i];
    }
  }
  register_cases(full);
  benchmark::Initialize(&kept, argv);
  if (benchmark::ReportUnrecognizedArguments(kept, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}

}  // namespace nestpipe::bench
