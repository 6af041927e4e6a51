// expect: eviction policy [3/6]: provide used(mark&, key_type, std::uint32_t now)
#include <nestpipe/storage/eviction/eviction.hpp>

using nestpipe::key_type;

struct good {
  using mark = std::uint32_t;
  void open(std::uint64_t) {}
  std::uint64_t worth(mark const&, std::uint32_t) const { return 0; }
  std::uint64_t bytes() const { return 0; }
};
static_assert(nestpipe::storage::eviction::audit<good>());
