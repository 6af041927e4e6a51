#include <doctest/doctest.h>

#include <nestpipe/engine/measure_limits.hpp>
#include <nestpipe/math/plain.hpp>
#include <nestpipe/model/logistic.hpp>

#include <cmath>

namespace np = nestpipe;
using np::engine::machine_limits;
using np::engine::step_work;

namespace {

step_work some_work() {
  step_work w;
  w.samples = 100;
  w.ids = 1000;
  w.pooled_bytes = 64'000;
  w.input_bytes = 10'000;
  w.rows = 500;
  w.stored_bytes = 64'000;
  w.sent_bytes = 64'000;
  w.products = 1e6;
  w.dense_bytes = 8'000;
  w.reduced_bytes = 4'000;
  w.batches = 1;
  w.micro_batches = 1;
  return w;
}

machine_limits some_limits() { return {.copy_bytes = 1e9, .far_copy_bytes = 1e8, .read_rows = 1e6, .write_rows = 5e5, .sorted_keys = 1e7, .products = 1e9}; }

}  // namespace

TEST_CASE("floors by hand") {
  auto const lanes = np::engine::lane_floors(some_work(), some_limits(), 1);
  auto const at = [&](np::exec::lane l) { return lanes[static_cast<std::size_t>(l)]; };
  CHECK(at(np::exec::lane::input) == doctest::Approx(1e-4));
  CHECK(at(np::exec::lane::route) == doctest::Approx(1e-4));
  CHECK(at(np::exec::lane::lookup) == doctest::Approx(5e-4 + 1e-3));
  CHECK(at(np::exec::lane::exchange) == doctest::Approx(6.4e-5));
  CHECK(at(np::exec::lane::compute) == doctest::Approx(1e-3 + 1.28e-4 + 6.4e-5 + 1.6e-5));
  CHECK(at(np::exec::lane::reduce) == 0);
  double const sum = 1e-4 + 1e-4 + 1.5e-3 + 6.4e-5 + 1.208e-3;
  using np::engine::floor_seconds;
  CHECK(floor_seconds(some_work(), some_limits(), {false, 2, 1, 1}) == doctest::Approx(sum));
  CHECK(floor_seconds(some_work(), some_limits(), {false, 2, 2, 1}) == doctest::Approx(sum / 2));
  CHECK(floor_seconds(some_work(), some_limits(), {true, 1, 1, 1}) == doctest::Approx(sum));
  CHECK(floor_seconds(some_work(), some_limits(), {true, 2, 1, 1}) == doctest::Approx(1.5e-3));   // the longest lane
  CHECK(floor_seconds(some_work(), some_limits(), {true, 1.5, 2, 1}) == doctest::Approx(sum / 1.5));  // all lanes on the cores
  CHECK(floor_seconds(some_work(), some_limits(), {true, 0.25, 1, 8}) > 4 * sum);                  // eight ranks on two cores
}

TEST_CASE("limits are measured, finite and not absurd") {
  step_work w = some_work();
  machine_limits const m = np::engine::measure_limits<np::math::plain>(w, 1 << 20);
  for (double const rate : {m.copy_bytes, m.far_copy_bytes, m.read_rows, m.write_rows, m.sorted_keys, m.products}) {
    CHECK(std::isfinite(rate));
    CHECK(rate > 1e3);
    CHECK(rate < 1e14);
  }
}
