// expect: dataset [5/6]: provide rewind(epoch), position() and seek(data_position)
#include <nestpipe/data/synthetic.hpp>

struct mine {
  using block = nestpipe::data::row_block;
  nestpipe::schema schema() const;
  std::size_t frame(nestpipe::data::row_block&, std::size_t);
  void parse(nestpipe::data::row_block const&, std::size_t, std::size_t, nestpipe::sample_block&) const;
  std::optional<std::uint64_t> size_hint() const;
};

static_assert(nestpipe::data::audit<mine>());
