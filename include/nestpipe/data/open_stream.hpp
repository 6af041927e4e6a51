#pragma once
/// @file
/// Opens an input by path, whatever it is.

#include <nestpipe/data/byte_stream.hpp>
#if defined(NESTPIPE_WITH_ZLIB)
#include <nestpipe/data/gzip_stream.hpp>
#include <nestpipe/data/read_ahead.hpp>
#endif

namespace nestpipe::data {

/// Plain or gzip file, or standard input ("-"). Gzip is decompressed on a thread of its own.
/// @throws data_error when it cannot be opened, is a directory, or is gzip and the library was built without zlib.
inline std::unique_ptr<byte_stream> open_stream(std::string const& path) {
  auto file = std::make_unique<file_stream>(path);
  if (!file->gzip()) return file;
#if defined(NESTPIPE_WITH_ZLIB)
  return std::make_unique<read_ahead>(std::make_unique<gzip_stream>(std::move(file)));
#else
  throw data_error{"the file is gzip, and this program was built without zlib", path, "decompress it first, or link nestpipe::zlib"};
#endif
}

}  // namespace nestpipe::data
