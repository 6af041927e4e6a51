#pragma once
/// @file
/// Pooled look-up and its transpose on the device: the arithmetic of embedding/pooling.hpp, bit for bit.
///
/// A thread owns one packet (four neighbouring floats, or one) of one sum and adds its terms in order, so neighbouring threads read
/// neighbouring packets of the same row: a bag of 64 floats is half a warp, reading 16 bytes a lane. Sums of more than sum_block
/// terms are cut there: their blocks are added up by different threads, then folded in order.

#include <nestpipe/embedding/cuda/micro_tables.cuh>
#include <nestpipe/embedding/cuda/packet.cuh>
#include <nestpipe/exec/cuda/launch.cuh>

namespace nestpipe::embedding {
namespace detail {

/// Terms of bags: value p of a bag contributes to packet `group`.
template <unsigned Width>
struct bag_terms {
  micro_view m;
  float const* landing;

  __device__ packet<Width> sum(pool_part const& f, std::uint32_t bag, std::uint32_t group, std::uint32_t from, std::uint32_t to) const {
    packet<Width> total = packet<Width>::zeros();
    bool const squares = f.kind == pooling::sum_and_squares && group * Width >= f.dim;
    std::uint32_t const at = squares ? group * Width - f.dim : group * Width;
    float const share = f.kind == pooling::mean ? 1.0f / static_cast<float>(m.offsets[bag + 1] - m.offsets[bag]) : 1.0f;
#pragma unroll 4
    for (std::uint32_t p = from; p < to; ++p) {
      packet<Width> row = packet<Width>::load(landing + m.place[m.occurrence_entry[p]] + at);
      float const w = m.weights == nullptr ? 1.0f : m.weights[p];
      if (squares) {
        for (unsigned i = 0; i < Width; ++i) {
          float const x = w * row.at[i];
          total.at[i] += x * x;
        }
      } else {
        total.add_scaled(f.kind == pooling::mean ? w * share : w, row);
      }
    }
    return total;
  }
};

/// Terms of keys: use k of an entry contributes to its gradient.
template <unsigned Width>
struct key_terms {
  micro_view m;
  float const* landing;
  float const* d_pooled;
  float const* d_rows;

