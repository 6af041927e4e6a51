// expect: comm policy [3/4]: provide noexcept abort(std::string_view reason)
#include <nestpipe/comm/comm.hpp>

struct quiet {
  std::size_t rank() const { return 0; }
  std::size_t size() const { return 1; }
  nestpipe::comm::channel_archetype channel(std::string_view) { return {}; }
  void abort(std::string_view) {}  // may throw
};

static_assert(nestpipe::comm::audit<quiet>());
