#pragma once
/// @file
/// The same test on a real device and on the emulated one, where it runs in several orders of threads and of streams.

#include <cuda_runtime.h>

#if defined(NESTPIPE_EMULATED_DEVICE)
#include <emulation/emulation.hpp>
#endif

namespace nestpipe::test {

/// Calls f once on a device; once for every order of threads and pace of streams on the emulated one.
template <class F>
void in_every_order(F const& f) {
#if defined(NESTPIPE_EMULATED_DEVICE)
  using emulation::order;
  using emulation::pace;
  for (emulation::settings const s : {emulation::settings{order::ascending, pace::lazy, 1, true, 1}, {order::descending, pace::eager, 1, false, 1}, {order::shuffled, pace::random, 7, false, 1}}) {
    emulation::use(s);
    f();
  }
  emulation::use({});
#else
  f();
#endif
}

}  // namespace nestpipe::test
