#pragma once
// A model that meets every requirement; the cases hide one member each.
#include <nestpipe/model/model.hpp>

namespace nm = nestpipe::model;

struct complete_model {
  using scalar = float;
  struct workspace {};
  nm::embedding_request request(std::size_t dim) const { return {dim, {}, nestpipe::pooling::sum}; }
  void attach(nm::model_spec const&) {}
  std::span<nm::parameter const> parameters() const { return {}; }
  std::size_t outputs() const { return 1; }
  void forward(float const*, nm::model_batch<float> const&, workspace&, float*) const {}
  double loss(nm::model_batch<float> const&, float const*, float, float*) const { return 0; }
  float score(float logit) const { return logit; }
  void backward_inputs(float const*, nm::model_batch<float> const&, workspace&, float const*, nm::embedding_gradients<float> const&) const {}
  void backward_weights(float const*, nm::model_batch<float> const&, workspace&, float const*, float*) const {}
};
