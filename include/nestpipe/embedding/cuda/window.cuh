#pragma once
/// @file
/// The owner's working set of one batch in device memory: embedding/window.hpp, its rows padded to 16 bytes.

#include <nestpipe/embedding/cuda/window_kernels.cuh>
#include <nestpipe/embedding/overlap.hpp>
#include <nestpipe/embedding/owner_route.hpp>
#include <nestpipe/exec/cuda/buffer.cuh>
#include <nestpipe/optimizer/optimizer.hpp>
#include <nestpipe/storage/storage.hpp>

namespace nestpipe::embedding {

/// Rows by table and slot. Every member that takes a stream queues its work there; lists are copied first, so the caller may
/// change his at once. An op that waits for all of a window's users may resize it.
class device_window {
 public:
  void shape(std::span<std::size_t const> dims, std::span<std::size_t const> row_floats) {
    dims_.assign(dims.begin(), dims.end());
    row_floats_.assign(row_floats.begin(), row_floats.end());
    epochs_.assign(dims.size(), 0);
    sixteen_bytes_ = true;
    for (std::size_t const d : dims) sixteen_bytes_ = sixteen_bytes_ && d % 4 == 0;
    clear_bases();
  }

  /// Makes room for the keys of `route`; contents are unspecified, no slot has a gradient.
  void reset(owner_route const& route, cudaStream_t stream) {
    clear_bases();
    for (std::size_t t = 0; t < tables(); ++t) {
      std::size_t const n = route.table_keys(t).size();
      row_base_[t + 1] = row_base_[t] + n * stride(t);
      gradient_base_[t + 1] = gradient_base_[t] + (n * dims_[t] + 3) / 4 * 4;
      slot_base_[t + 1] = slot_base_[t] + n;
      array_base_[t + 1] = array_base_[t] + n * row_floats_[t];
    }
    rows_.resize(row_base_.back(), stream);
    gradients_.resize(gradient_base_.back(), stream);
    has_gradient_.assign_zero(slot_base_.back(), stream);
    handles_.resize(slot_base_.back());
  }

  std::size_t tables() const { return dims_.size(); }
  std::size_t slots(std::size_t t) const { return slot_base_[t + 1] - slot_base_[t]; }
  std::size_t dim(std::size_t t) const { return dims_[t]; }
  std::size_t row_floats(std::size_t t) const { return row_floats_[t]; }
  std::span<storage::row_handle> handles(std::size_t t) { return handles_.span().subspan(slot_base_[t], slots(t)); }
  std::uint64_t& epoch(std::size_t t) { return epochs_[t]; }
  /// Whether embeddings of all tables are whole packets of four floats.
  bool sixteen_bytes() const { return sixteen_bytes_; }

  /// Floats of all rows without padding, and where those of table t start.
  std::size_t array_floats() const { return array_base_.back(); }
  std::size_t array_base(std::size_t t) const { return array_base_[t]; }

  /// All rows from a contiguous array on the device (array_floats()).
  void fill(float const* array, cudaStream_t stream) {
    std::size_t const units = plan_stretches(true);
    stretches_.put(stretch_parts_, stream);
    exec::launch(stream, units, detail::spread_rows<void>, stretches_.device(), count(stretch_parts_), array, rows_.data(), units);
  }
  /// The reverse.
  void read(float* array, cudaStream_t stream) {
    std::size_t const units = plan_stretches(false);
    stretches_.put(stretch_parts_, stream);
    exec::launch(stream, units, detail::gather_rows<void>, stretches_.device(), count(stretch_parts_), rows_.data(), array, units);
  }

  /// A list of slots table by table, one after the other, for send and fold; keeps its memory.
  class slot_list {
   public:
    void clear() {
      slots_.clear();
      parts_.clear();
      units_ = floats_ = 0;
    }
    /// @param rows  whether rows are meant, or else gradients
    void add(device_window const& w, std::size_t t, std::span<std::uint32_t const> slots, bool rows) {
      std::uint32_t const width = w.sixteen_bytes_ ? 4 : 1;
      auto const groups = static_cast<std::uint32_t>(w.dims_[t] / width);
      parts_.push_back({units_, rows ? w.row_base_[t] : w.gradient_base_[t], floats_, static_cast<std::uint32_t>(rows ? w.stride(t) : w.dims_[t]), groups,
                        static_cast<std::uint32_t>(slots_.size()), static_cast<std::uint32_t>(w.slot_base_[t])});
      slots_.insert(slots_.end(), slots.begin(), slots.end());
      units_ += slots.size() * groups;
      floats_ += slots.size() * w.dims_[t];
    }
    std::size_t floats() const { return floats_; }

   private:
    friend device_window;
    void put(cudaStream_t stream) {
      device_slots_.put(slots_, stream);
      device_parts_.put(parts_, stream);
    }
    std::vector<std::uint32_t> slots_;
    std::vector<list_part> parts_;
    std::size_t units_ = 0, floats_ = 0;
    exec::upload<std::uint32_t> device_slots_;
    exec::upload<list_part> device_parts_;
  };

  /// Copies the embeddings that `list` names (rows) to `out` (list.floats()), one after the other.
  void send(slot_list& list, float* out, cudaStream_t stream) const {
    list.put(stream);
    with_packet_width(sixteen_bytes_, [&](auto width) {
      exec::launch(stream, list.units_, detail::pack_rows<width>, list.device_parts_.device(), count(list.parts_), list.device_slots_.device(), rows_.data(), out, list.units_);
    });
  }

