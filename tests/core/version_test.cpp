#include <doctest/doctest.h>

#include <nestpipe/core/version.hpp>

#include <string>

TEST_CASE("the version constant, the macro and the version CMake installs agree") {
  auto const& v = nestpipe::version;
  CHECK(v.major_number * 10000 + v.minor_number * 100 + v.patch_number == NESTPIPE_VERSION);
  std::string const text = std::to_string(v.major_number) + "." + std::to_string(v.minor_number) + "." + std::to_string(v.patch_number);
  CHECK(text == NESTPIPE_PROJECT_VERSION);
}