  __device__ packet<Width> sum(std::uint32_t entry, std::uint32_t group, std::uint32_t from, std::uint32_t to) const {
    packet<Width> total = packet<Width>::zeros();
    std::uint32_t const at = group * Width;
#pragma unroll 2
    for (std::uint32_t k = from; k < to; ++k) {
      occurrence const use = m.uses[k];
      pool_part const& f = m.features[use.feature];
      if (f.kind == pooling::none) {
        total.add(packet<Width>::load(d_rows + f.rows + std::size_t{use.position - f.first_value} * f.dim + at));
        continue;
      }
      float const* const d = d_pooled + std::size_t{use.sample} * m.pooled_width + f.column + at;
      float const w = m.weights == nullptr ? 1.0f : m.weights[use.position];
      if (f.kind == pooling::sum_and_squares) {
        float const twice = 2.0f * (w * w);
        packet<Width> const first = packet<Width>::load(d), second = packet<Width>::load(d + f.dim), v = packet<Width>::load(landing + m.place[entry] + at);
        for (unsigned i = 0; i < Width; ++i) total.at[i] += w * first.at[i] + twice * v.at[i] * second.at[i];
        continue;
      }
      std::uint32_t const bag = f.first_bag + use.sample;
      float const scale = f.kind == pooling::mean ? w * (1.0f / static_cast<float>(m.offsets[bag + 1] - m.offsets[bag])) : w;
      total.add_scaled(scale, packet<Width>::load(d));
    }
    return total;
  }
};

__device__ inline std::uint32_t head_end(std::uint32_t from, std::uint32_t to) {
  return to - from > static_cast<std::uint32_t>(sum_block) ? from + static_cast<std::uint32_t>(sum_block) : to;
}

template <unsigned Width>
__global__ void pool_heads(bag_terms<Width> terms, float* pooled, float* rows, std::size_t units) {
  micro_view const& m = terms.m;
  for (std::size_t unit = exec::first_unit(); unit < units; unit += exec::unit_stride()) {
    pool_part const& f = part_of(m.features, m.feature_count, unit);
    auto const local = static_cast<std::uint32_t>(unit - f.first_unit);
    std::uint32_t const item = local / f.groups, group = local % f.groups;
    if (f.kind == pooling::none) {
      packet<Width>::load(terms.landing + m.place[m.occurrence_entry[f.first_value + item]] + group * Width)
          .store(rows + f.rows + std::size_t{item} * f.dim + group * Width);
      continue;
    }
    std::uint32_t const bag = f.first_bag + item, from = m.offsets[bag];
    terms.sum(f, bag, group, from, head_end(from, m.offsets[bag + 1])).store(pooled + std::size_t{item} * m.pooled_width + f.column + group * Width);
  }
}

template <unsigned Width>
__global__ void pool_blocks(bag_terms<Width> terms, block_part const* blocks, std::uint32_t count, float* scratch, std::size_t units) {
  for (std::size_t unit = exec::first_unit(); unit < units; unit += exec::unit_stride()) {
    block_part const& b = part_of(blocks, count, unit);
    auto const group = static_cast<std::uint32_t>(unit - b.first_unit);
    terms.sum(terms.m.features[b.part], b.sum, group, b.from, b.to).store(scratch + b.partial + std::size_t{group} * Width);
  }
}

template <unsigned Width>
__global__ void key_heads(key_terms<Width> terms, float* out, std::size_t units) {
  micro_view const& m = terms.m;
  for (std::size_t unit = exec::first_unit(); unit < units; unit += exec::unit_stride()) {
    entry_part const& t = part_of(m.tables, m.table_count, unit);
    auto const local = static_cast<std::uint32_t>(unit - t.first_unit);
    std::uint32_t const entry = t.first_entry + local / t.groups, group = local % t.groups, from = m.entry_start[entry];
    terms.sum(entry, group, from, head_end(from, m.entry_start[entry + 1])).store(out + m.entry_offset[entry] + group * Width);
  }
}

template <unsigned Width>
__global__ void key_blocks(key_terms<Width> terms, block_part const* blocks, std::uint32_t count, float* scratch, std::size_t units) {
  for (std::size_t unit = exec::first_unit(); unit < units; unit += exec::unit_stride()) {
    block_part const& b = part_of(blocks, count, unit);
    auto const group = static_cast<std::uint32_t>(unit - b.first_unit);
    terms.sum(b.sum, group, b.from, b.to).store(scratch + b.partial + std::size_t{group} * Width);
  }
}

/// Where the whole of a sum belongs.
struct pooled_target {
  micro_view m;
  float* pooled;
  __device__ float* of(long_part const& s) const {
    pool_part const& f = m.features[s.part];
    return pooled + std::size_t{s.sum - f.first_bag} * m.pooled_width + f.column;
  }
};
struct gradient_target {
  micro_view m;
  float* out;
  __device__ float* of(long_part const& s) const { return out + m.entry_offset[s.sum]; }
};

template <unsigned Width, class Target>
__global__ void fold_blocks(Target target, long_part const* sums, std::uint32_t count, float const* scratch, std::size_t units) {
  for (std::size_t unit = exec::first_unit(); unit < units; unit += exec::unit_stride()) {
    long_part const& s = part_of(sums, count, unit);
    auto const group = static_cast<std::uint32_t>(unit - s.first_unit);
    float* const to = target.of(s) + std::size_t{group} * Width;
    packet<Width> total = packet<Width>::load(to);
    for (std::uint32_t b = 0; b < s.blocks; ++b) total.add(packet<Width>::load(scratch + s.partial + (std::size_t{b} * s.groups + group) * Width));
    total.store(to);
  }
}

}  // namespace detail

/// Pools micro-batches on the device; owns scratch only. All pointers are device memory, their bases aligned to 16 bytes.
class device_pooler {
 public:
  /// As pooler::forward. @param rows  of all features with pooling none, one feature after the other (tables.sequence_floats())
  void forward(micro_tables const& tables, float const* landing, float* pooled, float* rows, cudaStream_t stream) {
    with_packet_width(tables.sixteen_bytes(), [&](auto width) {
      detail::bag_terms<width> const terms{tables.view(), landing};
      long_sums const& bags = tables.bags();
      exec::launch(stream, tables.forward_units(), detail::pool_heads<width>, terms, pooled, rows, tables.forward_units());
      scratch_.resize(bags.scratch_floats(), stream);
      exec::launch(stream, bags.block_units(), detail::pool_blocks<width>, terms, bags.blocks(), bags.block_count(), scratch_.data(), bags.block_units());
      exec::launch(stream, bags.sum_units(), detail::fold_blocks<width, detail::pooled_target>, detail::pooled_target{tables.view(), pooled}, bags.sums(),
                   bags.sum_count(), scratch_.data(), bags.sum_units());
    });
  }

  /// As pooler::backward. @param d_rows  as rows of forward  @param out  gradients of the distinct keys (micro_route.floats)
  void backward(micro_tables const& tables, float const* landing, float const* d_pooled, float const* d_rows, float* out, cudaStream_t stream) {
    with_packet_width(tables.sixteen_bytes(), [&](auto width) {
      detail::key_terms<width> const terms{tables.view(), landing, d_pooled, d_rows};
      long_sums const& keys = tables.keys();
      exec::launch(stream, tables.backward_units(), detail::key_heads<width>, terms, out, tables.backward_units());
      scratch_.resize(keys.scratch_floats(), stream);
      exec::launch(stream, keys.block_units(), detail::key_blocks<width>, terms, keys.blocks(), keys.block_count(), scratch_.data(), keys.block_units());
      exec::launch(stream, keys.sum_units(), detail::fold_blocks<width, detail::gradient_target>, detail::gradient_target{tables.view(), out}, keys.sums(),
                   keys.sum_count(), scratch_.data(), keys.sum_units());
    });
  }

 private:
  exec::buffer<float, exec::cuda> scratch_;
};

}  // namespace nestpipe::embedding
