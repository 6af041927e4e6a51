// expect: storage::tiered: Fast must provide what storage/fast_memory.hpp lists
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/storage/tiered.hpp>

struct rowless {
  void open(nestpipe::storage::storage_spec const&, std::uint64_t) {}
  void grow(std::uint64_t) {}
  void gather(std::span<nestpipe::storage::row_handle const>, float*) const {}
  std::uint64_t bytes(std::uint64_t) const { return 0; }
};
nestpipe::storage::tiered<rowless, nestpipe::storage::hashed<>> store;
