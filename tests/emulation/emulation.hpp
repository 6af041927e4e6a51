#pragma once
/// @file
/// How tests steer the emulated device and ask what it saw.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>

namespace emulation {

/// In which order the blocks of a grid and the threads of a block run.
enum class order : std::uint8_t { ascending, descending, shuffled };
/// When queued work runs: lazy, not before the host waits for it, so that a missing wait shows; eager, at once; random, in between.
enum class pace : std::uint8_t { lazy, eager, random };

struct settings {
  order threads = order::ascending;
  pace streams = pace::lazy;
  std::uint64_t seed = 1;
  /// Device memory is closed to the host by page protection too, which costs a system call or two for each kernel and copy. Without, only
  /// accesses by code that the compiler instruments are seen.
  bool closed_pages = true;
  int devices = 1;   ///< what cudaGetDeviceCount says; 0: there is none
};

struct counters {
  std::uint64_t allocations = 0;        ///< of device and of pinned memory
  std::uint64_t live_allocations = 0;
  std::uint64_t launches = 0;
  std::uint64_t copies = 0;
  std::uint64_t copied_bytes = 0;
  std::uint64_t device_waits = 0;       ///< calls that stop the whole device
  std::uint64_t pending = 0;            ///< queued and not run yet
};

/// Replaces the settings; queued work is run first, under the old ones.
void use(settings s);
settings current();
counters count();

/// Runs `f`, then everything queued. @return the text of the first fault it met, empty when there was none. Without this a fault
/// is printed and ends the program.
std::string fault_of(std::function<void()> const& f);

}  // namespace emulation
