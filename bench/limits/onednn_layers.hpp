#pragma once
/// @file
/// The limit of dense layers: oneDNN called alone, on one thread, for the same stack of layers.

#include "clock.hpp"

#include <nestpipe/core/huge_memory.hpp>

#include <oneapi/dnnl/dnnl.hpp>

#include <span>
#include <unordered_map>
#include <vector>

namespace nestpipe::bench {

/// Only the matrix products of forward and backward, by dnnl_sgemm: neither bias nor activation.
class onednn_products {
 public:
  /// @param widths inputs, then outputs of each layer  @param input_gradient  whether the gradient of the input is wanted
  onednn_products(std::size_t n, std::span<std::size_t const> widths, bool input_gradient)
      : n_{static_cast<dnnl_dim_t>(n)}, widths_{widths.begin(), widths.end()}, input_gradient_{input_gradient} {
    for (std::size_t l = 0; l < widths_.size(); ++l) {
      values_.emplace_back(n * widths_[l] * sizeof(float), "benchmark");
      gradients_.emplace_back(n * widths_[l] * sizeof(float), "benchmark");
      std::size_t const weights = l == 0 ? 1 : widths_[l - 1] * widths_[l];
      weights_.emplace_back(weights * sizeof(float), "benchmark");
      weight_gradients_.emplace_back(weights * sizeof(float), "benchmark");
      for (std::size_t i = 0; i < weights; ++i) floats(weights_.back())[i] = 0.01f * static_cast<float>(i % 13);
      for (std::size_t i = 0; i < n * widths_[l]; ++i) floats(values_.back())[i] = floats(gradients_.back())[i] = 0.01f * static_cast<float>(i % 17);
    }
  }

  void operator()() {
    for (std::size_t l = 1; l < widths_.size(); ++l)
      dnnl::sgemm('N', 'N', n_, wide(l), wide(l - 1), 1, floats(values_[l - 1]), wide(l - 1), floats(weights_[l]), wide(l), 0, floats(values_[l]), wide(l));
    for (std::size_t l = widths_.size(); l-- > 1;) {
      if (l > 1 || input_gradient_)
        dnnl::sgemm('N', 'T', n_, wide(l - 1), wide(l), 1, floats(gradients_[l]), wide(l), floats(weights_[l]), wide(l), 0, floats(gradients_[l - 1]), wide(l - 1));
      dnnl::sgemm('T', 'N', wide(l - 1), wide(l), n_, 1, floats(values_[l - 1]), wide(l - 1), floats(gradients_[l]), wide(l), 0, floats(weight_gradients_[l]), wide(l));
    }
  }

 private:
  static float* floats(huge_memory const& m) { return reinterpret_cast<float*>(m.data()); }
  dnnl_dim_t wide(std::size_t l) const { return static_cast<dnnl_dim_t>(widths_[l]); }

