// Every matrix product of this build against sums in double: all forms, strides, sizes; one thread; the same bits again.
#include <nestpipe/core/random.hpp>
#include <nestpipe/math/default.hpp>
#include <nestpipe/math/scratch.hpp>

#include <doctest/doctest.h>

#include <cmath>
#include <cstring>
#include <limits>
#include <thread>
#include <vector>

using namespace nestpipe;

namespace {

template <class Scalar>
std::vector<Scalar> random(std::size_t n, std::uint64_t stream) {
  std::vector<Scalar> v(n);
  counter_random const draw{5, stream, 0};
  for (std::size_t i = 0; i < n; ++i) v[i] = static_cast<Scalar>(2 * draw.uniform_double(i) - 1);
  return v;
}

// Largest error over k + 1; padding between rows must keep its values.
template <class Math, class Scalar>
double error(bool ta, bool tb, std::size_t m, std::size_t n, std::size_t k, Scalar alpha, Scalar beta, std::size_t pad) {
  std::size_t const lda = (ta ? m : k) + pad, ldb = (tb ? k : n) + pad, ldc = n + pad;
  auto const a = random<Scalar>((ta ? k : m) * lda + 1, 1);
  auto const b = random<Scalar>((tb ? n : k) * ldb + 1, 2);
  auto c = random<Scalar>(m * ldc + 1, 3);
  auto const before = c;
  if (beta == Scalar{0})
    for (std::size_t i = 0; i < m; ++i)
      for (std::size_t j = 0; j < n; ++j) c[i * ldc + j] = std::numeric_limits<Scalar>::quiet_NaN();
  math::gemm<Math, Scalar>(ta, tb, m, n, k, alpha, a.data(), lda, b.data(), ldb, beta, c.data(), ldc);
  double worst = 0;
  for (std::size_t i = 0; i < m; ++i)
    for (std::size_t j = 0; j < ldc; ++j) {
      double expected = static_cast<double>(before[i * ldc + j]);
      if (j < n) {
        double sum = 0;
        for (std::size_t l = 0; l < k; ++l)
          sum += static_cast<double>(ta ? a[l * lda + i] : a[i * lda + l]) * static_cast<double>(tb ? b[j * ldb + l] : b[l * ldb + j]);
        expected = static_cast<double>(alpha) * sum + static_cast<double>(beta) * expected;
      }
      double const difference = std::abs(static_cast<double>(c[i * ldc + j]) - expected);
      if (!(difference <= worst)) worst = difference;  // NaN counts as the worst
    }
  return worst / static_cast<double>(k + 1);
}

template <class Math, class Scalar>
void check_forms() {
  static_assert(math::backend<Math, Scalar>);
  double const tolerance = 4 * static_cast<double>(std::numeric_limits<Scalar>::epsilon());
  std::size_t const sizes[][3] = {{1, 1, 1}, {2, 3, 4}, {5, 1, 7}, {1, 9, 3}, {17, 33, 65}, {64, 64, 64}, {130, 70, 40}, {3, 100, 300}, {0, 3, 3}, {3, 0, 3}, {3, 3, 0}, {0, 0, 0}};
  for (auto const& s : sizes)
    for (int form = 0; form < 4; ++form)
      for (std::size_t const pad : {0u, 3u})
        for (Scalar const beta : {Scalar{0}, Scalar{1}, Scalar{0.5}})
          for (Scalar const alpha : {Scalar{1}, Scalar{-2}}) {
            CAPTURE(s[0]);
            CAPTURE(s[1]);
            CAPTURE(s[2]);
            CAPTURE(form);
            CHECK(error<Math, Scalar>(form & 1, form & 2, s[0], s[1], s[2], alpha, beta, pad) <= tolerance);
          }
}

// Bits of a product whose buffers start `shift` elements past a cache line.
template <class Math>
std::vector<float> product(bool ta, bool tb, std::size_t m, std::size_t n, std::size_t k, std::size_t shift) {
  math::scratch<float> a, b, c;
  auto const va = random<float>(m * k, 1), vb = random<float>(k * n, 2);
  std::copy(va.begin(), va.end(), a.reserve(m * k + shift) + shift);
  std::copy(vb.begin(), vb.end(), b.reserve(k * n + shift) + shift);
  float* const out = c.reserve(m * n + shift) + shift;
  math::gemm<Math, float>(ta, tb, m, n, k, 1.0f, a.data() + shift, ta ? m : k, b.data() + shift, tb ? k : n, 0.0f, out, n);
  return {out, out + m * n};
}

bool same_bits(std::vector<float> const& a, std::vector<float> const& b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size() * sizeof(float)) == 0;
}

