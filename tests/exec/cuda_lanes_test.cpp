// Streams, events, buffers and lanes over the emulated device; tests/cuda/device_tests.cu runs it on a real one.
#include <doctest/doctest.h>

#include <nestpipe/exec/cuda/buffer.cuh>
#include <nestpipe/exec/cuda/index.cuh>
#include <nestpipe/exec/cuda/lanes.cuh>
#include <nestpipe/exec/cuda/launch.cuh>

#include <support/device_orders.hpp>

#include <string>
#include <vector>

namespace np = nestpipe;
using np::exec::op;
using np::exec::stage;

static_assert(np::exec::executor<np::exec::cuda_lanes>);
static_assert(std::is_same_v<np::exec::space_of<np::exec::cuda_lanes>, np::exec::cuda>);
static_assert(std::is_same_v<np::exec::space_of<np::exec::thread_lanes>, np::exec::host>);

namespace lane_kernels {

template <class = void>
__global__ void append(std::uint32_t* values, std::uint32_t mixed, std::size_t n) {
  for (std::size_t i = np::exec::first_unit(); i < n; i += np::exec::unit_stride()) values[i] = values[i] * 31 + mixed;
}

}  // namespace lane_kernels

namespace {

constexpr std::size_t length = 600;  // more than two blocks

/// Every op changes all values in a way that no two orders have in common.
struct chain {
  np::exec::buffer<std::uint32_t, np::exec::cuda> values;
  bool fail_at_route = false;
  std::string heard;
  void execute(op const& o) {
    if (fail_at_route && o.what == stage::route) throw np::error{"route went wrong"};
    np::exec::launch(np::exec::this_stream(), length, lane_kernels::append<void>, values.data(), static_cast<std::uint32_t>(o.what) * 1000 + static_cast<std::uint32_t>(o.batch), length);
  }
  void failed(std::exception_ptr e) noexcept {
    try {
      std::rethrow_exception(e);
    } catch (std::exception const& x) {
      heard = x.what();
    }
  }
};

std::vector<std::uint32_t> fetch(chain& c) {
  np::exec::cuda_stream s;
  np::exec::pinned_buffer<std::uint32_t> p;
  p.resize(length);
  np::exec::copy_to_host(p.data(), c.values.data(), length, s.get());
  s.synchronize();
  return {p.data(), p.data() + length};
}

}  // namespace

TEST_CASE("ops on different lanes run on their streams in the order of their events") {
  np::test::in_every_order([] {
    chain c;
    np::exec::cuda_stream first;
    c.values.assign_zero(length, first.get());
    first.synchronize();
    np::exec::cuda_lanes lanes;
    std::uint32_t expected = 0;
    for (int again = 0; again < 2; ++again) {  // lanes can be started anew
      lanes.start(np::exec::work::of(c));
      np::exec::event last{};
      std::uint64_t const batches = again == 0 ? 300 : 3;  // more ops than a lane queues
      for (std::uint64_t b = 0; b < batches; ++b) {
        for (stage const s : {stage::route, stage::retrieve, stage::forward_backward, stage::exchange_gradients, stage::update_rows}) {
          np::exec::event const after[] = {last};
          last = lanes.issue({s, b}, after);
          expected = expected * 31 + static_cast<std::uint32_t>(s) * 1000 + static_cast<std::uint32_t>(b);
        }
      }
      if (again == 0) {
        lanes.wait(last);
      } else {
        lanes.drain();
      }
      auto const got = fetch(c);
      CHECK(got.front() == expected);
      CHECK(got.back() == expected);
    }
    lanes.stop();
  });
}

TEST_CASE("an op that throws reaches the handler and the caller") {
  chain c;
  np::exec::cuda_stream first;
  c.values.assign_zero(length, first.get());
  first.synchronize();
  c.fail_at_route = true;
  np::exec::cuda_lanes lanes;
  lanes.start(np::exec::work::of(c));
  lanes.issue({stage::retrieve, 0}, {});
  lanes.issue({stage::route, 0}, {});
  CHECK_THROWS_WITH_AS(lanes.drain(), "route went wrong", np::error);
  lanes.stop();
  CHECK(c.heard == "route went wrong");
}

TEST_CASE("buffers allocate while they grow, uploads do not wait for their source") {
  np::exec::cuda_stream s;
  np::exec::upload<int> up;
  np::exec::pinned_buffer<int> back;
  back.resize(300);
  std::vector<int> values;
#if defined(NESTPIPE_EMULATED_DEVICE)
  std::uint64_t before = 0;
#endif
  for (int step = 0; step < 6; ++step) {
    values.assign(step < 2 ? 100 * (static_cast<std::size_t>(step) + 1) : 150, step);
    up.put(values, s.get());
    values.assign(values.size(), -1);  // the source may change at once
    np::exec::copy_to_host(back.data(), up.device(), values.size(), s.get());
    s.synchronize();
    CHECK(back[0] == step);
    CHECK(back[values.size() - 1] == step);
#if defined(NESTPIPE_EMULATED_DEVICE)
    if (step == 1) before = emulation::count().allocations;
    CHECK((step < 2 || emulation::count().allocations == before));
#endif
  }
}

#if defined(NESTPIPE_EMULATED_DEVICE)
TEST_CASE("errors name the call, the place and the code; without a device there is one line") {
  emulation::use({emulation::order::ascending, emulation::pace::lazy, 1, true, 0});
  CHECK(np::exec::cuda_devices() == 0);
  CHECK_THROWS_WITH(np::exec::require_cuda_device(), "no CUDA device; run on a machine with an NVIDIA GPU and its driver, or choose the host space");
  np::exec::cuda_lanes lanes;
  chain c;
  CHECK_THROWS_WITH_AS(lanes.start(np::exec::work::of(c)), doctest::Contains("no CUDA device"), np::error);
  emulation::use({});
  np::exec::cuda_stream s;
  std::string text;
  try {
    NESTPIPE_CUDA_TRY(cudaFree(&text));
  } catch (np::exec::cuda_error const& e) {
    text = e.what();
    CHECK(e.code() == cudaErrorInvalidValue);
  }
  CHECK(text.find("CUDA: cudaErrorInvalidValue (1)") == 0);
  CHECK(text.find("cudaFree(&text) at cuda_lanes_test.cpp:") != std::string::npos);
}

TEST_CASE("a forgotten event is seen: work that nobody waits for has not happened") {
  // The lanes without their streams' waits: what thread_lanes would do with a device.
  emulation::use({});
  np::exec::cuda_stream producer, consumer;
  np::exec::upload<int> up;
  np::exec::pinned_buffer<int> back;
  back.resize(1);
  np::exec::buffer<int, np::exec::cuda> values;
  values.assign_zero(1, producer.get());
  producer.synchronize();
  up.put(std::vector<int>{5}, producer.get());
  np::exec::copy_on_device(values.data(), up.device(), 1, producer.get());
  np::exec::copy_to_host(back.data(), values.data(), 1, consumer.get());
  consumer.synchronize();
  CHECK(back[0] == 0);
  producer.synchronize();
}
#endif
