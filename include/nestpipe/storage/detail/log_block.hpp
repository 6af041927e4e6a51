#pragma once
/// @file
/// Blocks of a log of rows: what is read and written at once. First the keys of a block, then the rows in the same order.

#include <nestpipe/core/huge_memory.hpp>
#include <nestpipe/storage/storage.hpp>

#include <cstring>

namespace nestpipe::storage::detail {

/// Memory as direct I/O wants it.
class page_memory {
 public:
  static constexpr std::size_t page = 4096;
  page_memory() = default;
  page_memory(std::size_t bytes, std::string_view purpose) : memory_{bytes + page, purpose} {
    data_ = memory_.data() + (page - reinterpret_cast<std::uintptr_t>(memory_.data()) % page) % page;
  }
  std::byte* data() const { return data_; }
  std::size_t size() const { return memory_.size(); }

 private:
  huge_memory memory_;
  std::byte* data_ = nullptr;
};

/// Sizes that follow from the width of a row.
struct log_geometry {
  static constexpr std::uint32_t none = 0xffffffffU;

  std::size_t row_bytes = 0;
  std::size_t block_bytes = 0;
  std::uint32_t rows_per_block = 0;
  std::uint32_t extent_blocks = 0;

  log_geometry() = default;

  /// Blocks are of as few pages as leave at most an eighth unused; an extent holds 16 to 4,095 of them.
  log_geometry(std::size_t row_floats, std::size_t extent) : row_bytes{row_floats * sizeof(float)} {
    std::size_t const record = sizeof(key_type) + row_bytes;
    do {
      block_bytes += page_memory::page;
      rows_per_block = static_cast<std::uint32_t>(block_bytes / record);
    } while (block_bytes - rows_per_block * record > block_bytes / 8);
    extent_blocks = static_cast<std::uint32_t>(std::min<std::size_t>(std::max<std::size_t>(extent / block_bytes, 16), 4095));
  }

  std::size_t extent_bytes() const { return extent_blocks * block_bytes; }
  std::uint32_t extent_rows() const { return extent_blocks * rows_per_block; }

  key_type key(std::byte const* block, std::uint32_t r) const {
    key_type k;
    std::memcpy(&k, block + r * sizeof k, sizeof k);
    return k;
  }
  std::byte* row(std::byte* block, std::uint32_t r) const { return block + rows_per_block * sizeof(key_type) + r * row_bytes; }
  std::byte const* row(std::byte const* block, std::uint32_t r) const { return block + rows_per_block * sizeof(key_type) + r * row_bytes; }
  void set(std::byte* block, std::uint32_t r, key_type key, void const* row_data) const {
    std::memcpy(block + r * sizeof key, &key, sizeof key);
    std::memcpy(row(block, r), row_data, row_bytes);
  }
  /// Place of a key among the first `rows` of a block, or none. Looks at all of them: no branch to mispredict, wide compares.
  std::uint32_t find(std::byte const* block, std::uint32_t rows, key_type wanted) const {
    std::uint32_t at = none;
    for (std::uint32_t r = 0; r < rows; ++r) at = key(block, r) == wanted ? r : at;
    return at;
  }
};

}  // namespace nestpipe::storage::detail
