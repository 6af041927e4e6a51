// A user's program: one translation unit of two that include the library.
#include <nestpipe/core/version.hpp>
#if __has_include(<nestpipe/nestpipe.hpp>)
#include <nestpipe/nestpipe.hpp>
#endif

#include <cstdio>

int version_seen_by_second_unit();

int main() {
  std::printf("nestpipe %d.%d.%d\n", nestpipe::version.major_number, nestpipe::version.minor_number, nestpipe::version.patch_number);
  return version_seen_by_second_unit() == NESTPIPE_VERSION ? 0 : 1;
}
