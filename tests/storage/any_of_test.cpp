#include "storage_conformance.hpp"

#include <nestpipe/storage/any_of.hpp>
#include <nestpipe/storage/dense.hpp>
#include <nestpipe/storage/hashed.hpp>

namespace s = nestpipe::storage;
namespace c = storage_conformance;
using some = s::any_of<s::hashed<>, s::dense>;

TEST_CASE("any_of is the store it holds") {
  c::check_storage(some{}, {.growth_rows = 20000});
  c::check_storage(some{s::hashed<>{}}, {.growth_rows = 20000});
  c::check_storage(some{s::dense{}}, {.key_limit = 1 << 16, .growth_rows = 20000});
}

TEST_CASE("its members are reached by visit") {
  some a = s::dense{};
  CHECK(a.index() == 1);
  a = some{s::hashed<>{}};
  CHECK(a.index() == 0);
  CHECK(a.visit([](auto const& store) { return static_cast<std::uint64_t>(store.size()); }) == 0);
}
