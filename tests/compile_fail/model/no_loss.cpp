// expect: model policy [6/8]: provide double loss(batch, logits, scale, d_logits) const and score(logit) const
#include "complete_model.hpp"

struct no_loss : complete_model {
  void score() = delete;
};
static_assert(nm::audit<no_loss>());
