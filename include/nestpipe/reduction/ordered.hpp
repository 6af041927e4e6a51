#pragma once
/// @file
/// Sums of dense gradients whose bits do not depend on how many ranks computed them.

#include <nestpipe/exec/buffer.hpp>
#include <nestpipe/reduction/detail/leaves.hpp>
#include <nestpipe/reduction/reduction.hpp>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstring>
#include <span>
#include <vector>

namespace nestpipe::reduction {

namespace detail {

/// One level-by-level step of the fixed tree over `count` partial sums kept in the first member of each node: adds up every
/// node whose last member is j. Done for j = 0, 1, ..., it leaves the root in partial sum 0.
///
/// The tree, over members 0 .. n-1: node(o, s) holds o, o + s, o + 2s, ...; node(o, s) is the member o if o + s >= n, else
/// node(o, 2s) + node(o + s, 2s). The root is node(0, 1): it splits on the lowest bit, its children on the next, and so on.
/// So among all micro-batches of W = 2^k ranks, rank r holds exactly the subtree node(r, W).
///
/// @param at  at(o) is a pointer to partial sum o
template <class At>
void add_up(std::size_t count, std::size_t j, std::size_t length, At at) {
  if (count < 2) return;
  for (std::size_t s = std::bit_floor(count - 1); s != 0; s /= 2) {
    std::size_t const o = j % s;
    bool const last_member = j + s >= count;
    if (last_member && o + s < count) add(at(o), at(o + s), length);
  }
}

}  // namespace detail

/// The fixed binary tree of @ref detail::add_up over all micro-batches m = 0 .. G-1 of the global batch: same G, same bits,
/// for every number of ranks W that divides G. The default.
///
/// W a power of two: each rank adds up its own subtree; a reduce is an all-to-all of chunks, the tree over the W subtrees,
/// an all-gather: 2 (W-1)/W of the range in bytes out of each rank, as a ring. Other W: the chunks of all local leaves are
/// sent, so local_micro_batches times as many bytes in the first half; same bits.
///
/// Memory in floats, P = parameters, J = local_micro_batches: J P for the leaves, and with more than one rank 2 P for the
/// exchange if W is a power of two, else (J + 1) P.
class ordered {
 public:
  static constexpr bool bits_depend_on_ranks = false;

  ordered() = default;
  ordered(ordered const&) noexcept {}  // copied before open: a copy is closed
  ordered(ordered&&) noexcept = default;
  ordered& operator=(ordered const& other) noexcept {
    if (this != &other) *this = ordered{};
    return *this;
  }
  ordered& operator=(ordered&&) noexcept = default;
  ~ordered() = default;

  void open(reduction_shape const& shape) {
    check(shape);
    shape_ = shape;
    whole_subtree_ = std::has_single_bit(shape.world_size);
    sent_ = whole_subtree_ ? 1 : shape.local_micro_batches;
    leaves_.open(shape.local_micro_batches, shape.parameters);
    if (shape.world_size == 1) return;
    std::size_t const padded = chunk(shape.parameters) * shape.world_size;
    partial_.resize(sent_ * padded);
    gathered_.resize(padded);
    send_bytes_.assign(shape.world_size, 0);
    recv_bytes_.assign(shape.world_size, 0);
  }

  std::span<float> leaf(std::size_t j) { return leaves_[j]; }

  void add(std::size_t j, std::size_t first, std::size_t last) {
    if (!whole_subtree_) return;         // this rank's leaves are no subtree: their owners add them up in reduce
    constexpr std::size_t block = 2048;  // floats; a block of every level stays in the first cache
    for (; first < last; first += std::min(block, last - first)) {
      detail::add_up(shape_.local_micro_batches, j, std::min(block, last - first),
                     [&](std::size_t o) { return leaves_[o].data() + first; });
    }
  }

  template <comm::channel H>
  void reduce(H& channel, std::size_t first, std::size_t last, comm::call_site at) {
    std::size_t const world = shape_.world_size, length = last - first;
    if (world == 1 || length == 0) return;
    std::size_t const per_rank = chunk(length);
    // Rank r adds up elements [r * per_rank, (r + 1) * per_rank) of the range; the last ranks may have fewer, or none.
    auto const part = [&](std::size_t r) {
      return std::min(length, (r + 1) * per_rank) - std::min(length, r * per_rank);
    };
    std::size_t const mine = part(shape_.rank);
    for (std::size_t r = 0; r < world; ++r) {
      send_bytes_[r] = part(r) * sizeof(float);
      recv_bytes_[r] = mine * sizeof(float);
    }
    for (std::size_t j = 0; j < sent_; ++j) {  // lands as [j][rank][mine], which is [m][mine]
      channel.all_to_all_v(std::as_bytes(leaves_[j].subspan(first, length)), std::span<std::size_t const>{send_bytes_},
                           std::as_writable_bytes(partial_.span().subspan(j * world * mine, world * mine)),
                           std::span<std::size_t const>{recv_bytes_}, at);
    }
    std::size_t const members = sent_ * world;
    for (std::size_t m = 0; m < members; ++m) {
      detail::add_up(members, m, mine, [&](std::size_t o) { return partial_.data() + o * mine; });
    }
    auto const own = partial_.span().first(per_rank);  // padded with what lies there: never read by anyone
    auto const all = gathered_.span().first(per_rank * world);
    channel.all_gather(std::as_bytes(own), std::as_writable_bytes(all), at);
    std::memcpy(leaves_[0].data() + first, all.data(), length * sizeof(float));
  }

  std::span<float const> result() const { return leaves_[0]; }

 private:
  std::size_t chunk(std::size_t length) const { return (length + shape_.world_size - 1) / shape_.world_size; }

  reduction_shape shape_;
  bool whole_subtree_ = true;
  std::size_t sent_ = 1;  // partial sums this rank sends: its subtree, or all its leaves
  detail::leaves leaves_;
  exec::buffer<float> partial_;
  exec::buffer<float> gathered_;
  std::vector<std::size_t> send_bytes_, recv_bytes_;
};

}  // namespace nestpipe::reduction
