#pragma once
/// @file
/// The version of the library. CMake reads the three numbers from here, so that they stand in one place.

#define NESTPIPE_VERSION_MAJOR 0
#define NESTPIPE_VERSION_MINOR 1
#define NESTPIPE_VERSION_PATCH 0

/// One number to compare in `#if`: major * 10000 + minor * 100 + patch.
#define NESTPIPE_VERSION (NESTPIPE_VERSION_MAJOR * 10000 + NESTPIPE_VERSION_MINOR * 100 + NESTPIPE_VERSION_PATCH)

namespace nestpipe {

/// Major, minor, patch (semantic versioning; below 1.0 a minor step may change interfaces).
struct version_number {
  int major_number;
  int minor_number;
  int patch_number;

  friend constexpr bool operator==(version_number const&, version_number const&) = default;
};

/// The version of the headers a translation unit was compiled with.
inline constexpr version_number version{NESTPIPE_VERSION_MAJOR, NESTPIPE_VERSION_MINOR, NESTPIPE_VERSION_PATCH};

}  // namespace nestpipe
