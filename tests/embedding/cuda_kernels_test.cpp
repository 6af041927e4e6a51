// The kernels' own source on the emulated device, beside the host path: the same bits. tests/cuda/device_tests.cu runs it on a real one.
#include <doctest/doctest.h>

#include <nestpipe/embedding/cuda/distinct_keys.cuh>
#include <nestpipe/embedding/cuda/pooling.cuh>
#include <nestpipe/embedding/cuda/window.cuh>
#include <nestpipe/embedding/pooling.hpp>
#include <nestpipe/embedding/source_route.hpp>
#include <nestpipe/embedding/window.hpp>
#include <nestpipe/optimizer/adagrad.hpp>
#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/optimizer/ftrl.hpp>
#include <nestpipe/optimizer/momentum.hpp>
#include <nestpipe/optimizer/rowwise_adagrad.hpp>
#include <nestpipe/optimizer/sgd.hpp>

#include <support/device_orders.hpp>
#include <support/jagged_blocks.hpp>

#include <algorithm>
#include <bit>
#include <set>
#include <vector>

namespace np = nestpipe;
using np::pooling;

namespace {

std::vector<float> random_floats(std::uint64_t seed, std::size_t n) {
  np::counter_random const random{seed, n, 0};
  std::vector<float> v(n);
  for (std::size_t i = 0; i < n; ++i) v[i] = random.normal(i);
  return v;
}

/// Host values there and back.
struct on_device {
  np::exec::upload<float> up;
  on_device(std::vector<float> const& v, cudaStream_t s) { up.put(v, s); }
  float const* data() const { return up.device(); }
};
template <class T>
std::vector<T> fetch(T const* from, std::size_t n, cudaStream_t s) {
  np::exec::pinned_buffer<T> p;
  p.resize(n);
  np::exec::copy_to_host(p.data(), from, n, s);
  cudaStreamSynchronize(s);
  return {p.data(), p.data() + n};
}
bool same_bits(std::vector<float> const& a, std::vector<float> const& b) {
  if (a.size() != b.size()) return false;
  for (std::size_t i = 0; i < a.size(); ++i) {
    if (std::bit_cast<std::uint32_t>(a[i]) != std::bit_cast<std::uint32_t>(b[i])) return false;
  }
  return true;
}

void check_pooling(np::embedding_layout const& layout, np::sample_block const& block) {
  np::embedding::source_route route;
  np::embedding::route_shape const shape{1, 1, static_cast<std::uint32_t>(layout.tables().size()), 1024};
  route.build(layout, std::span{&block, 1}, shape);
  route.land(layout, shape, false, {});
  auto const& micro = route.micro[0];
  auto const landing = random_floats(1, micro.floats);
  std::size_t const pooled_floats = block.samples * layout.pooled_width();

  np::exec::cuda_stream stream;
  cudaStream_t const s = stream.get();
  np::embedding::micro_tables tables;
  tables.build(layout, block.ids, micro, s);

  std::vector<float> pooled(pooled_floats), rows(tables.sequence_floats()), gradients(micro.floats);
  auto const d_pooled = random_floats(2, pooled_floats), d_rows = random_floats(3, rows.size());
  std::vector<float*> row_pointers;
  std::vector<float const*> d_row_pointers;
  std::size_t at = 0;
  for (std::size_t f = 0; f < layout.features().size(); ++f) {
    if (layout.features()[f].pooling != pooling::none) continue;
    at = (at + 15) / 16 * 16;
    row_pointers.push_back(rows.data() + at);
    d_row_pointers.push_back(d_rows.data() + at);
    at += (block.ids.offsets[(f + 1) * block.samples] - block.ids.offsets[f * block.samples]) * layout.dim_of_feature(f);
  }
  REQUIRE(at == rows.size());
  np::embedding::pooler host;
  host.forward(layout, block.ids, micro, landing.data(), pooled.data(), row_pointers);
  host.backward(layout, block.ids, micro, landing.data(), d_pooled.data(), d_row_pointers, gradients.data());

  np::embedding::device_pooler pool;
  on_device const rows_in{landing, s}, d_in{d_pooled, s}, d_rows_in{d_rows, s};
  np::exec::buffer<float, np::exec::cuda> out{pooled_floats, s}, rows_out{rows.size(), s}, gradients_out{micro.floats, s};
  pool.forward(tables, rows_in.data(), out.data(), rows_out.data(), s);
  pool.backward(tables, rows_in.data(), d_in.data(), d_rows_in.data(), gradients_out.data(), s);
  CHECK(same_bits(fetch(out.data(), pooled_floats, s), pooled));
  auto got_rows = fetch(rows_out.data(), rows.size(), s);
  for (std::size_t f = 0, end = 0; f < layout.features().size(); ++f) {  // nobody writes between features
    if (layout.features()[f].pooling != pooling::none) continue;
    std::fill(got_rows.begin() + static_cast<std::ptrdiff_t>(end), got_rows.begin() + static_cast<std::ptrdiff_t>(tables.first_row(f)), 0.0f);
    end = tables.first_row(f) + (block.ids.offsets[(f + 1) * block.samples] - block.ids.offsets[f * block.samples]) * layout.dim_of_feature(f);
  }
  CHECK(same_bits(got_rows, rows));
  CHECK(same_bits(fetch(gradients_out.data(), micro.floats, s), gradients));
}

/// The owner's side of one rank's batch of given keys, one list of keys a table.
np::embedding::owner_route routed(std::vector<std::vector<np::key_type>> const& keys) {
  np::embedding::route_shape const shape{1, 1, static_cast<std::uint32_t>(keys.size()), 1024};
  np::embedding::owner_route r;
  for (int twice = 0; twice < 2; ++twice) {
    for (auto const& k : keys) r.counts.push_back(static_cast<std::uint32_t>(k.size()));
  }
  r.expect(shape);
  std::size_t at = 0;
  for (auto const& table : keys) {
    for (std::uint32_t i = 0; i < table.size(); ++i, ++at) {
      r.received[at] = table[i];
      r.slots[at] = i;
    }
  }
  r.build(shape, true);
  return r;
}

/// A window on the host and one on the device with the same rows.
struct pair_of_windows {
  np::embedding::window host;
  np::embedding::device_window device;

