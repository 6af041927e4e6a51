#pragma once
/// @file
/// Decompression of gzip input. Needs zlib: link nestpipe::zlib.

#if !defined(NESTPIPE_WITH_ZLIB)
#error "nestpipe: data/gzip_stream.hpp needs zlib: link the CMake target nestpipe::zlib"
#endif

#include <nestpipe/data/byte_stream.hpp>

#include <zlib.h>

#include <vector>

namespace nestpipe::data {

/// Decompressed bytes of a gzip file; several members one after another read as one text.
class gzip_stream final : public byte_stream {
 public:
  explicit gzip_stream(std::unique_ptr<file_stream> file) : file_{std::move(file)}, input_(std::size_t{1} << 18) {
    if (inflateInit2(&state_, 15 + 16) != Z_OK) throw data_error{"zlib could not start", file_->path()};
  }
  ~gzip_stream() override { inflateEnd(&state_); }

  /// @throws data_error when the file ends inside a member or its check sum does not fit.
  std::size_t read(char* out, std::size_t bytes) override {
    state_.next_out = reinterpret_cast<Bytef*>(out);
    state_.avail_out = static_cast<uInt>(std::min<std::size_t>(bytes, 1U << 30));
    uInt const wanted = state_.avail_out;
    while (state_.avail_out == wanted && !done_) {
      if (state_.avail_in == 0) {
        std::size_t const n = file_->read(reinterpret_cast<char*>(input_.data()), input_.size());
        state_.next_in = input_.data();
        state_.avail_in = static_cast<uInt>(n);
        if (n == 0) {
          if (!between_members_) throw data_error{"the gzip file is cut: it ends in the middle", file_->path(), "copy or download it again"};
          done_ = true;
          break;
        }
      }
      if (between_members_ && !first_) {
        // After a member: another one, or padding (zeros, as tape tools leave), which ends the text.
        if (*state_.next_in != 0x1f) {
          done_ = true;
          break;
        }
        inflateReset(&state_);
      }
      between_members_ = false;
      first_ = false;
      int const result = inflate(&state_, Z_NO_FLUSH);
      if (result == Z_STREAM_END) {
        between_members_ = true;
      } else if (result != Z_OK && result != Z_BUF_ERROR) {
        throw data_error{"the gzip file is damaged: " + std::string{state_.msg ? state_.msg : "bad data"}, file_->path(), "copy or download it again"};
      }
    }
    return wanted - state_.avail_out;
  }

 private:
  std::unique_ptr<file_stream> file_;
  std::vector<Bytef> input_;
  z_stream state_{};
  bool between_members_ = true;
  bool first_ = true;
  bool done_ = false;
};

}  // namespace nestpipe::data
