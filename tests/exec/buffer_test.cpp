#include <doctest/doctest.h>

#include <nestpipe/exec/buffer.hpp>

#include <cstdint>

namespace np = nestpipe;

TEST_CASE("a buffer allocates only while it grows") {
  np::exec::buffer<float> b;
  CHECK(b.size() == 0);
  CHECK(b.span().empty());
  b.resize(100);
  float const* const place = b.data();
  CHECK(reinterpret_cast<std::uintptr_t>(place) % np::alignment_bytes == 0);
  for (std::size_t i = 0; i < 100; ++i) b[i] = static_cast<float>(i);
  b.resize(10);
  CHECK(b.size() == 10);
  CHECK(b.data() == place);
  b.resize(100);
  CHECK(b.data() == place);
  CHECK(b[99] == 99.0f);  // contents stay while it does not grow
  b.resize(101);
  CHECK(b.capacity() >= 150);  // by half at least
  std::size_t const room = b.capacity();
  b.resize(room);
  CHECK(b.capacity() == room);
}

TEST_CASE("a buffer can be zeroed, moved and empty") {
  np::exec::buffer<std::uint32_t> b{7};
  for (std::size_t i = 0; i < 7; ++i) b[i] = 5;
  b.assign_zero(6);
  for (std::size_t i = 0; i < 6; ++i) CHECK(b[i] == 0);
  np::exec::buffer<std::uint32_t> c{std::move(b)};
  CHECK(c.size() == 6);
  CHECK(b.size() == 0);  // NOLINT: a moved-from buffer is empty
  CHECK(b.capacity() == 0);
  b.resize(3);
  b[2] = 9;
  c = std::move(b);
  CHECK(c.size() == 3);
  CHECK(c[2] == 9);
  c.assign_zero(0);
  CHECK(c.size() == 0);
}

TEST_CASE("large buffers work too") {
  np::exec::buffer<double> b;
  b.resize((std::size_t{3} << 20) / sizeof(double) + 1);  // beyond one huge page
  b[b.size() - 1] = 1.5;
  CHECK(b[b.size() - 1] == 1.5);
  CHECK(b[0] == 0.0);
  CHECK(reinterpret_cast<std::uintptr_t>(b.data()) % np::alignment_bytes == 0);
}
