#pragma once
/// @file
/// What a dataset is: a stream of data rows, read in two steps so that ranks can share the first and split the second.
/// `frame` finds the next rows of the stream (cheap: line ends, no parsing); `parse` turns chosen rows into samples.
///
/// | requirement on D (copyable) | meaning |
/// |---|---|
/// | `typename D::block` | the framed rows of one global batch; default-constructible, reused; const use is thread-safe |
/// | `d.schema()` | names of features, number of dense columns and labels; known after construction |
/// | `d.frame(block, rows)` | next `rows` data rows of the epoch into the block (fewer at its end); returns how many; 0 = end of epoch. @throws data_error |
/// | `d.parse(block, first, last, out)` | positions [first, last) of the block into `out` (cleared first); positions past the block's end give nothing; malformed rows are counted in out.malformed; const, thread-safe. @throws data_error when strict |
/// | `d.rewind(epoch)` | to the start of epoch `epoch` (0, 1, ...): a seeded shuffle depends on it |
/// | `d.position()`, `d.seek(data_position)` | where the next frame starts; seek replays to the same rows and order |
/// | `d.size_hint()` | rows per epoch if known |
///
/// Row numbers count data rows of the stream, malformed ones included: a malformed row leaves an empty place in its batch.
/// Optional: `d.single_pass()` true when the stream cannot be opened twice (standard input): then one rank frames and the
/// block travels as bytes: `block.serialize(std::vector<std::byte>&) const`, `block.deserialize(std::span<std::byte const>)`.
/// Optional: `d.complaints()` the first few malformed lines as text ("file:line: reason"), thread-safe.

#include <nestpipe/core/config.hpp>
#include <nestpipe/core/error.hpp>
#include <nestpipe/core/jagged.hpp>
#include <nestpipe/core/schema.hpp>

#include <concepts>
#include <optional>

namespace nestpipe::data {

/// Where a stream stands. Enough to resume.
struct data_position {
  std::uint64_t epoch = 0;
  std::uint64_t row = 0;  ///< data rows framed in this epoch
  bool operator==(data_position const&) const = default;
};

template <class D>
concept has_block = requires { typename D::block; };
template <class D>
concept has_schema = requires(D const& d) {
  { d.schema() } -> std::convertible_to<struct schema>;
};
template <class D>
concept has_frame = has_block<D> && requires(D& d, typename D::block& b, std::size_t n) {
  { d.frame(b, n) } -> std::convertible_to<std::size_t>;
};
template <class D>
concept has_parse = has_block<D> && requires(D const& d, typename D::block const& b, std::size_t n, sample_block& out) { d.parse(b, n, n, out); };
template <class D>
concept has_position = requires(D& d, data_position p, std::uint64_t epoch) {
  d.rewind(epoch);
  d.seek(p);
  { d.position() } -> std::convertible_to<data_position>;
};
template <class D>
concept has_size_hint = requires(D const& d) {
  { d.size_hint() } -> std::convertible_to<std::optional<std::uint64_t>>;
};
template <class D>
concept dataset = has_block<D> && has_schema<D> && has_frame<D> && has_parse<D> && has_position<D> && has_size_hint<D> && std::copy_constructible<D>;

template <class D>
consteval bool audit() {
  static_assert(has_block<D>, "dataset [1/6]: define member type block");
  static_assert(has_schema<D>, "dataset [2/6]: provide schema() const");
  if constexpr (has_block<D>) {
    static_assert(has_frame<D>, "dataset [3/6]: provide std::size_t frame(block&, std::size_t rows)");
    static_assert(has_parse<D>, "dataset [4/6]: provide parse(block const&, std::size_t first, std::size_t last, sample_block&) const");
  }
  static_assert(has_position<D>, "dataset [5/6]: provide rewind(epoch), position() and seek(data_position)");
  static_assert(has_size_hint<D>, "dataset [6/6]: provide size_hint() const");
  return true;
}

}  // namespace nestpipe::data