  pair_of_windows(np::embedding::owner_route const& r, std::vector<std::size_t> const& dims, std::vector<std::size_t> const& floats, std::uint64_t seed, cudaStream_t s) {
    host.shape(dims, floats);
    host.reset(r);
    device.shape(dims, floats);
    device.reset(r, s);
    auto const values = random_floats(seed, device.array_floats());
    for (std::size_t t = 0; t < dims.size(); ++t) {
      for (std::size_t i = 0; i < host.slots(t) * floats[t]; ++i) {
        float const v = values[device.array_base(t) + i];
        host.rows(t)[i] = i % floats[t] < dims[t] ? v : v * v;  // states of real optimizers are sums of squares
      }
    }
    on_device const array{host_rows(), s};
    device.fill(array.data(), s);
    cudaStreamSynchronize(s);
  }
  std::vector<float> host_rows() const {
    std::vector<float> v(device.array_floats());
    for (std::size_t t = 0; t < host.tables(); ++t) std::copy_n(host.rows(t), host.slots(t) * host.row_floats(t), v.begin() + static_cast<std::ptrdiff_t>(device.array_base(t)));
    return v;
  }
  std::vector<float> device_rows(cudaStream_t s) {
    np::exec::buffer<float, np::exec::cuda> array{device.array_floats(), s};
    device.read(array.data(), s);
    return fetch(array.data(), device.array_floats(), s);
  }
};

template <class Optimizer>
void check_window(Optimizer const& optimizer, std::vector<std::size_t> const& dims, np::optimizer::clip_by_norm clip) {
  np::exec::cuda_stream stream;
  cudaStream_t const s = stream.get();
  auto const now = routed({{7, 0, ~np::key_type{0}, 12}, {5}, {}, {1, 2, 3}}), next = routed({{12, 9, 7}, {4}, {8}, {3}});
  std::vector<std::size_t> floats;
  for (std::size_t const d : dims) floats.push_back(d + optimizer.state_size(d));
  pair_of_windows a{now, dims, floats, 1, s}, b{next, dims, floats, 2, s};
  CHECK(same_bits(a.device_rows(s), a.host_rows()));

  // Sent rows: any slots of any tables in any order.
  std::vector<std::vector<std::uint32_t>> const lists{{2, 0, 2, 3}, {}, {}, {1}};
  np::embedding::device_window::slot_list list;
  std::vector<float> sent(4 * dims[0] + dims[3]);
  float* to = sent.data();
  for (std::size_t t = 0; t < lists.size(); ++t) {
    list.add(a.device, t, lists[t], true);
    to = a.host.send(t, lists[t], to);
  }
  REQUIRE(list.floats() == sent.size());
  np::exec::buffer<float, np::exec::cuda> out{sent.size(), s};
  a.device.send(list, out.data(), s);
  CHECK(same_bits(fetch(out.data(), sent.size(), s), sent));

  // Gradients of two ranks; negative zero is kept, slot 1 of table 0 gets none.
  std::vector<std::vector<std::vector<std::uint32_t>>> const ranks{{{3, 0}, {0}, {}, {2, 1}}, {{0, 2}, {}, {}, {1}}};
  for (auto const& rank : ranks) {
    list.clear();
    for (std::size_t t = 0; t < rank.size(); ++t) list.add(a.device, t, rank[t], false);
    auto gradients = random_floats(11 + rank[0][0], list.floats());
    gradients[0] = -0.0f;
    float const* from = gradients.data();
    for (std::size_t t = 0; t < rank.size(); ++t) from = a.host.fold(t, rank[t], from);
    on_device const in{gradients, s};
    a.device.fold(list, in.data(), s);
    cudaStreamSynchronize(s);
  }

  np::embedding::overlap shared;
  shared.build(now, next, 4);
  REQUIRE(shared.size() == 3);
  auto const constants = optimizer.prepare(3, 0.5f);
  auto const update_host = [&](std::size_t t, std::size_t slot) {
    auto const has = a.host.has_gradient(t);
    if (has[slot] != 1) return;
    float* const row = a.host.rows(t) + slot * floats[t];
    float* const g = a.host.gradients(t) + slot * dims[t];
    clip.apply(g, dims[t]);
    optimizer.update(row, row + dims[t], g, dims[t], constants);
    has[slot] = 2;
  };
  for (std::size_t t = 0; t < dims.size(); ++t) {
    for (std::uint32_t const slot : shared.from(t)) update_host(t, slot);
  }
  a.device.update(optimizer, 3, 0.5f, clip, &shared, s);
  CHECK(same_bits(a.device_rows(s), a.host_rows()));
  for (std::size_t t = 0; t < dims.size(); ++t) b.host.copy_rows(t, a.host, shared.from(t), shared.to(t));
  b.device.copy_rows(a.device, shared, s);
  CHECK(same_bits(b.device_rows(s), b.host_rows()));
  for (std::size_t t = 0; t < dims.size(); ++t) {
    for (std::size_t slot = 0; slot < a.host.slots(t); ++slot) update_host(t, slot);
  }
  a.device.update(optimizer, 3, 0.5f, clip, nullptr, s);
  CHECK(same_bits(a.device_rows(s), a.host_rows()));
  cudaStreamSynchronize(s);
}

np::embedding_layout four_floats() {
  return {{{"a", 4}, {"b", 8}, {"c", 16}}, {{"f0", "a", pooling::sum}, {"f1", "b", pooling::mean}, {"f2", "a", pooling::none}, {"f3", "c", pooling::sum_and_squares}, {"f4", "b", pooling::none}}};
}

}  // namespace

