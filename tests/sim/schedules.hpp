#pragma once
// The schedules of the published system: dual buffers and frozen windows without what goes beyond it.

#include <nestpipe/schedule/nested.hpp>
#include <nestpipe/schedule/prefetch.hpp>

namespace nestpipe::test {

inline schedule::frozen_window plain_frozen() {
  schedule::frozen_window s;
  s.split_backward = false;
  return s;
}
inline schedule::dual_buffer<> plain_dual() {
  schedule::dual_buffer<> s;
  s.early = s.shared_first = false;
  return s;
}
inline schedule::nested plain_nested() {
  schedule::nested s;
  s.early = s.shared_first = s.inner.split_backward = false;
  return s;
}

}  // namespace nestpipe::test
