#pragma once
// What the checkpoint tests share: a scratch directory and whole files as strings.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <stdexcept>
#include <string>

namespace nestpipe {}

namespace checkpoint_test {

namespace np = nestpipe;
namespace fs = std::filesystem;

/// A directory of its own, removed at the end.
class scratch_directory {
 public:
  scratch_directory() {
    std::string name = (fs::temp_directory_path() / "nestpipe-checkpoint-XXXXXX").string();
    if (::mkdtemp(name.data()) == nullptr) throw std::runtime_error{"mkdtemp"};
    path_ = name;
  }
  ~scratch_directory() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  scratch_directory(scratch_directory const&) = delete;
  scratch_directory& operator=(scratch_directory const&) = delete;
  fs::path operator/(char const* name) const { return path_ / name; }
  fs::path const& path() const { return path_; }

 private:
  fs::path path_;
};

inline std::string slurp(fs::path const& p) {
  std::ifstream in{p, std::ios::binary};
  return {std::istreambuf_iterator<char>{in}, {}};
}
inline void spill(fs::path const& p, std::string const& bytes) { std::ofstream{p, std::ios::binary}.write(bytes.data(), static_cast<std::streamsize>(bytes.size())); }

}  // namespace checkpoint_test
