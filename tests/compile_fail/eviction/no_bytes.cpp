// expect: eviction policy [5/6]: provide bytes() const
#include <nestpipe/storage/eviction/eviction.hpp>

using nestpipe::key_type;

struct good {
  using mark = std::uint32_t;
  void open(std::uint64_t) {}
  void used(mark&, key_type, std::uint32_t) {}
  std::uint64_t worth(mark const&, std::uint32_t) const { return 0; }
};
static_assert(nestpipe::storage::eviction::audit<good>());
