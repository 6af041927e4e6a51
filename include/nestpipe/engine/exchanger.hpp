#pragma once
/// @file
/// The exchange stages: rows from owners to users, gradients back. Rows are frozen meanwhile.

#include <nestpipe/comm/comm.hpp>
#include <nestpipe/embedding/window.hpp>
#include <nestpipe/engine/batch.hpp>
#include <nestpipe/exec/stage.hpp>

namespace nestpipe::engine {

template <class Channel>
class exchanger {
 public:
  explicit exchanger(Channel channel) : channel_{std::move(channel)} {}

  Channel& channel() { return channel_; }

  /// Collective: the rows that local micro-batch j of every rank needs. O(rows moved * dim).
  /// @param portion  early or late rows only when the micro-batch is split; then late follows early
  /// @param landing  resized to micro_route.floats; rows in order of (portion,) owner, table, list
  void rows(embedding::route_shape const& shape, batch_slot const& slot, std::size_t j, exec::portion portion, embedding::window const& w,
            exec::buffer<float>& landing, comm::call_site at) {
    auto const& user_side = slot.source.micro[j];
    if (!user_side.split) {
      if (portion != exec::portion::early) all_rows(shape, slot, j, w, landing, at);
      return;
    }
    if (portion != exec::portion::late) some_rows(shape, slot, j, 0, w, landing, at);
    if (portion != exec::portion::early) some_rows(shape, slot, j, 1, w, landing, at);
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
  void all_rows(embedding::route_shape const& shape, batch_slot const& slot, std::size_t j, embedding::window const& w,
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

  // Rows whose late flag is `late`: they land behind each other, early ones first.
  void some_rows(embedding::route_shape const& shape, batch_slot const& slot, std::size_t j, std::uint8_t late, embedding::window const& w,
                 exec::buffer<float>& landing, comm::call_site at) {
    owner_side(shape, slot, j, w);
    packed_.resize(packed_floats_);
    float* to = packed_.data();
    for (std::size_t r = 0; r < shape.world_size; ++r) {
      float const* const begin = to;
      for (std::size_t t = 0; t < shape.tables; ++t) {
        auto const flags = slot.shared.late(t);
        chosen_.clear();
        for (std::uint32_t const s : slot.owner.slot_list(shape, r, j, t)) {
          if (flags[s] == late) chosen_.push_back(s);
        }
        to = w.send(t, chosen_, to);
      }
      floats_[r] = static_cast<std::size_t>(to - begin);
    }
    auto const& user_side = slot.source.micro[j];
    landing.resize(user_side.floats);
    receive_ = user_side.early_floats;
    std::size_t early = 0;
    for (std::size_t o = 0; o < shape.world_size; ++o) {
      early += user_side.early_floats[o];
      if (late != 0) receive_[o] = user_side.owner_floats[o] - user_side.early_floats[o];
    }
    std::span<float> const target = late == 0 ? landing.span().first(early) : landing.span().subspan(early);
    comm::all_to_all_v<Channel, float>(channel_, std::span<float const>{packed_.data(), static_cast<std::size_t>(to - packed_.data())}, floats_,
                                       target, receive_, scratch_, at);
  }

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
  std::vector<std::size_t> receive_;
  std::vector<std::uint32_t> chosen_;
  comm::byte_counts scratch_;
  exec::buffer<float> packed_;
};

}  // namespace nestpipe::engine
