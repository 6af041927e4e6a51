#pragma once
/// @file
/// The owner's working set of one batch: a copy of every row the batch touches, state included, and room for gradients.

#include <nestpipe/core/fixed_size.hpp>
#include <nestpipe/embedding/owner_route.hpp>
#include <nestpipe/storage/storage.hpp>

namespace nestpipe::embedding {

/// Rows by table and slot; frozen between retrieve and update.
class window {
 public:
  /// @param dims        (tables) floats of an embedding
  /// @param row_floats  (tables) floats of a row, state included
  void shape(std::span<std::size_t const> dims, std::span<std::size_t const> row_floats) {
    dims_.assign(dims.begin(), dims.end());
    row_floats_.assign(row_floats.begin(), row_floats.end());
    epochs_.assign(dims.size(), 0);
    row_base_.assign(dims_.size() + 1, 0);
    gradient_base_.assign(dims_.size() + 1, 0);
    slot_base_.assign(dims_.size() + 1, 0);
  }

  /// Makes room for the keys of `route`; contents are unspecified, no slot has a gradient.
  void reset(owner_route const& route) {
    std::size_t const tables = dims_.size();
    row_base_.assign(tables + 1, 0);
    gradient_base_.assign(tables + 1, 0);
    slot_base_.assign(tables + 1, 0);
    for (std::size_t t = 0; t < tables; ++t) {
      std::size_t const n = route.table_keys(t).size();
      // Every table starts on a cache line.
      row_base_[t + 1] = row_base_[t] + (n * row_floats_[t] + 15) / 16 * 16;
      gradient_base_[t + 1] = gradient_base_[t] + (n * dims_[t] + 15) / 16 * 16;
      slot_base_[t + 1] = slot_base_[t] + n;
    }
    rows_.resize(row_base_.back());
    gradients_.resize(gradient_base_.back());
    has_gradient_.assign_zero(slot_base_.back());
    handles_.resize(slot_base_.back());
  }

  std::size_t tables() const { return dims_.size(); }
  std::size_t slots(std::size_t t) const { return slot_base_[t + 1] - slot_base_[t]; }
  std::size_t dim(std::size_t t) const { return dims_[t]; }
  std::size_t row_floats(std::size_t t) const { return row_floats_[t]; }
  float* rows(std::size_t t) { return rows_.data() + row_base_[t]; }
  float const* rows(std::size_t t) const { return rows_.data() + row_base_[t]; }
  float* gradients(std::size_t t) { return gradients_.data() + gradient_base_[t]; }
  std::span<std::uint8_t> has_gradient(std::size_t t) { return has_gradient_.span().subspan(slot_base_[t], slots(t)); }
  std::span<storage::row_handle> handles(std::size_t t) { return handles_.span().subspan(slot_base_[t], slots(t)); }

  /// Epoch of the store of table t when its handles were found.
  std::uint64_t& epoch(std::size_t t) { return epochs_[t]; }

  /// Copies the embeddings (no state) of `slots` of table t to `out`, one after the other. Returns the end.
  float* send(std::size_t t, std::span<std::uint32_t const> slots, float* out) const {
    float const* const base = rows(t);
    std::size_t const stride = row_floats_[t];
    return with_fixed_dim(dims_[t], [&](auto dim) {
      for (std::uint32_t const slot : slots) {
        float const* const row = base + slot * stride;
        for (std::size_t k = 0; k < dim; ++k) out[k] = row[k];
        out += dim;
      }
      return out;
    });
  }

  /// Copies whole rows, state included, of table t from another window: `from[i]` there to `to[i]` here.
  void copy_rows(std::size_t t, window const& other, std::span<std::uint32_t const> from, std::span<std::uint32_t const> to) {
    std::size_t const stride = row_floats_[t];
    float const* const source = other.rows(t);
    float* const target = rows(t);
    with_fixed_dim(stride, [&](auto n) {
      for (std::size_t i = 0; i < from.size(); ++i) {
        float const* const a = source + from[i] * stride;
        float* const b = target + to[i] * stride;
        for (std::size_t k = 0; k < n; ++k) b[k] = a[k];
      }
    });
  }

  /// Folds the gradients that one micro-batch of one rank sends for `slots` of table t. Returns the end.
  /// Calls come in ascending micro-batch order, so each sum has one order whoever holds what.
  float const* fold(std::size_t t, std::span<std::uint32_t const> slots, float const* in) {
    float* const base = gradients(t);
    std::span<std::uint8_t> const has = has_gradient(t);
    return with_fixed_dim(dims_[t], [&](auto dim) {
      for (std::uint32_t const slot : slots) {
        float* const g = base + std::size_t{slot} * dim;
        if (has[slot] != 0) {
          for (std::size_t k = 0; k < dim; ++k) g[k] += in[k];
        } else {
          has[slot] = 1;
          for (std::size_t k = 0; k < dim; ++k) g[k] = in[k];
        }
        in += dim;
      }
      return in;
    });
  }

 private:
  std::vector<std::size_t> dims_;
  std::vector<std::size_t> row_floats_;
  std::vector<std::uint64_t> epochs_;
  std::vector<std::size_t> row_base_;       // (tables + 1) floats
  std::vector<std::size_t> gradient_base_;  // (tables + 1) floats
  std::vector<std::size_t> slot_base_;      // (tables + 1) slots
  exec::buffer<float> rows_;
  exec::buffer<float> gradients_;
  exec::buffer<std::uint8_t> has_gradient_;
  exec::buffer<storage::row_handle> handles_;
};

}  // namespace nestpipe::embedding
