#pragma once
/// @file
/// The exchange stages: rows from owners to users, gradients back. Rows are frozen meanwhile.

#include <nestpipe/comm/comm.hpp>
#include <nestpipe/embedding/window.hpp>
#include <nestpipe/engine/batch.hpp>
#include <nestpipe/exec/stage.hpp>

#include <type_traits>

namespace nestpipe::engine {

template <class Channel>
class exchanger {
 public:
  explicit exchanger(Channel channel) : channel_{std::move(channel)} {}

  Channel& channel() { return channel_; }
  /// Bytes that this rank has sent as rows, and received as gradients, its own share included.
  std::uint64_t row_bytes() const { return row_bytes_; }
  std::uint64_t gradient_bytes() const { return gradient_bytes_; }

  /// Collective: the rows that local micro-batch j of every rank needs. O(rows moved * dim).
  /// @param portion  early or late rows only when the micro-batch is split; then late follows early
  /// @param landing  rows in order of (portion,) owner, table, list, from micro_route.landing_base on
  void rows(embedding::route_shape const& shape, batch_slot const& slot, std::size_t j, exec::portion portion, embedding::window const& w,
            exec::buffer<float>& landing, comm::call_site at) {
    auto const& user_side = slot.source.micro[j];
    if (!user_side.split && portion == exec::portion::early) return;
    // Growing loses what is there: only before the first rows that land.
    bool const first = portion != exec::portion::late || !user_side.split;
    if (first && (j == 0 || !shape.reuse_rows)) landing.resize(slot.source.landing_floats);
    if (!user_side.split) {
      send_rows(shape, slot, j, w, place(shape, slot, j, w, landing, user_side.landing_base), everything{});
      receive(landing, user_side.landing_base, user_side.row_floats, at);
      return;
    }
    if (portion != exec::portion::late) {
      send_rows(shape, slot, j, w, place(shape, slot, j, w, landing, user_side.landing_base),
                [&](std::size_t t, std::uint32_t s) { return slot.shared.late(t)[s] == 0; });
      receive(landing, user_side.landing_base, user_side.early_floats, at);
    }
    if (portion != exec::portion::early) {
      std::size_t before = user_side.landing_base;
      for (std::size_t const n : user_side.early_floats) before += n;
      send_rows(shape, slot, j, w, place(shape, slot, j, w, landing, before), [&](std::size_t t, std::uint32_t s) { return slot.shared.late(t)[s] != 0; });
      late_floats_ = user_side.row_floats;
      for (std::size_t o = 0; o < shape.world_size; ++o) late_floats_[o] -= user_side.early_floats[o];
      receive(landing, before, late_floats_, at);
    }
  }

  /// Collective: gradients of local micro-batch j of every rank, folded into the window in ascending order of the global
  /// micro-batch number (j * world_size + rank). O(rows moved * dim).
  void gradients(embedding::route_shape const& shape, batch_slot const& slot, std::size_t j, exec::buffer<float> const& gradients,
                 embedding::window& w, comm::call_site at) {
    owner_side(shape, slot, j, w);
    gradient_bytes_ += packed_floats_ * sizeof(float);
    float const* from = gradients.data();  // a rank alone folds them from where they are
    if (shape.world_size > 1) {
      packed_.resize(packed_floats_);
      auto const& user_side = slot.source.micro[j];
      comm::all_to_all_v<Channel, float>(channel_, gradients.span().first(user_side.floats), user_side.owner_floats, packed_.span(), floats_,
                                         scratch_, at);
      from = packed_.data();
    }
    for (std::size_t r = 0; r < shape.world_size; ++r) {
      for (std::size_t t = 0; t < shape.tables; ++t) from = w.fold(t, slot.owner.slot_list(shape, r, j, t), from);
    }
  }

 private:
  struct everything {};

  // Where rows are packed: in the message, or, on a rank alone, where they are to land.
  float* place(embedding::route_shape const& shape, batch_slot const& slot, std::size_t j, embedding::window const& w, exec::buffer<float>& landing,
               std::size_t base) {
    if (shape.world_size == 1) return landing.data() + base;
    owner_side(shape, slot, j, w);
    packed_.resize(packed_floats_);
    return packed_.data();
  }

  // Packs the rows that go to each rank for micro-batch j, those whose (table, slot) is `chosen`, to `begin`.
  template <class Chosen>
  void send_rows(embedding::route_shape const& shape, batch_slot const& slot, std::size_t j, embedding::window const& w, float* const begin, Chosen chosen) {
    floats_.resize(shape.world_size);
    float* to = begin;
    for (std::size_t r = 0; r < shape.world_size; ++r) {
      float const* const first = to;
      for (std::size_t t = 0; t < shape.tables; ++t) {
        std::span<std::uint32_t const> list = slot.owner.row_list(shape, r, j, t);
        if constexpr (!std::is_same_v<Chosen, everything>) {
          chosen_.clear();
          for (std::uint32_t const s : list) {
            if (chosen(t, s)) chosen_.push_back(s);
          }
          list = chosen_;
        }
        to = w.send(t, list, to);
      }
      floats_[r] = static_cast<std::size_t>(to - first);
    }
    packed_floats_ = static_cast<std::size_t>(to - begin);
    row_bytes_ += packed_floats_ * sizeof(float);
  }

  void receive(exec::buffer<float>& landing, std::size_t base, std::vector<std::size_t> const& floats, comm::call_site at) {
    if (floats.size() == 1) return;  // packed in place
    std::size_t total = 0;
    for (std::size_t const n : floats) total += n;
    comm::all_to_all_v<Channel, float>(channel_, packed_.span().first(packed_floats_), floats_, landing.span().subspan(base, total), floats,
                                       scratch_, at);
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
  std::vector<std::size_t> late_floats_;
  std::uint64_t row_bytes_ = 0;
  std::uint64_t gradient_bytes_ = 0;
  std::vector<std::uint32_t> chosen_;
  comm::byte_counts scratch_;
  exec::buffer<float> packed_;
};

}  // namespace nestpipe::engine
