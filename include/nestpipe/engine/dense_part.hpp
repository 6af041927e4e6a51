#pragma once
/// @file
/// The dense parameters of a model, replicated on every rank: values, optimizer state, one update per step.

#include <nestpipe/core/digest.hpp>
#include <nestpipe/exec/buffer.hpp>
#include <nestpipe/exec/worker_pool.hpp>
#include <nestpipe/model/model.hpp>
#include <nestpipe/optimizer/clipping.hpp>
#include <nestpipe/optimizer/optimizer.hpp>
#include <nestpipe/optimizer/rate_schedule.hpp>

namespace nestpipe::engine {

/// Table numbers from here on name dense parameters in digests and in the generator.
inline constexpr std::uint32_t dense_stream = 0xffff0000U;

/// One flat array for all parameters, so that reduction and clipping see them as a whole.
template <class Optimizer>
class dense_part {
 public:
  explicit dense_part(Optimizer const& optimizer) : optimizer_{optimizer} {}

  /// Allocates and draws first values by counter from (seed, parameter number).
  void open(std::span<model::parameter const> parameters, std::uint64_t seed) {
    parameters_.assign(parameters.begin(), parameters.end());
    std::size_t total = 0;
    std::size_t state = 0;
    for (auto const& p : parameters_) {
      total += p.size();
      state += p.rows * state_size(p.cols);
    }
    values_.assign_zero(total);
    state_.assign_zero(state);
    std::size_t at = 0;
    std::size_t state_at = 0;
    for (std::uint32_t i = 0; i < parameters_.size(); ++i) {
      auto const& p = parameters_[i];
      p.init(seed, dense_stream + i, 0, values_.data() + at, p.size());
      at += p.size();
      for (std::size_t r = 0; r < p.rows; ++r) {
        optimizer::with_concrete(optimizer_, [&](auto const& o) { o.initialize(state_.data() + state_at, p.cols); });
        state_at += state_size(p.cols);
      }
    }
  }

  /// One update of every parameter with the summed gradient. O(parameters).
  /// @param gradient  (size()), clipped in place by its global norm when `clip` is active
  void update(std::span<float> gradient, optimizer::clip_by_norm clip, std::uint64_t step, float rate_factor, exec::worker_pool& helpers) {
    clip.apply(gradient.data(), gradient.size());
    optimizer::with_concrete(optimizer_, [&](auto const& o) {
      auto const constants = o.prepare(step, rate_factor);
      float* value = values_.data();
      float* state = state_.data();
      float const* g = gradient.data();
      for (auto const& p : parameters_) {
        std::size_t const state_floats = o.state_size(p.cols);
        std::size_t const cols = p.cols;  // hundreds as a rule: the loop over them is long enough without knowing their number
        helpers.ranges(p.rows, small_part / cols + 1, [&](std::size_t first, std::size_t last) {
          for (std::size_t r = first; r < last; ++r) o.update(value + r * cols, state + r * state_floats, g + r * cols, cols, constants);
        });
        value += p.size();
        state += p.rows * state_floats;
        g += p.size();
      }
    });
  }

  /// Adds every parameter with its state.
  void add_to(digest& d) const {
    std::size_t at = 0;
    std::size_t state_at = 0;
    for (std::uint32_t i = 0; i < parameters_.size(); ++i) {
      auto const& p = parameters_[i];
      std::size_t const state = p.rows * state_size(p.cols);
      d.add(dense_stream + i, 0, values_.span().subspan(at, p.size()));
      d.add(dense_stream + i, 1, state_.span().subspan(state_at, state));
      at += p.size();
      state_at += state;
    }
  }

  std::size_t size() const { return values_.size(); }
  std::span<model::parameter const> parameters() const { return parameters_; }
  std::span<float> values() { return values_.span(); }
  std::span<float const> values() const { return values_.span(); }
  std::span<float> state() { return state_.span(); }
  std::span<float const> state() const { return state_.span(); }
  /// Floats of optimizer state beside one parameter row of `cols`.
  std::size_t state_size(std::size_t cols) const { return optimizer_.state_size(cols); }
  Optimizer const& optimizer() const { return optimizer_; }

 private:
  static constexpr std::size_t small_part = 16'384;  // floats: fewer are not worth waking a thread for

  Optimizer optimizer_;
  std::vector<model::parameter> parameters_;
  exec::buffer<float> values_;
  exec::buffer<float> state_;
};

}  // namespace nestpipe::engine
