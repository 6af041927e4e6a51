// Every device test in one program, for nvcc spends its time on headers: the sources that also run on the emulated device.
// Exits 77 (skipped) with --skip-without-device, else 1, when there is none.
#define DOCTEST_CONFIG_IMPLEMENT
#include <doctest/doctest.h>

#include <nestpipe/exec/cuda/buffer.cuh>

#include "../embedding/cuda_kernels_test.cpp"
#include "../exec/cuda_lanes_test.cpp"

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
