#pragma once
/// @file
/// Floating-point operations per second of one thread.

#include "clock.hpp"

namespace nestpipe::bench {

/// Operations per second, a fused multiply-add counted twice: twelve independent chains, so neither latency nor memory plays a part.
inline double fma_peak(std::size_t reps = 7) {
#if defined(__AVX512F__)
  constexpr std::size_t width = 64;
#elif defined(__AVX__)
  constexpr std::size_t width = 32;
#else
  constexpr std::size_t width = 16;
#endif
  typedef float lanes __attribute__((vector_size(width)));
  constexpr std::size_t rounds = 200000;
  lanes const a = lanes{} + 0.999f;
  lanes const b = lanes{} + 0.001f;
  // By hand: this project compiles without contraction of a multiply and an add.
  auto const step = [&](lanes& c) {
#if defined(__FMA__)
    asm("vfmadd213ps %2, %1, %0" : "+x"(c) : "x"(a), "x"(b));
#else
    c = c * a + b;
#endif
  };
  double const s = median_seconds(reps, [&](std::size_t) {
    lanes c0{}, c1{}, c2{}, c3{}, c4{}, c5{}, c6{}, c7{}, c8{}, c9{}, c10{}, c11{};
    for (std::size_t r = 0; r < rounds; ++r) {
      step(c0);
      step(c1);
      step(c2);
      step(c3);
      step(c4);
      step(c5);
      step(c6);
      step(c7);
      step(c8);
      step(c9);
      step(c10);
      step(c11);
    }
    lanes const sum = c0 + c1 + c2 + c3 + c4 + c5 + c6 + c7 + c8 + c9 + c10 + c11;
    keep(&sum);
  });
  return 2.0 * 12.0 * static_cast<double>(rounds * (width / sizeof(float))) / s;
}

}  // namespace nestpipe::bench
