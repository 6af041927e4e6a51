// expect: dataset [1/6]: define member type block
#include <nestpipe/data/synthetic.hpp>

struct mine {
  nestpipe::schema schema() const;
  std::size_t frame(nestpipe::data::row_block&, std::size_t);
  void parse(nestpipe::data::row_block const&, std::size_t, std::size_t, nestpipe::sample_block&) const;
  void rewind(std::uint64_t);
  void seek(nestpipe::data::data_position);
  nestpipe::data::data_position position() const;
  std::optional<std::uint64_t> size_hint() const;
};

static_assert(nestpipe::data::audit<mine>());
