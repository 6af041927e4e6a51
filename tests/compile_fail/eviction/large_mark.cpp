// expect: eviction policy [1/6]: define a trivially copyable member type mark of at most 8 bytes
#include <nestpipe/storage/eviction/eviction.hpp>

using nestpipe::key_type;

struct good {
  struct mark { std::uint64_t a, b; };
  void open(std::uint64_t) {}
  void used(mark&, key_type, std::uint32_t) {}
  std::uint64_t worth(mark const&, std::uint32_t) const { return 0; }
  std::uint64_t bytes() const { return 0; }
};
static_assert(nestpipe::storage::eviction::audit<good>());
