// expect: model policy [8/8]: provide backward_weights(parameters, batch, workspace, d_logits, gradients) const, apart from the inputs
#include "complete_model.hpp"

struct no_backward_weights : complete_model {
  void backward_weights() = delete;
};
static_assert(nm::audit<no_backward_weights>());
