// expect: model policy [3/8]: provide attach(model_spec const&)
#include "complete_model.hpp"

struct no_attach : complete_model {
  void attach() = delete;
};
static_assert(nm::audit<no_attach>());
