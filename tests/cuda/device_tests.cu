// Every test of device parts in one program, for nvcc spends its time on headers: the sources that also run on the emulated device.
#include "../embedding/cuda_kernels_test.cpp"
#include "../exec/cuda_lanes_test.cpp"
#include "device_main.hpp"
