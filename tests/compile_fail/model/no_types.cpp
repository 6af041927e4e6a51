// expect: model policy [1/8]: define member types scalar and workspace
#include "complete_model.hpp"

struct no_types : complete_model {
 private:
  struct workspace {};  // out of reach
};
static_assert(nm::audit<no_types>());
