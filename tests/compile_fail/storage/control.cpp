// expect-ok
#include <nestpipe/storage/storage.hpp>

using nestpipe::key_type;
using nestpipe::storage::row_handle;

struct good {
  void open(nestpipe::storage::storage_spec const&) {}
  void read(std::span<key_type const>, std::span<row_handle>, float*) {}
  void write(std::span<key_type const>, std::span<row_handle const>, float const*) {}
  std::uint64_t epoch() const { return 0; }
  void pin(std::span<key_type const>) {}
  void release(std::span<key_type const>) {}
  void erase(std::span<key_type const>) {}
  std::uint64_t size() const { return 0; }
  template <class F>
  void scan(nestpipe::storage::scan_cursor&, F&&) const {}
  bool passed(nestpipe::storage::scan_cursor const&, key_type) const { return false; }
  nestpipe::storage::storage_counters counters() const { return {}; }
};
static_assert(nestpipe::storage::audit<good>());
