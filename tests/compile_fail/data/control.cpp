// expect-ok
#include <nestpipe/data/in_memory.hpp>
#include <nestpipe/data/synthetic.hpp>

static_assert(nestpipe::data::audit<nestpipe::data::synthetic>());
static_assert(nestpipe::data::audit<nestpipe::data::in_memory>());
