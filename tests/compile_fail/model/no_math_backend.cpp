// expect: nestpipe: this model multiplies matrices with math::automatic: include <nestpipe/math/default.hpp>
#include <nestpipe/model/dlrm.hpp>

void run(nestpipe::model::dlrm<> const& m, nestpipe::model::dlrm<>::workspace& ws, float* values) { m.forward(values, {}, ws, values); }
