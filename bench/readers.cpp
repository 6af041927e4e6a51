// Framing and parsing of a click log, beside reading its bytes and finding its line ends; of a gzip file, beside inflating it.
// Bytes of text per second on one core; a gzip file is inflated on a thread of its own.
//
//   bench.readers [--full] [flags of Google Benchmark]     writes files of 50 to 200 MB to the temporary folder and removes them

#include "limits/beside.hpp"
#include "limits/program.hpp"

#include <nestpipe/core/random.hpp>
#include <nestpipe/data/criteo_tsv.hpp>
#include <nestpipe/data/csv.hpp>
#include <nestpipe/data/libsvm.hpp>

#if defined(NESTPIPE_WITH_ZLIB)
#include <zlib.h>
#endif

#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

namespace {

namespace np = nestpipe;

/// A file that goes away with the object.
class temporary {
 public:
  explicit temporary(std::string const& name) : path_{std::filesystem::temp_directory_path() / ("nestpipe-bench-" + std::to_string(::getpid()) + "-" + name)} {}
  ~temporary() {
    std::error_code ignored;
    std::filesystem::remove(path_, ignored);
  }
  temporary(temporary const&) = delete;
  temporary& operator=(temporary const&) = delete;
  std::string path() const { return path_.string(); }

 private:
  std::filesystem::path path_;
};

/// Rows like those of Criteo's day_0: counts of a few digits, a fifth of them missing, 26 ids of eight hexadecimal digits.
std::string criteo_rows(std::size_t bytes) {
  std::string text;
  char buffer[32];
  for (std::uint64_t row = 0; text.size() < bytes; ++row) {
    np::counter_random const random{7, row, 1};
    text += random.uniform(0) < 0.03f ? '1' : '0';
    for (std::uint64_t i = 1; i <= 13; ++i) {
      text += '\t';
      if (random.uniform(i) < 0.2f) continue;
      auto const value = static_cast<unsigned>(1.0f / (random.uniform(100 + i) + 1e-4f));
      text.append(buffer, static_cast<std::size_t>(std::snprintf(buffer, sizeof buffer, "%u", value)));
    }
    for (std::uint64_t i = 1; i <= 26; ++i) {
      text += '\t';
      if (random.uniform(200 + i) < 0.03f) continue;
      text.append(buffer, static_cast<std::size_t>(std::snprintf(buffer, sizeof buffer, "%08x", static_cast<unsigned>(random.below(300 + i, 1U << (8 + i))* 2654435761U))));
    }
    text += '\n';
  }
  return text;
}

std::string csv_rows(std::size_t bytes) {
  std::string text = "user,item,hour,price,click\n";
  char buffer[96];
  for (std::uint64_t row = 0; text.size() < bytes; ++row) {
    np::counter_random const random{7, row, 2};
    text.append(buffer, static_cast<std::size_t>(std::snprintf(buffer, sizeof buffer, "u%u,item %u,%u,%.2f,%u\n", static_cast<unsigned>(random.below(0, 100000)),
                                                               static_cast<unsigned>(random.below(1, 5000)), static_cast<unsigned>(random.below(2, 24)),
                                                               static_cast<double>(random.uniform(3)) * 100.0, static_cast<unsigned>(random.below(4, 2)))));
  }
  return text;
}

std::string libsvm_rows(std::size_t bytes) {
  std::string text;
  char buffer[32];
  for (std::uint64_t row = 0; text.size() < bytes; ++row) {
    np::counter_random const random{7, row, 3};
    text += random.uniform(0) < 0.3f ? "1" : "0";
    std::uint64_t id = 1;
    for (std::uint64_t i = 1; i <= 20; ++i) {
      id += 1 + random.below(i, 1000);
      text.append(buffer, static_cast<std::size_t>(std::snprintf(buffer, sizeof buffer, " %u:1", static_cast<unsigned>(id))));
    }
    text += '\n';
  }
  return text;
}

void write(std::string const& path, std::string const& text) { std::ofstream{path, std::ios::binary}.write(text.data(), static_cast<std::streamsize>(text.size())); }

/// Reads the whole file and counts line ends.
void bare_lines(std::string const& path) {
  static std::vector<char> buffer(std::size_t{1} << 20);
  np::data::file_stream file{path};
  std::size_t lines = 0;
  while (std::size_t const n = file.read(buffer.data(), buffer.size())) {
    char const* p = buffer.data();
    char const* const end = p + n;
    while ((p = static_cast<char const*>(std::memchr(p, '\n', static_cast<std::size_t>(end - p)))) != nullptr) {
      ++lines;
      if (++p == end) break;
    }
  }
  np::bench::keep(&lines);
}

/// One epoch in batches of 2,048.
template <class Dataset>
void epoch(Dataset& d, typename Dataset::block& block, np::sample_block& out, std::uint64_t number) {
  d.rewind(number);
  while (std::size_t const n = d.frame(block, 2048)) d.parse(block, 0, n, out);
}

template <class Dataset>
void plain(benchmark::State& state, std::string const& text, std::string const& name, typename Dataset::options const& options, double least) {  // bytes per second
  temporary const file{name};
  write(file.path(), text);
  Dataset d{file.path(), options};
  typename Dataset::block block;
  np::sample_block out;
  std::uint64_t number = 0;
  auto const bytes = static_cast<double>(text.size());
  np::bench::beside(
      state, bytes, [&] { epoch(d, block, out, number++); }, bytes, [&] { bare_lines(file.path()); }, least);
}

#if defined(NESTPIPE_WITH_ZLIB)
void gzip(benchmark::State& state, std::string const& text) {
  temporary const file{"criteo.tsv.gz"};
  gzFile const out = gzopen(file.path().c_str(), "wb6");
  gzwrite(out, text.data(), static_cast<unsigned>(text.size()));
  gzclose(out);
  np::data::criteo_tsv d{file.path()};
  np::data::criteo_tsv::block block;
  np::sample_block samples;
  std::uint64_t number = 0;
  std::vector<char> buffer(std::size_t{1} << 20);
  auto const bytes = static_cast<double>(text.size());
  np::bench::beside(
      state, bytes, [&] { epoch(d, block, samples, number++); }, bytes,
      [&] {
        np::data::gzip_stream in{std::make_unique<np::data::file_stream>(file.path())};
        while (in.read(buffer.data(), buffer.size()) != 0) {
        }
      },
      0.9);
}
#endif

}  // namespace