template <class Math>
void check_bits(bool any_alignment) {
  std::size_t const sizes[][3] = {{200, 64, 13}, {13, 64, 200}, {200, 1, 64}, {64, 1, 200}, {200, 131, 77}, {512, 256, 415}};
  for (auto const& s : sizes)
    for (int form = 0; form < 3; ++form) {
      auto const once = product<Math>(form == 1, form == 2, s[0], s[1], s[2], 0);
      CHECK(same_bits(once, product<Math>(form == 1, form == 2, s[0], s[1], s[2], 0)));
      if (any_alignment) {
        CHECK(same_bits(once, product<Math>(form == 1, form == 2, s[0], s[1], s[2], 1)));
        CHECK(same_bits(once, product<Math>(form == 1, form == 2, s[0], s[1], s[2], 7)));
      }
      std::vector<float> one, two;
      std::thread first{[&] { one = product<Math>(form == 1, form == 2, s[0], s[1], s[2], 0); }};
      std::thread second{[&] { two = product<Math>(form == 1, form == 2, s[0], s[1], s[2], 0); }};
      first.join();
      second.join();
      CHECK(same_bits(once, one));
      CHECK(same_bits(once, two));
    }
}

}  // namespace

TEST_CASE("plain loops multiply matrices") {
  check_forms<math::plain, float>();
  check_forms<math::plain, double>();
  check_bits<math::plain>(true);
}

TEST_CASE("the automatic backend multiplies matrices in float and double") {
  check_forms<math::automatic, float>();
  check_forms<math::automatic, double>();
  CHECK(std::strlen(math::automatic::name) > 0);
}

#if defined(NESTPIPE_WITH_EIGEN)
TEST_CASE("Eigen multiplies matrices") {
  check_forms<math::eigen, float>();
  check_forms<math::eigen, double>();
  check_bits<math::eigen>(false);  // its sums may change with alignment: the library's buffers are aligned
}
#endif

#if defined(NESTPIPE_WITH_ONEDNN)
extern "C" int omp_get_max_threads() __attribute__((weak));
extern "C" void omp_set_num_threads(int) __attribute__((weak));

TEST_CASE("oneDNN multiplies matrices, on one thread, with the same bits at any alignment") {
  check_forms<math::onednn, float>();
  check_bits<math::onednn>(true);
  if (omp_get_max_threads != nullptr) {
    std::thread user{[] {
      omp_set_num_threads(3);  // a thread of the program that uses OpenMP itself
      std::thread lane{[] {
        static_cast<void>(product<math::onednn>(false, false, 4, 4, 4, 0));
        CHECK(omp_get_max_threads() == 1);
      }};
      lane.join();
      CHECK(omp_get_max_threads() == 3);
    }};
    user.join();
  }
}
#endif

TEST_CASE("scratch grows, keeps its memory, and is aligned") {
  math::scratch<float> s;
  CHECK(s.data() == nullptr);
  float* const first = s.reserve(100);
  CHECK(reinterpret_cast<std::uintptr_t>(first) % alignment_bytes == 0);
  first[99] = 3;
  CHECK(s.reserve(10) == first);
  CHECK(s.reserve(100)[99] == 3);
  CHECK(s.capacity() == 100);
  CHECK(reinterpret_cast<std::uintptr_t>(s.reserve(1000)) % alignment_bytes == 0);
  math::scratch<float> const moved = std::move(s);
  CHECK(moved.capacity() == 1000);
}
