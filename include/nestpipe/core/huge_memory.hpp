#pragma once
/// @file
/// Aligned memory for big arrays. A first touch of a 4 KiB page costs far more than of a 2 MiB page, so large blocks ask
/// the system for huge pages.

#include <nestpipe/core/config.hpp>

#include <cstdlib>
#include <memory>
#include <new>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace nestpipe {

struct free_memory {
  void operator()(void* p) const noexcept { std::free(p); }
};

/// Owning pointer to raw memory made by allocate_memory.
using memory_block = std::unique_ptr<void, free_memory>;

inline constexpr std::size_t huge_page_bytes = std::size_t{1} << 21;

/// Uninitialised memory, aligned to `alignment_bytes`, or to a huge page when at least that large.
/// @param bytes may be 0 (gives null). @throws std::bad_alloc
inline memory_block allocate_memory(std::size_t bytes) {
  if (bytes == 0) return {};
  std::size_t const alignment = bytes >= huge_page_bytes ? huge_page_bytes : alignment_bytes;
  std::size_t const rounded = (bytes + alignment - 1) / alignment * alignment;
  memory_block block{std::aligned_alloc(alignment, rounded)};
  if (!block) throw std::bad_alloc{};
#if defined(__linux__) && defined(MADV_HUGEPAGE)
  if (alignment == huge_page_bytes) ::madvise(block.get(), rounded, MADV_HUGEPAGE);  // advice: failure is harmless
#endif
  return block;
}

}  // namespace nestpipe
