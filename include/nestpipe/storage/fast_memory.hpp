#pragma once
/// @file
/// The memory of a fast tier: rows by number. What it asks for is small, so that another memory can take its place.
///
/// | requirement on F (copyable before open, movable after) | meaning |
/// |---|---|
/// | `f.open(storage_spec, rows)` | address space for so many rows; called once |
/// | `f.grow(rows)` | room for so many; what is there stays |
/// | `f.gather(slots, rows)` | rows[i] = row slots[i]; where that is `no_row` the target stays as it is. `rows` is host memory |
/// | `f.scatter(slots, rows)` | the reverse |
/// | `f.bytes(rows)` | memory that so many rows take |

#include <nestpipe/core/huge_memory.hpp>
#include <nestpipe/storage/detail/row_copy.hpp>
#include <nestpipe/storage/detail/unopened_copy.hpp>
#include <nestpipe/storage/storage.hpp>

#include <string>
#include <utility>

namespace nestpipe::storage {

template <class F>
concept fast_tier_memory = std::copy_constructible<F> && std::movable<F> &&
                           requires(F& f, F const& c, storage_spec const& spec, std::uint64_t n, std::span<row_handle const> slots, float* to, float const* from) {
                             f.open(spec, n);
                             f.grow(n);
                             c.gather(slots, to);
                             f.scatter(slots, from);
                             { c.bytes(n) } -> std::convertible_to<std::uint64_t>;
                           };

/// Host memory. Pages that no row has touched cost nothing.
class fast_memory {
 public:
  void open(storage_spec const& spec, std::uint64_t rows) {
    store_->row_bytes = spec.row_floats * sizeof(float);
    store_->purpose = "fast tier of table " + spec.table_name;
    store_->memory = huge_memory{rows * store_->row_bytes, store_->purpose};
  }
  void grow(std::uint64_t rows) {
    if (rows * store_->row_bytes <= store_->memory.size()) return;
    huge_memory larger{rows * store_->row_bytes, store_->purpose};
    if (store_->memory.size() != 0) std::memcpy(larger.data(), store_->memory.data(), store_->memory.size());
    store_->memory = std::move(larger);
  }
  void gather(std::span<row_handle const> slots, float* rows) const {
    detail::gather_rows(slots, rows, store_->row_bytes / sizeof(float), address_of());
  }
  void scatter(std::span<row_handle const> slots, float const* rows) {
    detail::scatter_rows(slots, rows, store_->row_bytes / sizeof(float), address_of());
  }
  std::uint64_t bytes(std::uint64_t rows) const { return rows * store_->row_bytes; }

 private:
  struct opened {
    huge_memory memory;
    std::size_t row_bytes = 0;
    std::string purpose;
  };
  struct address {
    std::byte* base;
    std::size_t row_bytes;
    std::byte* operator()(row_handle slot) const { return base + slot * row_bytes; }
  };
  address address_of() const { return {store_->memory.data(), store_->row_bytes}; }

  detail::unopened_copy<opened> store_{};
};
static_assert(fast_tier_memory<fast_memory>);

}  // namespace nestpipe::storage
