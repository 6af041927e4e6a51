// expect: model policy [5/8]: provide forward(parameters, batch, workspace, logits) const
#include "complete_model.hpp"

struct no_forward : complete_model {
  void forward() = delete;
};
static_assert(nm::audit<no_forward>());
