#pragma once
/// @file
/// What an engine is built of, by the space in which it computes.

#include <nestpipe/embedding/window.hpp>
#include <nestpipe/engine/exchanger.hpp>
#include <nestpipe/engine/micro_batch.hpp>
#include <nestpipe/engine/row_part.hpp>
#include <nestpipe/exec/space.hpp>

namespace nestpipe::engine {

/// Defined for exec::host here, for exec::cuda in nestpipe/cuda.cuh.
template <class Space>
struct parts {
  static_assert(std::is_same_v<Space, exec::host>, "this executor computes on the device: include <nestpipe/cuda.cuh> and compile as CUDA");
};

template <>
struct parts<exec::host> {
  using window = embedding::window;
  using buffer = exec::buffer<float>;
  template <class Model>
  using micro = micro_batch<Model>;
  template <class Channel>
  using exchange = exchanger<Channel>;
  template <class Storage, class Optimizer>
  using rows = row_part<Storage, Optimizer>;
  /// What a thread that helps a lane has to know of it.
  struct lane {
    struct borrowed {};
    borrowed borrow() const { return {}; }
  };
};

}  // namespace nestpipe::engine
