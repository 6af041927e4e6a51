#pragma once
/// @file
/// What a reduction is: how the dense gradients of all micro-batches of all ranks become one.
///
/// | requirement on R (a value; copied before `open`, never after) | meaning |
/// |---|---|
/// | `r.open(shape)` | allocates all it will ever need; `shape` is a reduction_shape, the same on all ranks but for `rank` |
/// | `r.leaf(j)` | std::span<float> of `parameters` floats, 64-byte aligned: the caller writes the dense gradient of its micro-batch j here (globally m = j * world_size + rank) |
/// | `r.add(j, first, last)` | folds elements [first, last) of leaf j in; called once per batch, j and element, j ascending for each element, after all leaves' elements up to j are written; local |
/// | `r.reduce(channel, first, last, site)` | combines elements [first, last) over the ranks, after `add` of the last j; collective, same ranges in the same order on all ranks |
/// | `r.result()` | std::span<float const>: the sum over all micro-batches of all ranks, for the elements reduced so far; until leaf 0 is written again |
///
/// Ranges of one batch do not overlap; together they cover what the caller wants reduced. `add` and `reduce` of disjoint
/// ranges may run at the same time; `reduce` runs on one thread at a time. A micro-batch without samples still takes part:
/// its leaf is set to zeros by the caller. No allocation after `open`.
///
/// Optional: `R::bits_depend_on_ranks` (static bool, true where missing): whether the same micro-batches give other bits on
/// another number of ranks.

#include <nestpipe/comm/comm.hpp>
#include <nestpipe/core/error.hpp>

#include <concepts>
#include <cstddef>
#include <span>
#include <string>

namespace nestpipe::reduction {

/// Micro-batch j of rank r is micro-batch m = j * world_size + r of local_micro_batches * world_size in all.
struct reduction_shape {
  std::size_t parameters = 0;  ///< floats in one dense gradient
  std::size_t local_micro_batches = 1;
  std::size_t rank = 0;
  std::size_t world_size = 1;

  std::size_t micro_batches() const { return local_micro_batches * world_size; }
};

/// @throws config_error unless there is a rank, this is one of them, and each has a micro-batch
inline void check(reduction_shape const& shape) {
  require(shape.world_size > 0 && shape.rank < shape.world_size,
          "a reduction was opened for rank " + std::to_string(shape.rank) + " of " + std::to_string(shape.world_size),
          "reduction");
  require(shape.local_micro_batches > 0, "a reduction needs at least one micro-batch per rank", "reduction",
          "set micro-batches to 1 or more");
}

template <class R>
concept has_open = requires(R& r, reduction_shape const& shape) {
  r.open(shape);
};
template <class R>
concept has_leaf = requires(R& r, std::size_t j) {
  { r.leaf(j) } -> std::convertible_to<std::span<float>>;
};
template <class R>
concept has_add = requires(R& r, std::size_t n) {
  r.add(n, n, n);
};
template <class R>
concept has_reduce = requires(R& r, comm::channel_archetype& h, std::size_t n, comm::call_site at) {
  r.reduce(h, n, n, at);
};
template <class R>
concept has_result = requires(R const& r) {
  { r.result() } -> std::convertible_to<std::span<float const>>;
};
template <class R>
concept reduction =
    has_open<R> && has_leaf<R> && has_add<R> && has_reduce<R> && has_result<R> && std::copy_constructible<R>;

/// One sentence per requirement, for the boundary of the library.
template <class R>
consteval bool audit() {
  static_assert(has_open<R>, "reduction policy [1/6]: provide open(reduction_shape const&)");
  static_assert(has_leaf<R>,
                "reduction policy [2/6]: provide leaf(std::size_t micro_batch) returning std::span<float>");
  static_assert(has_add<R>,
                "reduction policy [3/6]: provide add(std::size_t micro_batch, std::size_t first, std::size_t last)");
  static_assert(
      has_reduce<R>,
      "reduction policy [4/6]: provide reduce(channel, std::size_t first, std::size_t last, comm::call_site)");
  static_assert(has_result<R>, "reduction policy [5/6]: provide result() const returning std::span<float const>");
  static_assert(std::copy_constructible<R>, "reduction policy [6/6]: must be copyable (before open)");
  return true;
}

template <class R>
inline constexpr bool bits_depend_on_ranks = true;
template <class R>
requires requires {
  { R::bits_depend_on_ranks } -> std::convertible_to<bool>;
}
inline constexpr bool bits_depend_on_ranks<R> = R::bits_depend_on_ranks;

}  // namespace nestpipe::reduction
