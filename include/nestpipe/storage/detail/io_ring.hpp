#pragma once
/// @file
/// Reads and writes in flight at once through io_uring, by system calls alone (Linux 5.6 or newer, where containers allow it).

#if defined(__linux__) && __has_include(<linux/io_uring.h>)
#include <linux/io_uring.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>
#endif

#include <atomic>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <utility>

#if defined(__linux__) && defined(IORING_FEAT_RW_CUR_POS) && defined(__NR_io_uring_setup)
#define NESTPIPE_HAS_IO_URING 1
#else
#define NESTPIPE_HAS_IO_URING 0
#endif

namespace nestpipe::storage::detail {

/// One transfer between a file and memory.
struct disk_request {
  std::uint64_t offset = 0;
  std::byte* memory = nullptr;
  std::uint32_t bytes = 0;
  bool write = false;
};

#if NESTPIPE_HAS_IO_URING

/// A submission and a completion queue shared with the kernel. Used from one thread at a time. Move-only.
class io_ring {
 public:
  io_ring() = default;
  io_ring(io_ring const&) = delete;
  io_ring& operator=(io_ring const&) = delete;
  ~io_ring() {
    if (sq_memory_ != nullptr) ::munmap(sq_memory_, sq_bytes_);
    if (cq_memory_ != nullptr) ::munmap(cq_memory_, cq_bytes_);
    if (sqes_ != nullptr) ::munmap(sqes_, sqe_bytes_);
    if (ring_ >= 0) ::close(ring_);
  }

  /// @returns whether there is a ring now: not where the kernel has none or forbids it
  bool open(unsigned depth) {
    io_uring_params p{};
    ring_ = static_cast<int>(::syscall(__NR_io_uring_setup, depth, &p));
    if (ring_ < 0 || (p.features & IORING_FEAT_RW_CUR_POS) == 0) return false;  // this feature came with plain reads and writes
    sq_bytes_ = p.sq_off.array + p.sq_entries * sizeof(unsigned);
    cq_bytes_ = p.cq_off.cqes + p.cq_entries * sizeof(io_uring_cqe);
    sqe_bytes_ = p.sq_entries * sizeof(io_uring_sqe);
    sq_memory_ = map(sq_bytes_, IORING_OFF_SQ_RING);
    cq_memory_ = map(cq_bytes_, IORING_OFF_CQ_RING);
    sqes_ = static_cast<io_uring_sqe*>(map(sqe_bytes_, IORING_OFF_SQES));
    if (sq_memory_ == nullptr || cq_memory_ == nullptr || sqes_ == nullptr) return false;
    sq_tail_ = at<unsigned>(sq_memory_, p.sq_off.tail);
    sq_mask_ = *at<unsigned>(sq_memory_, p.sq_off.ring_mask);
    sq_array_ = at<unsigned>(sq_memory_, p.sq_off.array);
    cq_head_ = at<unsigned>(cq_memory_, p.cq_off.head);
    cq_tail_ = at<unsigned>(cq_memory_, p.cq_off.tail);
    cq_mask_ = *at<unsigned>(cq_memory_, p.cq_off.ring_mask);
    cqes_ = at<io_uring_cqe>(cq_memory_, p.cq_off.cqes);
    return true;
  }

  /// Queues a transfer; fewer than `depth` may be unfinished. It starts with the next wait().
  void push(int file, disk_request const& r, std::uint64_t tag) {
    unsigned const tail = *sq_tail_;
    unsigned const slot = tail & sq_mask_;
    io_uring_sqe& e = sqes_[slot];
    e = {};
    e.opcode = r.write ? IORING_OP_WRITE : IORING_OP_READ;
    e.fd = file;
    e.off = r.offset;
    e.addr = reinterpret_cast<std::uintptr_t>(r.memory);
    e.len = r.bytes;
    e.user_data = tag;
    sq_array_[slot] = slot;
    std::atomic_ref{*sq_tail_}.store(tail + 1, std::memory_order_release);
    ++unsubmitted_;
  }

  /// Starts what was pushed, waits for at least one transfer to end, and calls done(tag, bytes or -errno) for all that have.
  /// @returns 0, or the error number of the ring itself
  template <class F>
  int wait(F&& done) {
    for (;;) {
      long const taken = ::syscall(__NR_io_uring_enter, ring_, unsubmitted_, 1U, static_cast<unsigned>(IORING_ENTER_GETEVENTS), nullptr, 0UL);
      if (taken >= 0) {
        unsubmitted_ -= static_cast<unsigned>(taken);
        break;
      }
      if (errno != EINTR && errno != EAGAIN && errno != EBUSY) return errno;
    }
    unsigned head = *cq_head_;
    unsigned const tail = std::atomic_ref{*cq_tail_}.load(std::memory_order_acquire);
    for (; head != tail; ++head) {
      io_uring_cqe const& c = cqes_[head & cq_mask_];
      done(static_cast<std::uint64_t>(c.user_data), static_cast<long>(c.res));
    }
    std::atomic_ref{*cq_head_}.store(head, std::memory_order_release);
    return 0;
  }

 private:
  void* map(std::size_t bytes, std::uint64_t what) const {
    void* const p = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_POPULATE, ring_, static_cast<off_t>(what));
    return p == MAP_FAILED ? nullptr : p;
  }
  template <class T>
  static T* at(void* base, std::uint32_t offset) {
    return reinterpret_cast<T*>(static_cast<std::byte*>(base) + offset);
  }

  int ring_ = -1;
  unsigned unsubmitted_ = 0;
  void* sq_memory_ = nullptr;
  void* cq_memory_ = nullptr;
  io_uring_sqe* sqes_ = nullptr;
  std::size_t sq_bytes_ = 0;
  std::size_t cq_bytes_ = 0;
  std::size_t sqe_bytes_ = 0;
  unsigned* sq_tail_ = nullptr;
  unsigned* sq_array_ = nullptr;
  unsigned sq_mask_ = 0;
  unsigned* cq_head_ = nullptr;
  unsigned* cq_tail_ = nullptr;
  io_uring_cqe* cqes_ = nullptr;
  unsigned cq_mask_ = 0;
};

#else

/// Stands in where there is no io_uring.
class io_ring {
 public:
  bool open(unsigned) { return false; }
  void push(int, disk_request const&, std::uint64_t) {}
  template <class F>
  int wait(F&&) {
    return ENOSYS;
  }
};

#endif

}  // namespace nestpipe::storage::detail
