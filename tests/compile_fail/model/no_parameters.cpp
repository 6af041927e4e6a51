// expect: model policy [4/8]: provide parameters() const and outputs() const
#include "complete_model.hpp"

struct no_parameters : complete_model {
  void outputs() = delete;
};
static_assert(nm::audit<no_parameters>());