TEST_CASE("pooling and its transpose have the host's bits, whatever dims, poolings, weights and lengths") {
  np::test::in_every_order([] {
    for (auto const& layout : {np::test::mixed_layout(), four_floats()}) {
      for (bool const weighted : {false, true}) {
        np::test::block_options options;
        options.weighted = weighted;
        check_pooling(layout, np::test::random_block(1, 5, 9, options));
        options.long_bag = 150;  // longer than two blocks, and keys used more often than that
        options.key_range = 3;
        check_pooling(layout, np::test::random_block(2, 5, 11, options));
        options.empty_feature = 3;
        check_pooling(layout, np::test::random_block(3, 5, 4, options));
        check_pooling(layout, np::test::random_block(4, 5, 0, options));
      }
    }
  });
}

TEST_CASE("windows on the device send, fold, update and refresh with the host's bits, whatever the optimizer") {
  np::test::in_every_order([] {
    for (std::vector<std::size_t> const& dims : {std::vector<std::size_t>{4, 8, 16, 32}, std::vector<std::size_t>{5, 4, 1, 80}}) {
      for (double const norm : {0.0, 1.5}) {
        np::optimizer::clip_by_norm const clip{norm};
        check_window(np::optimizer::sgd{.rate = 0.1, .weight_decay = 0.01}, dims, clip);
        check_window(np::optimizer::momentum{}, dims, clip);
        check_window(np::optimizer::adagrad{}, dims, clip);
        check_window(np::optimizer::rowwise_adagrad{.weight_decay = 0.02}, dims, clip);
        check_window(np::optimizer::adam{}, dims, clip);
        check_window(np::optimizer::ftrl{}, dims, clip);
      }
    }
  });
}

