// expect: dataset [4/6]: provide parse(block const&, std::size_t first, std::size_t last, sample_block&) const
#include <nestpipe/data/synthetic.hpp>

struct mine {
  using block = nestpipe::data::row_block;
  nestpipe::schema schema() const;
  std::size_t frame(nestpipe::data::row_block&, std::size_t);
  void rewind(std::uint64_t);
  void seek(nestpipe::data::data_position);
  nestpipe::data::data_position position() const;
  std::optional<std::uint64_t> size_hint() const;
};

static_assert(nestpipe::data::audit<mine>());
