#include <nestpipe/core/version.hpp>
#if __has_include(<nestpipe/nestpipe.hpp>)
#include <nestpipe/nestpipe.hpp>
#endif

int version_seen_by_second_unit();
int version_seen_by_second_unit() { return NESTPIPE_VERSION; }
