// Rates of the device parts beside what the device can copy, in one run: bench.cuda.device_rates [small]. Prints one JSON object.
// Pooled look-up and its transpose, packing and updates move rows: bytes are those of the rows and results, without indices.
#include <nestpipe/embedding/cuda/distinct_keys.cuh>
#include <nestpipe/embedding/cuda/pooling.cuh>
#include <nestpipe/embedding/cuda/window.cuh>
#include <nestpipe/embedding/source_route.hpp>
#include <nestpipe/optimizer/rowwise_adagrad.hpp>
#include <nestpipe/optimizer/sgd.hpp>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

namespace np = nestpipe;

namespace {

std::string report;

void say(std::string const& name, double value, char const* unit) {
  char text[160];
  std::snprintf(text, sizeof text, "%s\"%s_%s\": %.4g", report.empty() ? "" : ", ", name.c_str(), unit, value);
  report += text;
  std::fprintf(stderr, "  %-34s %10.4g %s\n", name.c_str(), value, unit);
}

/// Median seconds of one call over several, after two to warm up.
template <class F>
double seconds(cudaStream_t s, F const& f) {
  np::exec::cuda_event begin{true}, end{true};
  std::vector<float> ms;
  for (int i = 0; i < 13; ++i) {
    begin.record(s);
    f();
    end.record(s);
    end.synchronize();
    float t = 0;
    NESTPIPE_CUDA_TRY(cudaEventElapsedTime(&t, begin.get(), end.get()));
    if (i >= 2) ms.push_back(t);
  }
  std::nth_element(ms.begin(), ms.begin() + 5, ms.end());
  return static_cast<double>(ms[5]) * 1e-3;
}

/// `samples` samples of `features` features of one table each, `ids` ids a bag, uniform keys.
np::sample_block block_of(std::size_t features, std::size_t samples, std::size_t ids, std::uint64_t keys) {
  np::counter_random const random{1, 2, 3};
  np::sample_block b;
  b.samples = samples;
  b.ids.features = features;
  b.ids.samples = samples;
  b.ids.offsets.clear();
  for (std::size_t i = 0; i <= features * samples; ++i) b.ids.offsets.push_back(static_cast<std::uint32_t>(i * ids));
  b.ids.values.resize(features * samples * ids);
  for (std::size_t i = 0; i < b.ids.values.size(); ++i) b.ids.values[i] = random.below(i, keys);
  return b;
}

void pooling(bool small, std::size_t dim, double copy_rate, cudaStream_t s) {
  std::vector<np::table> tables;
  std::vector<np::feature> features;
  std::size_t const count = small ? 2 : 26, samples = small ? 64 : 8192, ids = 10;
  for (std::size_t f = 0; f < count; ++f) {
    tables.push_back({"t" + std::to_string(f), dim});
    features.push_back({"f" + std::to_string(f), "t" + std::to_string(f)});
  }
  np::embedding_layout const layout{tables, features};
  np::sample_block const block = block_of(count, samples, ids, small ? 1000 : 1'000'000);
  np::embedding::route_shape const shape{1, 1, static_cast<std::uint32_t>(count), 1024};
  np::embedding::source_route route;
  route.build(layout, std::span{&block, 1}, shape);
  route.land(layout, shape, false, {});
  np::embedding::micro_tables micro;
  micro.build(layout, block.ids, route.micro[0], s);
  np::exec::buffer<float, np::exec::cuda> landing, pooled, gradients;
  landing.assign_zero(route.micro[0].floats, s);
  pooled.assign_zero(samples * layout.pooled_width(), s);
  gradients.resize(route.micro[0].floats, s);
  np::embedding::device_pooler pool;
  double const values = static_cast<double>(block.ids.values.size()), row = static_cast<double>(dim) * 4;
  double const results = static_cast<double>(samples * layout.pooled_width()) * 4, keys = static_cast<double>(route.micro[0].floats) * 4;
  std::string const at = "_dim" + std::to_string(dim);
  double const forward = (values * row + results) / seconds(s, [&] { pool.forward(micro, landing.data(), pooled.data(), nullptr, s); }) * 1e-9;
  say("pooled_lookup" + at, forward, "GBps");
  say("pooled_lookup_of_copy" + at, forward / copy_rate, "ratio");
  double const backward = (values * row + keys) / seconds(s, [&] { pool.backward(micro, landing.data(), pooled.data(), nullptr, gradients.data(), s); }) * 1e-9;
  say("key_gradients" + at, backward, "GBps");
}

template <class Optimizer>
void window(bool small, char const* name, Optimizer const& optimizer, std::size_t dim, double copy_rate, cudaStream_t s) {
  std::size_t const n = small ? 1000 : 1'000'000, floats = dim + optimizer.state_size(dim);
  np::embedding::owner_route route;
  np::embedding::route_shape const shape{1, 1, 1, 1024};
  route.counts = {static_cast<std::uint32_t>(n), static_cast<std::uint32_t>(n)};
  route.expect(shape);
  std::vector<std::uint32_t> all(n);
  for (std::uint32_t i = 0; i < n; ++i) {
    route.received[i] = i;
    route.slots[i] = all[i] = i;
  }
  route.build(shape, false);
  np::embedding::device_window w;
  w.shape(std::vector<std::size_t>{dim}, std::vector<std::size_t>{floats});
  w.reset(route, s);
  np::exec::buffer<float, np::exec::cuda> array, packed;
  array.assign_zero(w.array_floats(), s);
  packed.assign_zero(n * dim, s);
  w.fill(array.data(), s);
  np::embedding::device_window::slot_list rows, gradients;
  rows.add(w, 0, all, true);
  gradients.add(w, 0, all, false);
  double const row = static_cast<double>(n) * static_cast<double>(dim) * 4;
  std::string const at = std::string{"_"} + name + "_dim" + std::to_string(dim);
  say("send_rows" + at, 2 * row / seconds(s, [&] { w.send(rows, packed.data(), s); }) * 1e-9, "GBps");
  // An update reads row, state and gradient and writes row and state; the gradients come back before each.
  double const folding = seconds(s, [&] {
    w.fold(gradients, packed.data(), s);
  });
  double const both = seconds(s, [&] {
    w.fold(gradients, packed.data(), s);
    w.update(optimizer, 1, 1.0f, {}, nullptr, s);
  });
  double const bytes = static_cast<double>(n) * static_cast<double>(2 * floats + dim) * 4;
  say("fold_gradients" + at, 3 * row / folding * 1e-9, "GBps");
  say("update_rows" + at, bytes / (both - folding) * 1e-9, "GBps");
  say("update_rows_of_copy" + at, bytes / (both - folding) * 1e-9 / copy_rate, "ratio");
}

void run(bool small) {
  np::exec::require_cuda_device();
  np::exec::keep_device_memory();
  cudaDeviceProp device{};
  NESTPIPE_CUDA_TRY(cudaGetDeviceProperties(&device, 0));
  np::exec::cuda_stream stream;
  cudaStream_t const s = stream.get();
  std::size_t const bytes = small ? std::size_t{1} << 20 : std::size_t{1} << 30;
  double copy_rate = 0;
  {
    np::exec::buffer<std::byte, np::exec::cuda> a, b;
    a.assign_zero(bytes, s);
    b.assign_zero(bytes, s);
    copy_rate = 2 * static_cast<double>(bytes) / seconds(s, [&] { np::exec::copy_on_device(b.data(), a.data(), bytes, s); }) * 1e-9;
    say("device_copy", copy_rate, "GBps");
    np::exec::pinned_buffer<std::byte> p;
    p.resize(bytes / 4);
    std::memset(p.data(), 1, p.size());
    say("host_to_device", static_cast<double>(p.size()) / seconds(s, [&] { np::exec::copy_to_device(a.data(), p.data(), p.size(), s); }) * 1e-9, "GBps");
    say("device_to_host", static_cast<double>(p.size()) / seconds(s, [&] { np::exec::copy_to_host(p.data(), a.data(), p.size(), s); }) * 1e-9, "GBps");
  }
  for (std::size_t const dim : {16U, 64U, 128U}) pooling(small, dim, copy_rate, s);
  window(small, "sgd", np::optimizer::sgd{}, 64, copy_rate, s);
  window(small, "rowwise_adagrad", np::optimizer::rowwise_adagrad{}, 64, copy_rate, s);
  std::size_t const n = small ? 10'000 : 4'000'000;
  np::exec::upload<np::key_type> keys;
  keys.put(block_of(1, n, 1, 1'000'000).ids.values, s);
  np::embedding::distinct_keys found;
  say("routing_distinct", static_cast<double>(n) / seconds(s, [&] {
        found.build(keys.device(), n, 0, 1024, 8, s);
        found.finish(s);
      }) * 1e-6, "Mkeysps");
  std::printf("{\"device\": \"%s\", %s}\n", device.name, report.c_str());
}

}  // namespace

int main(int argc, char** argv) {
  try {
    run(argc > 1 && std::strcmp(argv[1], "small") == 0);
  } catch (std::exception const& e) {
    std::fprintf(stderr, "error: %s\n", e.what());
    return 1;
  }
}
