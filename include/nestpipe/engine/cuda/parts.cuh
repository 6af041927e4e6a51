#pragma once
/// @file
/// What an engine is built of when its executor computes on the device.

#include <nestpipe/engine/cuda/exchanger.cuh>
#include <nestpipe/engine/cuda/micro_batch.cuh>
#include <nestpipe/engine/cuda/row_part.cuh>
#include <nestpipe/engine/parts.hpp>

namespace nestpipe::engine {

template <>
struct parts<exec::cuda> {
  using window = embedding::device_window;
  using buffer = exec::buffer<float, exec::cuda>;
  template <class Model>
  using micro = device_micro_batch<Model>;
  template <class Channel>
  using exchange = device_exchanger<Channel>;
  template <class Storage, class Optimizer>
  using rows = device_row_part<Storage, Optimizer>;
  /// Threads that help a lane queue on its stream, on its device.
  struct lane {
    int device = exec::this_device();
    cudaStream_t stream = exec::this_stream();
    exec::on_stream borrow() const {
      NESTPIPE_CUDA_TRY(cudaSetDevice(device));
      return exec::on_stream{stream};
    }
  };
};

}  // namespace nestpipe::engine