int main(int argc, char** argv) {
  return np::bench::program(argc, argv, [](bool full) {
    std::size_t const bytes = (full ? std::size_t{200} : std::size_t{50}) << 20;
    auto const criteo = std::make_shared<std::string>(criteo_rows(bytes));
    using np::data::criteo_tsv;
    benchmark::RegisterBenchmark("reader/criteo_tsv", [criteo](benchmark::State& s) { plain<criteo_tsv>(s, *criteo, "criteo.tsv", {}, 400e6); })
        ->UseManualTime()->Iterations(7)->Unit(benchmark::kMillisecond);
#if defined(NESTPIPE_WITH_ZLIB)
    benchmark::RegisterBenchmark("reader/criteo_tsv_gzip", [criteo](benchmark::State& s) { gzip(s, *criteo); })
        ->UseManualTime()->Iterations(7)->Unit(benchmark::kMillisecond);
#endif
    benchmark::RegisterBenchmark("reader/csv", [bytes](benchmark::State& s) {
      plain<np::data::csv>(s, csv_rows(bytes / 4), "rows.csv", {.label = "click", .categorical = {"user", "item", "hour"}, .dense = {"price"}}, 0);
    })->UseManualTime()->Iterations(7)->Unit(benchmark::kMillisecond);
    benchmark::RegisterBenchmark("reader/libsvm", [bytes](benchmark::State& s) { plain<np::data::libsvm>(s, libsvm_rows(bytes / 4), "rows.libsvm", {}, 0); })
        ->UseManualTime()->Iterations(7)->Unit(benchmark::kMillisecond);
  });
}
