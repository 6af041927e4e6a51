// expect: dataset [3/6]: provide std::size_t frame(block&, std::size_t rows)
#include <nestpipe/data/synthetic.hpp>

struct mine {
  using block = nestpipe::data::row_block;
  nestpipe::schema schema() const;
  void parse(nestpipe::data::row_block const&, std::size_t, std::size_t, nestpipe::sample_block&) const;
  void rewind(std::uint64_t);
  void seek(nestpipe::data::data_position);
  nestpipe::data::data_position position() const;
  std::optional<std::uint64_t> size_hint() const;
};

static_assert(nestpipe::data::audit<mine>());
