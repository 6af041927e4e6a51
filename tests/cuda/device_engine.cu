// Whole training runs on a device, beside the host's bits. A program of its own: it takes nvcc as long as all other device tests together.
#include "../engine/cuda_exactness_test.cpp"
#include "device_main.hpp"
