// expect-ok
#include <nestpipe/comm/comm.hpp>

struct world {
  std::size_t rank() const { return 0; }
  std::size_t size() const { return 1; }
  nestpipe::comm::channel_archetype channel(std::string_view) { return {}; }
  void abort(std::string_view) noexcept {}
};

static_assert(nestpipe::comm::audit<world>());
