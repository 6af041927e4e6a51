#pragma once
/// @file
/// Neighbouring floats that one thread moves and adds: one access of 16 bytes where widths and places allow it.

#include <nestpipe/exec/cuda/index.cuh>

namespace nestpipe::embedding {

/// Width floats in registers; Width 4 needs addresses that are multiples of 16 bytes, Width 1 goes everywhere.
template <unsigned Width>
struct packet {
  float at[Width];

  __device__ static packet zeros() {
    packet p;
    for (unsigned i = 0; i < Width; ++i) p.at[i] = 0.0f;
    return p;
  }
  __device__ static packet load(float const* from) {
    packet p;
    if constexpr (Width == 4) {
      float4 const v = *reinterpret_cast<float4 const*>(from);
      p.at[0] = v.x;
      p.at[1] = v.y;
      p.at[2] = v.z;
      p.at[3] = v.w;
    } else {
      for (unsigned i = 0; i < Width; ++i) p.at[i] = from[i];
    }
    return p;
  }
  __device__ void store(float* to) const {
    if constexpr (Width == 4) {
      *reinterpret_cast<float4*>(to) = make_float4(at[0], at[1], at[2], at[3]);
    } else {
      for (unsigned i = 0; i < Width; ++i) to[i] = at[i];
    }
  }
  __device__ void add(packet const& other) {
    for (unsigned i = 0; i < Width; ++i) at[i] += other.at[i];
  }
  __device__ void add_scaled(float s, packet const& other) {
    for (unsigned i = 0; i < Width; ++i) at[i] += s * other.at[i];
  }
};

/// Which of several parts a unit of work belongs to. Parts have a member `first_unit`, ascending from 0; parts without units are fine.
/// O(log n).
template <class Part>
__device__ Part const& part_of(Part const* parts, unsigned n, std::size_t unit) {
  unsigned low = 0, high = n;  // the last part that starts at or before the unit
  while (high - low > 1) {
    unsigned const middle = (low + high) / 2;
    if (parts[middle].first_unit <= unit) {
      low = middle;
    } else {
      high = middle;
    }
  }
  return parts[low];
}

/// Calls f with 4 or 1 as a compile-time constant.
template <class F>
void with_packet_width(bool sixteen_bytes, F f) {
  if (sixteen_bytes) {
    f(std::integral_constant<unsigned, 4>{});
  } else {
    f(std::integral_constant<unsigned, 1>{});
  }
}

}  // namespace nestpipe::embedding
