#pragma once
/// @file
/// Eviction that knows the next batches, as a pipeline does that routes them before it reads their rows.

#include <nestpipe/storage/eviction/lfu.hpp>

namespace nestpipe::storage::eviction {

/// Rows without a known next use leave first, in the order of `Past`; then those needed farthest in the future. With every
/// future batch known this is Belady's rule (IBM Systems Journal 5(2), 1966), which no policy can beat.
/// @tparam Past  ranks rows by what is known of their past
template <class Past = lfu>
class look_ahead {
  static_assert(audit<Past>());
  static_assert(!eviction::needs_due<Past>(), "eviction::look_ahead: Past must rank by the past alone");

 public:
  static constexpr bool needs_due = true;
  using mark = typename Past::mark;

  look_ahead() = default;
  explicit look_ahead(Past past) : past_{std::move(past)} {}

  void open(std::uint64_t rows) { past_.open(rows); }
  void used(mark& m, key_type key, std::uint32_t now) { past_.used(m, key, now); }
  std::uint64_t worth(mark const& m, std::uint32_t now, std::uint32_t due) const {
    return due == 0 ? past_.worth(m, now) : (std::uint64_t{1} << 63) + (0xffffffffU - due);
  }
  std::uint64_t bytes() const { return past_.bytes(); }

 private:
  Past past_{};
};
static_assert(audit<look_ahead<>>());

}  // namespace nestpipe::storage::eviction
