// expect: model policy [7/8]: provide backward_inputs(parameters, batch, workspace, d_logits, embedding_gradients) const, apart from the weights
#include "complete_model.hpp"

struct no_backward_inputs : complete_model {
  void backward_inputs() = delete;
};
static_assert(nm::audit<no_backward_inputs>());