TEST_CASE("distinct keys, their inverse, the order of their occurrences and their owners") {
  np::test::in_every_order([] {
    np::exec::cuda_stream stream;
    cudaStream_t const s = stream.get();
    np::embedding::distinct_keys found;
    np::exec::upload<np::key_type> up;
    for (std::size_t const n : {700U, 1U, 0U, 64U}) {
      np::counter_random const random{n, 1, 2};
      std::vector<np::key_type> keys(n);
      for (std::size_t i = 0; i < n; ++i) keys[i] = random.below(2 * i, 9) == 0 ? ~np::key_type{0} - random.below(2 * i + 1, 2) : random.below(2 * i + 1, 90);
      std::set<np::key_type> const expected(keys.begin(), keys.end());
      std::uint32_t const world = 3;
      up.put(keys, s);
      found.build(up.device(), n, 5, 1024, world, s);
      std::size_t const distinct = found.finish(s);
      CHECK(distinct == expected.size());
      auto const unique = fetch(found.keys(), distinct, s);
      CHECK(std::equal(unique.begin(), unique.end(), expected.begin(), expected.end()));
      auto const inverse = fetch(found.inverse(), n, s), positions = fetch(found.positions(), n, s);
      bool good = true;
      for (std::size_t i = 0; i < n; ++i) good = good && unique[inverse[i]] == keys[i];
      if (n != 0) {
        auto const start = fetch(found.start(), distinct + 1, s);
        good = good && start[0] == 0 && start[distinct] == n;
        for (std::size_t u = 0; u < distinct; ++u) {
          for (std::size_t k = start[u]; k < start[u + 1]; ++k)
            good = good && inverse[positions[k]] == u && (k == start[u] || positions[k - 1] < positions[k]);
        }
      }
      CHECK(good);
      auto const by_owner = fetch(found.by_owner(), distinct, s), first = fetch(found.first_of_owner(), world + 1, s);
      CHECK(first[0] == 0);
      CHECK(first[world] == distinct);
      bool owned = true;
      for (std::uint32_t o = 0; o < world; ++o) {
        for (std::size_t k = first[o]; k < first[o + 1]; ++k)
          owned = owned && np::owner_of(np::shard_of(5, unique[by_owner[k]], 1024), world) == o && (k == first[o] || by_owner[k - 1] < by_owner[k]);
      }
      CHECK(owned);
    }
  });
}
