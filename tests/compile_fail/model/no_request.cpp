// expect: model policy [2/8]: provide embedding_request request(std::size_t dim) const
#include "complete_model.hpp"

struct no_request : complete_model {
  void request() = delete;
};
static_assert(nm::audit<no_request>());
