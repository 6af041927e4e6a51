#include <doctest/doctest.h>

#include <nestpipe/core/random.hpp>
#include <nestpipe/storage/detail/row_block.hpp>

#include <cstring>

namespace d = nestpipe::storage::detail;

TEST_CASE("vector and portable comparison agree") {
  nestpipe::counter_random const random{1, 2, 3};
  std::uint64_t const slots = (std::uint64_t{1} << d::tag_group::most_slots) - 1;
  for (std::uint64_t round = 0; round < 20; ++round) {
    d::tag_group group;
    std::memset(&group, 0xff, sizeof group);
    for (std::size_t i = 0; i < d::tag_group::most_slots; ++i) group.tags[i] = static_cast<d::tag_type>(random.below(64 * round + i, 5) * 63);
    for (unsigned tag = 0; tag < 256; ++tag) {
      auto const t = static_cast<d::tag_type>(tag);
      CHECK((d::match(group, t) & slots) == (d::match_portable(group, t) & slots));
    }
  }
}

TEST_CASE("no hash has the tag of a free slot") {
  for (std::uint64_t h = 0; h < 0x10000; ++h) {
    if (d::tag_of(h) == d::tag_empty) FAIL("tag of " << h);
  }
  CHECK(d::tag_of(0) == 1);
  CHECK(d::tag_of(~0ULL) == 255);
}

TEST_CASE("blocks waste little, for rows of one float to rows of many") {
  for (std::size_t row_floats = 1; row_floats < 20000; row_floats += 1 + row_floats / 9) {
    CAPTURE(row_floats);
    d::block_layout const layout{row_floats};
    std::size_t const record = 8 + 4 * row_floats;
    CHECK(layout.record_bytes() == record);
    CHECK(layout.slots() >= 4);
    CHECK(layout.slots() <= d::tag_group::most_slots);
    CHECK(sizeof(d::tag_group) + layout.slots() * record <= layout.bytes());
    CHECK(static_cast<double>(layout.bytes()) < (row_floats < 4000 ? 1.25 : 1.6) * static_cast<double>(layout.slots() * record));
  }
  CHECK(d::block_layout{17}.bytes() == 4096);
  CHECK(d::block_layout{17}.slots() == 53);
  CHECK(d::block_layout{33}.bytes() == 4096);
}

TEST_CASE("a search in a block starts at the hash's own slot and goes round") {
  d::block_layout const layout{17};
  alignas(64) std::byte memory[4096]{};
  d::row_block const block{memory, layout};
  for (std::uint64_t const own : {0U, 1U, 30U, 52U}) {
    std::uint64_t const hash = (own * 0x10000 / 53 + 1) << 16;
    CHECK(block.first_of(layout.slot_mask(), hash) == own);
    CHECK(block.first_of(1, hash) == 0);
    CHECK(block.first_of(1 | std::uint64_t{1} << 52, hash) == (own == 0 ? 0 : 52));
  }
}
