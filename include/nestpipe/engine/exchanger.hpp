#pragma once
/// @file
/// The exchange stages: rows from owners to users, gradients back. Rows are frozen meanwhile.

#include <nestpipe/comm/comm.hpp>
#include <nestpipe/embedding/window.hpp>
#include <nestpipe/engine/batch.hpp>

namespace nestpipe::engine {

template <class Channel>
class exchanger {
 public:
  explicit exchanger(Channel channel) : channel_{std::move(channel)} {}

  Channel& channel() { return channel_; }

  /// Collective: the rows that local micro-batch j of every rank needs. O(rows moved * dim).
  /// @param landing  resized to micro_route.floats; rows in order of owner, table, list
  void rows(embedding::route_shape const& shape, batch_slot const& slot, std::size_t j, embedding::window const& w,
            exec::buffer<float>& landing, comm::call_site at) {
    owner_side(shape, slot, j, w);
    packed_.resize(packed_floats_);
    float* to = packed_.data();
    for (std::size_t r = 0; r < shape.world_size; ++r) {
      for (std::size_t t = 0; t < shape.tables; ++t) to = w.send(t, slot.owner.slot_list(shape, r, j, t), to);
    }
    auto const& user_side = slot.source.micro[j];
    landing.resize(user_side.floats);
    comm::all_to_all_v<Channel, float>(channel_, packed_.span(), floats_, landing.span(), user_side.owner_floats, scratch_, at);
  }

  /// Collective: gradients of local micro-batch j of every rank, folded into the window in ascending order of the global
  /// micro-batch number (j * world_size + rank). O(rows moved * dim).
  void gradients(embedding::route_shape const& shape, batch_slot const& slot, std::size_t j, exec::buffer<float> const& gradients,
                 embedding::window& w, comm::call_site at) {
    owner_side(shape, slot, j, w);
    packed_.resize(packed_floats_);
    auto const& user_side = slot.source.micro[j];
    comm::all_to_all_v<Channel, float>(channel_, gradients.span().first(user_side.floats), user_side.owner_floats, packed_.span(), floats_,
                                       scratch_, at);
    float const* from = packed_.data();
    for (std::size_t r = 0; r < shape.world_size; ++r) {
      for (std::size_t t = 0; t < shape.tables; ++t) from = w.fold(t, slot.owner.slot_list(shape, r, j, t), from);
    }
  }

 private:
  // Floats between this owner and every rank for micro-batch j.
  void owner_side(embedding::route_shape const& shape, batch_slot const& slot, std::size_t j, embedding::window const& w) {
    floats_.assign(shape.world_size, 0);
    packed_floats_ = 0;
    for (std::size_t r = 0; r < shape.world_size; ++r) {
      for (std::size_t t = 0; t < shape.tables; ++t) floats_[r] += slot.owner.slot_list(shape, r, j, t).size() * w.dim(t);
      packed_floats_ += floats_[r];
    }
  }

  Channel channel_;
  std::vector<std::size_t> floats_;
  std::size_t packed_floats_ = 0;
  comm::byte_counts scratch_;
  exec::buffer<float> packed_;
};

}  // namespace nestpipe::engine
