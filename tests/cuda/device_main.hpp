#pragma once
/// @file
/// main() of device tests. Exits 77 (skipped) with --skip-without-device, else 1, when there is no device. One source of each program includes it.

#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <nestpipe/exec/cuda/buffer.cuh>

#include <cstdio>
#include <cstring>

int main(int argc, char** argv) {
  bool const skip = argc > 1 && std::strcmp(argv[1], "--skip-without-device") == 0;
  try {
    nestpipe::exec::require_cuda_device();
    nestpipe::exec::keep_device_memory();
  } catch (std::exception const& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return skip ? 77 : 1;
  }
  doctest::Context context;
  context.applyCommandLine(argc, argv);
  return context.run();
}
