// expect: dataset [6/6]: provide size_hint() const
#include <nestpipe/data/synthetic.hpp>

struct mine {
  using block = nestpipe::data::row_block;
  nestpipe::schema schema() const;
  std::size_t frame(nestpipe::data::row_block&, std::size_t);
  void parse(nestpipe::data::row_block const&, std::size_t, std::size_t, nestpipe::sample_block&) const;
  void rewind(std::uint64_t);
  void seek(nestpipe::data::data_position);
  nestpipe::data::data_position position() const;
};

static_assert(nestpipe::data::audit<mine>());