  dnnl_dim_t n_;
  std::vector<std::size_t> widths_;
  bool input_gradient_;
  std::vector<huge_memory> values_, gradients_, weights_, weight_gradients_;
};

/// The layers as oneDNN would have them: inner products with bias and fused relu, weights (in, out) as ours or in the layout that the
/// library likes best, the gradient of relu, both halves of backward, bias gradients included. The last layer has no activation.
class onednn_layers {
 public:
  onednn_layers(std::size_t n, std::span<std::size_t const> widths, bool input_gradient, bool own_layout) : stream_{engine_} {
    using dnnl::memory;
    auto const rows = static_cast<memory::dim>(n);
    auto const plain = [&](memory::dims const& d) { return memory::desc{d, memory::data_type::f32, memory::format_tag::ab}; };
    std::vector<memory> values, gradients;
    for (std::size_t const w : widths) {
      values.push_back(filled(plain({rows, static_cast<memory::dim>(w)})));
      gradients.push_back(filled(plain({rows, static_cast<memory::dim>(w)})));
    }
    std::vector<step> backward;
    for (std::size_t l = 1; l < widths.size(); ++l) {
      auto const in = static_cast<memory::dim>(widths[l - 1]), out = static_cast<memory::dim>(widths[l]);
      memory::desc const x = plain({rows, in}), y = plain({rows, out});
      memory::desc const bias{{out}, memory::data_type::f32, memory::format_tag::a};
      memory::desc const w{{out, in}, memory::data_type::f32, own_layout ? memory::format_tag::any : memory::format_tag::ba};
      dnnl::primitive_attr relu;
      bool const active = l + 1 < widths.size();
      if (active) {
        dnnl::post_ops after;
        after.append_eltwise(1.0f, dnnl::algorithm::eltwise_relu, 0.0f, 0.0f);
        relu.set_post_ops(after);
      }
      dnnl::inner_product_forward::primitive_desc const forward{{dnnl::prop_kind::forward_training, x, w, bias, y}, relu, engine_};
      memory const weights = filled(forward.weights_desc()), b = filled(bias);
      steps_.push_back({dnnl::inner_product_forward{forward},
                        {{DNNL_ARG_SRC, values[l - 1]}, {DNNL_ARG_WEIGHTS, weights}, {DNNL_ARG_BIAS, b}, {DNNL_ARG_DST, values[l]}}});
      // Backward of this layer goes before that of the layers below it.
      std::vector<step> mine;
      if (active) {
        dnnl::eltwise_backward::primitive_desc const pd{{dnnl::algorithm::eltwise_relu_use_dst_for_bwd, y, y, 0.0f, 0.0f}, engine_, forward_use_dst(y)};
        mine.push_back({dnnl::eltwise_backward{pd}, {{DNNL_ARG_DST, values[l]}, {DNNL_ARG_DIFF_DST, gradients[l]}, {DNNL_ARG_DIFF_SRC, gradients[l]}}});
      }
      if (l > 1 || input_gradient) {
        dnnl::inner_product_backward_data::primitive_desc const pd{{x, w, y}, engine_, forward};
        mine.push_back({dnnl::inner_product_backward_data{pd},
                        {{DNNL_ARG_DIFF_DST, gradients[l]}, {DNNL_ARG_WEIGHTS, filled(pd.weights_desc())}, {DNNL_ARG_DIFF_SRC, gradients[l - 1]}}});
      }
      dnnl::inner_product_backward_weights::primitive_desc const pd{{x, w, bias, y}, engine_, forward};
      mine.push_back({dnnl::inner_product_backward_weights{pd},
                      {{DNNL_ARG_SRC, values[l - 1]},
                       {DNNL_ARG_DIFF_DST, gradients[l]},
                       {DNNL_ARG_DIFF_WEIGHTS, filled(pd.diff_weights_desc())},
                       {DNNL_ARG_DIFF_BIAS, filled(bias)}}});
      backward.insert(backward.begin(), mine.begin(), mine.end());
    }
    steps_.insert(steps_.end(), backward.begin(), backward.end());
  }

  void operator()() {
    for (step const& s : steps_) s.call.execute(stream_, s.arguments);
    stream_.wait();
  }

 private:
  struct step {
    dnnl::primitive call;
    std::unordered_map<int, dnnl::memory> arguments;
  };

  dnnl::eltwise_forward::primitive_desc forward_use_dst(dnnl::memory::desc const& y) const {
    return {{dnnl::prop_kind::forward_training, dnnl::algorithm::eltwise_relu_use_dst_for_bwd, y, 0.0f, 0.0f}, engine_};
  }

  dnnl::memory filled(dnnl::memory::desc const& d) {
    memory_.emplace_back(d.get_size(), "benchmark");
    float* const p = reinterpret_cast<float*>(memory_.back().data());
    for (std::size_t i = 0; i < d.get_size() / sizeof(float); ++i) p[i] = 0.01f * static_cast<float>(i % 17);
    return dnnl::memory{d, engine_, p};
  }

  dnnl::engine engine_{dnnl::engine::kind::cpu, 0};
  dnnl::stream stream_;
  std::vector<huge_memory> memory_;
  std::vector<step> steps_;
};

}  // namespace nestpipe::bench
