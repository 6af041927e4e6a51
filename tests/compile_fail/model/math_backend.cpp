// expect-ok
#include <nestpipe/model/dlrm.hpp>

#include <nestpipe/math/default.hpp>

void run(nestpipe::model::dlrm<> const& m, nestpipe::model::dlrm<>::workspace& ws, float* values) { m.forward(values, {}, ws, values); }
