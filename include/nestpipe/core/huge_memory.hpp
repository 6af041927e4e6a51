#pragma once
/// @file
/// Aligned memory that is zero before its first write and costs nothing until then; large blocks ask for huge pages.

#include <nestpipe/core/config.hpp>
#include <nestpipe/core/error.hpp>

#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <utility>

#if defined(__linux__)
#include <sys/mman.h>
#endif

namespace nestpipe {

/// An owned block of zeroed bytes, aligned to a cache line; from huge_page bytes on aligned to a huge page and advised to use
/// them (transparent huge pages: 1.3 to 2 times the row rate on tables of tens to hundreds of megabytes). Large blocks are
/// reserved without commitment, so untouched pages use no memory. Move-only.
class huge_memory {
 public:
  static constexpr std::size_t huge_page = std::size_t{2} << 20;

  huge_memory() = default;

  /// @param bytes    0 gives an empty block
  /// @param purpose  for the message, e.g. "table clicks"
  /// @throws error naming the bytes asked for when there is no memory
  explicit huge_memory(std::size_t bytes, std::string_view purpose = {}) : bytes_{bytes} {
    if (bytes == 0) return;
#if defined(__linux__)
    if (bytes >= huge_page) {
      map(purpose);
      return;
    }
#endif
    std::size_t const rounded = (bytes + alignment_bytes - 1) / alignment_bytes * alignment_bytes;
    data_ = rounded < bytes ? nullptr : std::aligned_alloc(alignment_bytes, rounded);
    if (data_ == nullptr) fail(purpose);
    std::memset(data_, 0, rounded);
  }

  huge_memory(huge_memory&& other) noexcept
      : data_{std::exchange(other.data_, nullptr)}, bytes_{std::exchange(other.bytes_, 0)}, mapped_{std::exchange(other.mapped_, 0)} {}
  huge_memory& operator=(huge_memory&& other) noexcept {
    std::swap(data_, other.data_);
    std::swap(bytes_, other.bytes_);
    std::swap(mapped_, other.mapped_);
    return *this;
  }
  huge_memory(huge_memory const&) = delete;
  huge_memory& operator=(huge_memory const&) = delete;

  ~huge_memory() {
#if defined(__linux__)
    if (mapped_ != 0) {
      ::munmap(data_, mapped_);
      return;
    }
#endif
    std::free(data_);
  }

  std::byte* data() const { return static_cast<std::byte*>(data_); }
  std::size_t size() const { return bytes_; }

 private:
  [[noreturn]] void fail(std::string_view purpose) const {
    throw error{"out of memory: could not get " + std::to_string(bytes_) + " bytes", purpose,
                "use fewer or smaller rows, more ranks, or a tiered storage"};
  }

#if defined(__linux__)
  void map(std::string_view purpose) {
    constexpr std::size_t page = 4096;
    std::size_t const wanted = (bytes_ + page - 1) / page * page;
    if (wanted < bytes_ || wanted + huge_page < wanted) fail(purpose);
    void* const whole = ::mmap(nullptr, wanted + huge_page, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (whole == MAP_FAILED) fail(purpose);
    // Keep the part that starts on a huge page, give back what is before and behind it.
    auto const address = reinterpret_cast<std::uintptr_t>(whole);
    std::size_t const before = (huge_page - address % huge_page) % huge_page;
    std::byte* const start = static_cast<std::byte*>(whole) + before;
    if (before != 0) ::munmap(whole, before);
    if (huge_page - before != 0) ::munmap(start + wanted, huge_page - before);
    ::madvise(start, wanted, MADV_HUGEPAGE);  // advice: without huge pages all still works
    data_ = start;
    mapped_ = wanted;
  }
#endif

  void* data_ = nullptr;
  std::size_t bytes_ = 0;
  std::size_t mapped_ = 0;   ///< bytes to unmap; 0: from the heap
};

}  // namespace nestpipe
