#pragma once
/// @file
/// The exchange stages with windows and landing buffers on the device, over any communicator of host memory: packed on the device, put
/// through pinned memory. Alone, a rank packs straight into its landing buffer.

#include <nestpipe/comm/comm.hpp>
#include <nestpipe/embedding/cuda/window.cuh>
#include <nestpipe/engine/batch.hpp>
#include <nestpipe/exec/stage.hpp>

namespace nestpipe::engine {

template <class Channel>
class device_exchanger {
 public:
  using device_floats = exec::buffer<float, exec::cuda>;
  explicit device_exchanger(Channel channel) : channel_{std::move(channel)} {}

  Channel& channel() { return channel_; }
  std::uint64_t row_bytes() const { return row_bytes_; }
  std::uint64_t gradient_bytes() const { return gradient_bytes_; }

  /// As exchanger::rows.
  void rows(embedding::route_shape const& shape, batch_slot const& slot, std::size_t j, exec::portion portion, embedding::device_window const& w, device_floats& landing,
            comm::call_site at) {
    auto const& user_side = slot.source.micro[j];
    if (!user_side.split && portion == exec::portion::early) return;
    bool const first = portion != exec::portion::late || !user_side.split;
    if (first && (j == 0 || !shape.reuse_rows)) landing.resize(slot.source.landing_floats);
    if (!user_side.split) {
      move_rows(shape, slot, j, w, landing, user_side.landing_base, user_side.row_floats, at, [](std::size_t, std::uint32_t) { return true; });
      return;
    }
    if (portion != exec::portion::late)
      move_rows(shape, slot, j, w, landing, user_side.landing_base, user_side.early_floats, at, [&](std::size_t t, std::uint32_t s) { return slot.shared.late(t)[s] == 0; });
    if (portion != exec::portion::early) {
      late_floats_ = user_side.row_floats;
      std::size_t early = 0;
      for (std::size_t o = 0; o < shape.world_size; ++o) {
        early += user_side.early_floats[o];
        late_floats_[o] -= user_side.early_floats[o];
      }
      move_rows(shape, slot, j, w, landing, user_side.landing_base + early, late_floats_, at, [&](std::size_t t, std::uint32_t s) { return slot.shared.late(t)[s] != 0; });
    }
  }

  /// As exchanger::gradients: one launch a rank, in ascending order.
  void gradients(embedding::route_shape const& shape, batch_slot const& slot, std::size_t j, device_floats const& gradients, embedding::device_window& w, comm::call_site at) {
    cudaStream_t const stream = exec::this_stream();
    if (lists_.size() < shape.world_size) lists_ = std::vector<embedding::device_window::slot_list>(shape.world_size);
    floats_.assign(shape.world_size, 0);
    std::size_t total = 0;
    for (std::size_t r = 0; r < shape.world_size; ++r) {
      lists_[r].clear();
      for (std::size_t t = 0; t < shape.tables; ++t) lists_[r].add(w, t, slot.owner.slot_list(shape, r, j, t), false);
      floats_[r] = lists_[r].floats();
      total += floats_[r];
    }
    gradient_bytes_ += total * sizeof(float);
    float const* from = gradients.data();
    if (shape.world_size > 1) {
      auto const& user_side = slot.source.micro[j];
      fetch(gradients.data(), user_side.floats, stream);
      received_.resize(total);
      comm::all_to_all_v<Channel, float>(channel_, std::span<float const>{sent_.span()}, user_side.owner_floats, received_.span(), floats_, scratch_, at);
      packed_.resize(total, stream);
      exec::copy_to_device(packed_.data(), received_.data(), total, stream);
      from = packed_.data();
    }
    for (std::size_t r = 0; r < shape.world_size; ++r) {
      w.fold(lists_[r], from, stream);
      from += floats_[r];
    }
  }

 private:
  // To pinned memory, which nobody uses since the last call has waited; waits again: then the host may send it, and what was received
  // before is on the device.
  void fetch(float const* from, std::size_t n, cudaStream_t stream) {
    sent_.resize(n);
    exec::copy_to_host(sent_.data(), from, n, stream);
    exec::wait_for_device();
  }

  template <class Chosen>
  void move_rows(embedding::route_shape const& shape, batch_slot const& slot, std::size_t j, embedding::device_window const& w, device_floats& landing, std::size_t base,
                 std::vector<std::size_t> const& expected, comm::call_site at, Chosen chosen) {
    cudaStream_t const stream = exec::this_stream();
    list_.clear();
    floats_.assign(shape.world_size, 0);
    for (std::size_t r = 0; r < shape.world_size; ++r) {
      std::size_t const before = list_.floats();
      for (std::size_t t = 0; t < shape.tables; ++t) {
        chosen_.clear();
        for (std::uint32_t const s : slot.owner.row_list(shape, r, j, t)) {
          if (chosen(t, s)) chosen_.push_back(s);
        }
        list_.add(w, t, chosen_, true);
      }
      floats_[r] = list_.floats() - before;
    }
    std::size_t const total = list_.floats();
    row_bytes_ += total * sizeof(float);
    if (shape.world_size == 1) {
      w.send(list_, landing.data() + base, stream);
      return;
    }
    packed_.resize(total, stream);
    w.send(list_, packed_.data(), stream);
    fetch(packed_.data(), total, stream);
    std::size_t incoming = 0;
    for (std::size_t const n : expected) incoming += n;
    received_.resize(incoming);
    comm::all_to_all_v<Channel, float>(channel_, std::span<float const>{sent_.span()}, floats_, received_.span(), expected, scratch_, at);
    exec::copy_to_device(landing.data() + base, received_.data(), incoming, stream);
  }

  Channel channel_;
  std::vector<std::size_t> floats_, late_floats_;
  std::vector<std::uint32_t> chosen_;
  embedding::device_window::slot_list list_;                 // of rows, all ranks
  std::vector<embedding::device_window::slot_list> lists_;   // of gradients, by rank
  comm::byte_counts scratch_;
  exec::pinned_buffer<float> sent_, received_;
  device_floats packed_;
  std::uint64_t row_bytes_ = 0, gradient_bytes_ = 0;
};

}  // namespace nestpipe::engine
