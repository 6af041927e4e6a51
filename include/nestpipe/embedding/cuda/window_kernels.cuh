#pragma once
/// @file
/// What is done to the rows of windows on the device: packed for sending, gradients folded in, rows copied, updated, and brought from
/// and to contiguous arrays. A thread moves one packet; lists name slots, parts say what a stretch of a list belongs to.

#include <nestpipe/embedding/cuda/packet.cuh>
#include <nestpipe/exec/cuda/launch.cuh>
#include <nestpipe/optimizer/clipping.hpp>

namespace nestpipe::embedding {

/// A stretch of a list of slots of one table, beside a contiguous array of embeddings.
struct list_part {
  std::uint64_t first_unit;
  std::uint64_t base;         ///< of the table, in floats: of its rows, or of its gradients
  std::uint64_t array;        ///< of the stretch, in floats
  std::uint32_t stride;       ///< between slots
  std::uint32_t groups;       ///< packets of an embedding
  std::uint32_t first_item;   ///< in the list
  std::uint32_t first_flag;   ///< of the table's slots
};

/// Pairs of slots of one table in two windows.
struct copy_part {
  std::uint64_t first_unit;
  std::uint64_t from, to;     ///< of the table's rows, in floats
  std::uint32_t groups;       ///< packets of a row, padding included
  std::uint32_t first_item;
};

/// All slots, or a stretch of a list of slots, of one table.
struct update_part {
  std::uint64_t first_unit;   ///< a unit is a row
  std::uint64_t rows, gradients;
  std::uint32_t stride, dim;
  std::uint32_t first_flag;
  std::uint32_t first_item;
};

/// Rows of one table in a window and, without padding, in a contiguous array.
struct stretch_part {
  std::uint64_t first_unit;   ///< a unit is a float of the padded row
  std::uint64_t rows, array;
  std::uint32_t stride, floats;
};

namespace detail {

template <unsigned Width>
__global__ void pack_rows(list_part const* parts, std::uint32_t count, std::uint32_t const* slots, float const* rows, float* out, std::size_t units) {
  for (std::size_t unit = exec::first_unit(); unit < units; unit += exec::unit_stride()) {
    list_part const& p = part_of(parts, count, unit);
    auto const local = static_cast<std::uint32_t>(unit - p.first_unit);
    std::uint32_t const item = local / p.groups, at = local % p.groups * Width;
    packet<Width>::load(rows + p.base + std::size_t{slots[p.first_item + item]} * p.stride + at).store(out + p.array + std::size_t{item} * p.groups * Width + at);
  }
}

/// Slots of one launch are distinct: they come from one rank.
template <unsigned Width>
__global__ void fold_gradients(list_part const* parts, std::uint32_t count, std::uint32_t const* slots, std::uint8_t const* has, float* gradients, float const* in,
                               std::size_t units) {
  for (std::size_t unit = exec::first_unit(); unit < units; unit += exec::unit_stride()) {
    list_part const& p = part_of(parts, count, unit);
    auto const local = static_cast<std::uint32_t>(unit - p.first_unit);
    std::uint32_t const item = local / p.groups, at = local % p.groups * Width, slot = slots[p.first_item + item];
    float* const to = gradients + p.base + std::size_t{slot} * p.stride + at;
    packet<Width> value = packet<Width>::load(in + p.array + std::size_t{item} * p.groups * Width + at);
    if (has[p.first_flag + slot] != 0) {
      packet<Width> total = packet<Width>::load(to);
      total.add(value);
      value = total;
    }
    value.store(to);
  }
}

/// After fold_gradients: a launch of its own, for the flag of a slot is read by all threads of its row.
template <class = void>  // a template, for nvcc knows no inline kernels
__global__ void mark_gradients(list_part const* parts, std::uint32_t count, std::uint32_t const* slots, std::uint8_t* has, std::size_t units) {
  for (std::size_t unit = exec::first_unit(); unit < units; unit += exec::unit_stride()) {
    list_part const& p = part_of(parts, count, unit);
    auto const local = static_cast<std::uint32_t>(unit - p.first_unit);
    if (local % p.groups == 0) has[p.first_flag + slots[p.first_item + local / p.groups]] = 1;
  }
}

template <class = void>  // a template, for nvcc knows no inline kernels
__global__ void copy_window_rows(copy_part const* parts, std::uint32_t count, std::uint32_t const* from_slots, std::uint32_t const* to_slots, float const* from,
                                        float* to, std::size_t units) {
  for (std::size_t unit = exec::first_unit(); unit < units; unit += exec::unit_stride()) {
    copy_part const& p = part_of(parts, count, unit);
    auto const local = static_cast<std::uint32_t>(unit - p.first_unit);
    std::uint32_t const item = p.first_item + local / p.groups, at = local % p.groups * 4;
    packet<4>::load(from + p.from + std::size_t{from_slots[item]} * p.groups * 4 + at).store(to + p.to + std::size_t{to_slots[item]} * p.groups * 4 + at);
  }
}

/// One thread a row: the optimizer's own function, as on the host. @param slots  null: all slots of every part
template <class Optimizer, class Constants>
__global__ void update_rows(Optimizer optimizer, Constants constants, optimizer::clip_by_norm clip, update_part const* parts, std::uint32_t count, std::uint32_t const* slots,
                            std::uint8_t* has, float* rows, float* gradients, std::size_t units) {
  for (std::size_t unit = exec::first_unit(); unit < units; unit += exec::unit_stride()) {
    update_part const& p = part_of(parts, count, unit);
    auto const item = static_cast<std::uint32_t>(unit - p.first_unit);
    std::uint32_t const slot = slots == nullptr ? item : slots[p.first_item + item];
    std::uint8_t* const flag = has + p.first_flag + slot;
    if (*flag != 1) continue;
    float* const row = rows + p.rows + std::size_t{slot} * p.stride;
    float* const g = gradients + p.gradients + std::size_t{slot} * p.dim;
    std::size_t const dim = p.dim;
    clip.apply(g, dim);
    optimizer.update(row, row + dim, g, dim, constants);
    *flag = 2;  // done
  }
}

/// Contiguous rows into a window; padding becomes zero.
template <class = void>  // a template, for nvcc knows no inline kernels
__global__ void spread_rows(stretch_part const* parts, std::uint32_t count, float const* array, float* rows, std::size_t units) {
  for (std::size_t unit = exec::first_unit(); unit < units; unit += exec::unit_stride()) {
    stretch_part const& p = part_of(parts, count, unit);
    std::size_t const local = unit - p.first_unit, slot = local / p.stride, at = local % p.stride;
    rows[p.rows + local] = at < p.floats ? array[p.array + slot * p.floats + at] : 0.0f;
  }
}

/// The reverse; units are floats of the contiguous rows.
template <class = void>  // a template, for nvcc knows no inline kernels
__global__ void gather_rows(stretch_part const* parts, std::uint32_t count, float const* rows, float* array, std::size_t units) {
  for (std::size_t unit = exec::first_unit(); unit < units; unit += exec::unit_stride()) {
    stretch_part const& p = part_of(parts, count, unit);
    std::size_t const local = unit - p.first_unit, slot = local / p.floats, at = local % p.floats;
    array[p.array + local] = rows[p.rows + slot * p.stride + at];
  }
}

}  // namespace detail
}  // namespace nestpipe::embedding
