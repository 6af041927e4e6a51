#pragma once
// A folder of small input files that goes away with the test.

#include <doctest/doctest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <string_view>

#if defined(NESTPIPE_WITH_ZLIB)
#include <zlib.h>
#endif

class temp_dir {
 public:
  temp_dir() {
    std::string name = (std::filesystem::temp_directory_path() / "nestpipe_data_XXXXXX").string();
    if (mkdtemp(name.data()) == nullptr) throw std::runtime_error{"no temporary folder"};
    path_ = name;
  }
  temp_dir(temp_dir const&) = delete;
  temp_dir& operator=(temp_dir const&) = delete;
  ~temp_dir() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }

  std::string path() const { return path_.string(); }
  std::string operator()(std::string const& name) const { return (path_ / name).string(); }
  std::string write(std::string const& name, std::string_view text) const {
    std::ofstream out{path_ / name, std::ios::binary};
    out.write(text.data(), static_cast<std::streamsize>(text.size()));
    return (*this)(name);
  }
#if defined(NESTPIPE_WITH_ZLIB)
  std::string write_gzip(std::string const& name, std::string_view text) const { return write(name, gzip(text)); }

  // One gzip member.
  static std::string gzip(std::string_view text) {
    z_stream z{};
    REQUIRE(deflateInit2(&z, Z_DEFAULT_COMPRESSION, Z_DEFLATED, 15 + 16, 8, Z_DEFAULT_STRATEGY) == Z_OK);
    std::string out(deflateBound(&z, text.size()) + 64, '\0');
    std::string in{text};
    z.next_in = reinterpret_cast<Bytef*>(in.data());
    z.avail_in = static_cast<uInt>(in.size());
    z.next_out = reinterpret_cast<Bytef*>(out.data());
    z.avail_out = static_cast<uInt>(out.size());
    REQUIRE(deflate(&z, Z_FINISH) == Z_STREAM_END);
    out.resize(z.total_out);
    deflateEnd(&z);
    return out;
  }
#endif

 private:
  std::filesystem::path path_;
};

// The text of the exception that `f` throws; a failure when it throws none, or another type.
template <class Error, class F>
std::string message_of(F&& f) {
  try {
    f();
  } catch (Error const& e) {
    CHECK(std::string_view{e.what()}.find('\n') == std::string_view::npos);
    return e.what();
  } catch (std::exception const& e) {
    FAIL("another exception: " << e.what());
  }
  FAIL("no exception");
  return {};
}

inline bool contains(std::string_view text, std::string_view part) { return text.find(part) != std::string_view::npos; }

// Of the data sets that are not part of the repository; empty when they are not here.
inline std::string shared_data(std::string const& name) {
#if defined(NESTPIPE_SHARED_DATA_DIR)
  std::string const path = std::string{NESTPIPE_SHARED_DATA_DIR} + "/" + name;
  if (std::filesystem::exists(path)) return path;
#endif
  MESSAGE("skipped: no " << name << " under the shared data folder");
  return {};
}
