#include <doctest/doctest.h>

#include <nestpipe/core/random.hpp>
#include <nestpipe/storage/detail/tag_group.hpp>

namespace d = nestpipe::storage::detail;

TEST_CASE("vector and portable comparison agree at every offset") {
  d::tag_type tags[64];
  nestpipe::counter_random const random{1, 2, 3};
  for (std::size_t i = 0; i < 64; ++i) tags[i] = static_cast<d::tag_type>(random.below(i, 5) * 63);
  for (std::size_t at = 0; at + d::group_tags <= 64; ++at) {
    for (unsigned tag = 0; tag < 256; ++tag) {
      auto const t = static_cast<d::tag_type>(tag);
      CHECK(d::match(tags + at, t) == d::match_portable(tags + at, t));
    }
  }
}

TEST_CASE("no hash has the tag of a free slot") {
  for (std::uint64_t h = 0; h < 0x10000; ++h) {
    if (d::tag_of(h) <= d::tag_erased) FAIL("tag of " << h);
  }
  CHECK(d::tag_of(0) == 2);
  CHECK(d::tag_of(~0ULL) == 255);
}
