// expect-ok
#include <nestpipe/reduction/reduction.hpp>

struct sum {
  void open(nestpipe::reduction::reduction_shape const&);
  std::span<float> leaf(std::size_t);
  void add(std::size_t, std::size_t, std::size_t);
  void reduce(nestpipe::comm::channel_archetype&, std::size_t, std::size_t, nestpipe::comm::call_site);
  std::span<float const> result() const;
};

static_assert(nestpipe::reduction::audit<sum>());
