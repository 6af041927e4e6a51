// expect: storage policy [5/9]: provide pin and release
#include <nestpipe/storage/storage.hpp>

using nestpipe::key_type;
using nestpipe::storage::row_handle;

struct good {
  void open(nestpipe::storage::storage_spec const&) {}
  void find(std::span<key_type const>, std::span<row_handle>) {}
  void find_or_create(std::span<key_type const>, std::span<row_handle>) {}
  void gather(std::span<row_handle const>, float*) {}
  void scatter(std::span<row_handle const>, float const*) {}
  std::uint64_t epoch() const { return 0; }
  void pin(std::span<key_type const>) {}
  void erase(std::span<key_type const>) {}
  std::uint64_t size() const { return 0; }
  template <class F>
  void for_each(F&&) const {}
  nestpipe::storage::storage_counters counters() const { return {}; }
};
static_assert(nestpipe::storage::audit<good>());
