#pragma once
/// @file
/// Matrix product of oneDNN (single precision), on the calling thread alone.

#if !__has_include(<oneapi/dnnl/dnnl.h>)
#error "nestpipe: <nestpipe/math/onednn.hpp> needs oneDNN (Debian: libdnnl-dev; CMake: link nestpipe::onednn)"
#endif

#include <oneapi/dnnl/dnnl.h>

#include <nestpipe/core/error.hpp>
#include <nestpipe/math/backend.hpp>

#include <string>
#include <type_traits>

// Weak: a oneDNN built without OpenMP brings no such function, and none is needed then. Under a name of its own, because the
// declarations of different omp.h do not agree.
extern "C" void nestpipe_omp_set_num_threads(int) __asm__("omp_set_num_threads") __attribute__((weak));

namespace nestpipe::math {

struct onednn {
  static constexpr char const* name = "onednn";

  /// @throws error if oneDNN refuses the call, or if it cannot be kept to one thread.
  template <class Scalar>
  static void gemm(bool transpose_a, bool transpose_b, std::size_t m, std::size_t n, std::size_t k, Scalar alpha,
                   Scalar const* a, std::size_t lda, Scalar const* b, std::size_t ldb, Scalar beta, Scalar* c,
                   std::size_t ldc) {
    static_assert(std::is_same_v<Scalar, float>,
                  "nestpipe: math::onednn multiplies float only: use math::eigen or math::plain for double");
    thread_local bool const single = keep_to_one_thread();
    static_cast<void>(single);
    dnnl_status_t const status = dnnl_sgemm(transpose_a ? 'T' : 'N', transpose_b ? 'T' : 'N', integer(m), integer(n), integer(k),
                                            alpha, a, integer(lda), b, integer(ldb), beta, c, integer(ldc));
    if (status != dnnl_success)
      throw error{"oneDNN matrix product failed with status " + std::to_string(static_cast<int>(status)),
                  "m " + std::to_string(m) + ", n " + std::to_string(n) + ", k " + std::to_string(k), "try math::eigen"};
  }

 private:
  static dnnl_dim_t integer(std::size_t n) { return static_cast<dnnl_dim_t>(n); }

  /// OpenMP keeps the count per calling thread, so this is done once on each; other threads of the program keep theirs.
  static bool keep_to_one_thread() {
    unsigned const runtime = dnnl_version()->cpu_runtime;
    if (runtime == DNNL_RUNTIME_SEQ) return true;
    if (runtime != DNNL_RUNTIME_OMP || nestpipe_omp_set_num_threads == nullptr)
      throw error{"oneDNN cannot be kept to one thread", runtime == DNNL_RUNTIME_OMP ? "omp_set_num_threads not linked" : "its runtime is not OpenMP",
                  "link the OpenMP runtime library (nestpipe::onednn does), or use math::eigen"};
    nestpipe_omp_set_num_threads(1);
    return true;
  }
};

}  // namespace nestpipe::math