  /// Folds in the gradients that one rank sends for the distinct slots of `list` (gradients). Calls come in ascending order of
  /// the global micro-batch, so each sum has one order.
  void fold(slot_list& list, float const* in, cudaStream_t stream) {
    list.put(stream);
    with_packet_width(sixteen_bytes_, [&](auto width) {
      exec::launch(stream, list.units_, detail::fold_gradients<width>, list.device_parts_.device(), count(list.parts_), list.device_slots_.device(), has_gradient_.data(),
                   gradients_.data(), in, list.units_);
    });
    exec::launch(stream, list.units_, detail::mark_gradients<void>, list.device_parts_.device(), count(list.parts_), list.device_slots_.device(), has_gradient_.data(), list.units_);
  }

  /// Copies whole rows, state included, that both windows hold.
  void copy_rows(device_window const& other, overlap const& shared, cudaStream_t stream) {
    copy_parts_.clear();
    list_.clear();
    second_list_.clear();
    std::size_t units = 0;
    for (std::size_t t = 0; t < tables(); ++t) {
      auto const from = shared.from(t), to = shared.to(t);
      auto const groups = static_cast<std::uint32_t>(stride(t) / 4);
      copy_parts_.push_back({units, other.row_base_[t], row_base_[t], groups, static_cast<std::uint32_t>(list_.size())});
      list_.insert(list_.end(), from.begin(), from.end());
      second_list_.insert(second_list_.end(), to.begin(), to.end());
      units += from.size() * groups;
    }
    copies_.put(copy_parts_, stream);
    from_.put(list_, stream);
    to_.put(second_list_, stream);
    exec::launch(stream, units, detail::copy_window_rows<void>, copies_.device(), count(copy_parts_), from_.device(), to_.device(), other.rows_.data(), rows_.data(), units);
  }

  /// One optimizer update per row that has a gradient and none yet. @param only  null, or: those rows that the next window shares
  template <class Optimizer>
  void update(Optimizer const& policy, std::uint64_t step, float rate_factor, optimizer::clip_by_norm clip, overlap const* only, cudaStream_t stream) {
    update_parts_.clear();
    list_.clear();
    std::size_t units = 0;
    for (std::size_t t = 0; t < tables(); ++t) {
      update_parts_.push_back({units, row_base_[t], gradient_base_[t], static_cast<std::uint32_t>(stride(t)), static_cast<std::uint32_t>(dims_[t]),
                               static_cast<std::uint32_t>(slot_base_[t]), static_cast<std::uint32_t>(list_.size())});
      if (only != nullptr) {
        auto const chosen = only->from(t);
        list_.insert(list_.end(), chosen.begin(), chosen.end());
        units += chosen.size();
      } else {
        units += slots(t);
      }
    }
    updates_.put(update_parts_, stream);
    chosen_.put(list_, stream);
    optimizer::with_concrete(policy, [&](auto const& o) {
      using concrete = std::remove_cvref_t<decltype(o)>;
      auto const constants = o.prepare(step, rate_factor);
      exec::launch(stream, units, detail::update_rows<concrete, std::remove_cvref_t<decltype(constants)>>, o, constants, clip, updates_.device(), count(update_parts_),
                   only != nullptr ? chosen_.device() : nullptr, has_gradient_.data(), rows_.data(), gradients_.data(), units);
    });
  }

 private:
  std::size_t stride(std::size_t t) const { return (row_floats_[t] + 3) / 4 * 4; }
  template <class T>
  static std::uint32_t count(std::vector<T> const& v) {
    return static_cast<std::uint32_t>(v.size());
  }
  void clear_bases() {
    for (auto* base : {&row_base_, &gradient_base_, &slot_base_, &array_base_}) base->assign(tables() + 1, 0);
  }
  std::size_t plan_stretches(bool padded) {
    stretch_parts_.clear();
    std::size_t units = 0;
    for (std::size_t t = 0; t < tables(); ++t) {
      stretch_parts_.push_back({units, row_base_[t], array_base_[t], static_cast<std::uint32_t>(stride(t)), static_cast<std::uint32_t>(row_floats_[t])});
      units += slots(t) * (padded ? stride(t) : row_floats_[t]);
    }
    return units;
  }

  std::vector<std::size_t> dims_, row_floats_;
  std::vector<std::uint64_t> epochs_;
  std::vector<std::size_t> row_base_, gradient_base_, slot_base_, array_base_;  // (tables + 1)
  bool sixteen_bytes_ = false;
  exec::buffer<float, exec::cuda> rows_, gradients_;
  exec::buffer<std::uint8_t, exec::cuda> has_gradient_;
  exec::buffer<storage::row_handle> handles_;  // the host's

  // Lists on their way; host sides keep their memory.
  std::vector<stretch_part> stretch_parts_;
  std::vector<copy_part> copy_parts_;
  std::vector<update_part> update_parts_;
  std::vector<std::uint32_t> list_, second_list_;
  exec::upload<stretch_part> stretches_;
  exec::upload<copy_part> copies_;
  exec::upload<update_part> updates_;
  exec::upload<std::uint32_t> from_, to_, chosen_;
};

}  // namespace nestpipe::embedding
