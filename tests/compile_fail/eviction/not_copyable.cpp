// expect: eviction policy [6/6]: must be copyable and movable
#include <nestpipe/storage/eviction/eviction.hpp>

#include <memory>

using nestpipe::key_type;

struct good {
  using mark = std::uint32_t;
  void open(std::uint64_t) {}
  void used(mark&, key_type, std::uint32_t) {}
  std::uint64_t worth(mark const&, std::uint32_t) const { return 0; }
  std::uint64_t bytes() const { return 0; }
  std::unique_ptr<int> held{};
};
static_assert(nestpipe::storage::eviction::audit<good>());
