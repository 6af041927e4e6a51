// expect-ok
#include "complete_model.hpp"

static_assert(nm::audit<complete_model>());
static_assert(nm::model<complete_model>);
