// expect: reduction policy [3/6]: provide add(std::size_t micro_batch, std::size_t first, std::size_t last)
#include <nestpipe/reduction/reduction.hpp>

struct sum_at_the_end {
  void open(nestpipe::reduction::reduction_shape const&);
  std::span<float> leaf(std::size_t);
  void reduce(nestpipe::comm::channel_archetype&, std::size_t, std::size_t, nestpipe::comm::call_site);
  std::span<float const> result() const;
};

static_assert(nestpipe::reduction::audit<sum_at_the_end>());
