#pragma once
/// @file
/// Rows whose stores are in host memory and whose windows are on the device: pinned memory and asynchronous copies lie between.

#include <nestpipe/embedding/cuda/window.cuh>
#include <nestpipe/engine/row_part.hpp>

namespace nestpipe::engine {

/// As row_part. The host part of an op reads and writes stores; what follows on the lane's stream moves rows, so the next batch is
/// retrieved while this one is computed.
template <class Storage, class Optimizer>
class device_row_part : public row_part<Storage, Optimizer> {
  using base = row_part<Storage, Optimizer>;
  static_assert(!base::stamped, "storage::audited looks at windows from the host: use host lanes with it");

 public:
  using base::base;

  /// @throws config_error also for stores that round rows: the update on the device does not
  template <class... Rest>
  void open(embedding_layout const& layout, Rest const&... rest) {
    base::open(layout, rest...);
    if constexpr (storage::may_round<Storage>) {
      for (std::size_t t = 0; t < this->tables(); ++t)
        require(!storage::rounding_of(this->store(t)), "rows of reduced precision are not updated on the device", "table " + this->table_spec(t).name,
                "store rows as float32, or use host lanes");
    }
  }

  void shape(embedding::device_window& w) const { this->shape_window(w); }

  void retrieve(embedding::owner_route const& route, embedding::device_window& w, absent_row absent, exec::worker_pool& helpers) {
    cudaStream_t const stream = exec::this_stream();
    exec::wait_for_device();  // the last copy out of to_device_ is done
    w.reset(route, stream);
    to_device_.resize(w.array_floats());
    this->read_stores(route, w, absent, helpers, [&](std::uint32_t t) { return to_device_.data() + w.array_base(t); });
    array_.resize(w.array_floats(), stream);
    exec::copy_to_device(array_.data(), to_device_.data(), w.array_floats(), stream);
    w.fill(array_.data(), stream);
  }

  void update(embedding::owner_route const&, embedding::device_window& w, embedding::overlap const* next, exec::portion portion, optimizer::clip_by_norm clip,
              std::uint64_t step, float rate_factor, exec::worker_pool&) const {
    w.update(this->optimizer(), step, rate_factor, clip, portion == exec::portion::late ? next : nullptr, exec::this_stream());
  }

  void refresh(embedding::overlap const& shared, embedding::device_window const& from, embedding::device_window& to, exec::worker_pool&) const {
    to.copy_rows(from, shared, exec::this_stream());
  }

  void write_back(embedding::owner_route const& route, embedding::device_window& w, exec::worker_pool& helpers) {
    cudaStream_t const stream = exec::this_stream();
    array_.resize(w.array_floats(), stream);
    to_host_.resize(w.array_floats());  // nothing is on its way into it: the last call has waited
    w.read(array_.data(), stream);
    exec::copy_to_host(to_host_.data(), array_.data(), w.array_floats(), stream);
    exec::wait_for_device();
    this->write_stores(route, w, helpers, [&](std::uint32_t t) { return to_host_.data() + w.array_base(t); });
  }

 private:
  exec::pinned_buffer<float> to_device_, to_host_;
  exec::buffer<float, exec::cuda> array_;  // rows without padding
};

}  // namespace nestpipe::engine
