// ctest: --help
/// @file
/// checkpoint_info: says what is in a checkpoint, reads all of it, or compares two.
///
///     checkpoint_info run/step-000500                        what it is
///     checkpoint_info run                                    the checkpoints of a run, and what the last one is
///     checkpoint_info run --verify                           every byte of the last one against its checksums
///     checkpoint_info run/step-000500 --compare other/model  where the numbers differ
///
/// Exit status: 0 fine; 1 damaged, or the compared ones differ; 2 a bad value on the command line.

#include <nestpipe/checkpoint/inspect.hpp>
#include <nestpipe/checkpoint/numbered.hpp>

#include <CLI/CLI.hpp>

#include <cinttypes>
#include <cstdio>

namespace {

namespace checkpoint = nestpipe::checkpoint;
namespace fs = std::filesystem;

std::string with_commas(std::uint64_t n) {
  std::string s = std::to_string(n);
  for (std::size_t i = s.size(); i > 3; i -= 3) s.insert(i - 3, 1, ',');
  return s;
}

std::string mebibytes(std::uint64_t bytes) {
  char text[32];
  std::snprintf(text, sizeof text, "%.1f MiB", static_cast<double>(bytes) / 1048576.0);
  return text;
}

std::string state_text(std::string const& optimizer, std::size_t dim, std::size_t floats) {
  std::string s;
  for (auto const& part : checkpoint::state_layout(optimizer, dim, floats)) s.append(s.empty() ? "" : " ").append(part.name).append("[" + std::to_string(part.floats) + "]");
  return s.empty() ? "-" : s;
}

/// A checkpoint itself, or the last one of a run.
fs::path choose(fs::path const& given, bool list) {
  if (checkpoint::detail::holds_checkpoint(given)) return given;
  auto const all = checkpoint::numbered(given);
  if (all.empty()) return checkpoint::existing_directory(given);
  if (list) {
    for (auto const& c : all) std::printf("%s\n", c.directory.c_str());
  }
  return all.back().directory;
}

void print(fs::path const& directory) {
  checkpoint::manifest const m = checkpoint::read_manifest(directory);
  std::uint64_t bytes = m.dense_file.bytes;
  for (auto const& f : m.files) bytes += f.sum.bytes;
  std::printf("checkpoint       %s, %zu files, %s\n", directory.c_str(), m.files.size() + 2, mebibytes(bytes).c_str());
  std::printf("trained          step %s, %s samples; next: epoch %" PRIu64 ", row %s\n", with_commas(m.step).c_str(), with_commas(m.samples).c_str(), m.position.epoch, with_commas(m.position.row).c_str());
  std::printf("run              seed %" PRIu64 ", batch size %" PRIu64 ", %" PRIu64 " micro-batches, saved by %" PRIu64 " rank%s, %" PRIu64 " shards%s\n", m.seed, m.batch_size, m.micro_batches, m.world_size,
              m.world_size == 1 ? "" : "s", m.shards, m.per_rank_files ? ", files per rank" : "");
  std::printf("model            %s (%s), rows by %s, dense parameters by %s, storage %s\n", m.policies.model.c_str(), checkpoint::detail::task_name(m.task), m.policies.row_optimizer.c_str(),
              m.policies.dense_optimizer.c_str(), m.policies.storage.c_str());
  std::printf("data             %zu features, %zu dense columns, %zu label%s\n", m.features.size(), m.columns.dense, m.columns.labels, m.columns.labels == 1 ? "" : "s");
  std::printf("digest           %s\n\n", m.digest_of_all.text().c_str());
  std::printf("%-28s %14s %5s  %s\n", "table", "rows", "dim", "optimizer state of a row (floats)");
  for (auto const& t : m.tables)
    std::printf("%-28s %14s %5zu  %s\n", t.spec.name.c_str(), with_commas(t.rows).c_str(), t.spec.dim, state_text(m.policies.row_optimizer, t.spec.dim, t.state_floats).c_str());
  std::printf("\n%-28s %20s  %s\n", "dense parameter", "shape", "optimizer state of a row (floats)");
  for (auto const& p : m.parameters) {
    std::string const shape = "(" + std::to_string(p.rows) + ", " + std::to_string(p.cols) + ")";
    std::printf("%-28s %20s  %s\n", p.name.c_str(), shape.c_str(), state_text(m.policies.dense_optimizer, p.cols, p.state_floats).c_str());
  }
}

int verify(fs::path const& directory) {
  auto const problems = checkpoint::verify(directory);
  for (auto const& p : problems) std::printf("damaged: %s\n", p.c_str());
  if (problems.empty()) std::printf("whole: all checksums and the digest fit (%s)\n", directory.c_str());
  return problems.empty() ? 0 : 1;
}

int compare(fs::path const& first, fs::path const& second) {
  checkpoint::comparison const c = checkpoint::compare(first, second);
  for (auto const& s : c.settings) std::printf("%s\n", s.c_str());
  auto const line = [](char const* what, checkpoint::array_comparison const& a) {
    if (a.same()) return;
    std::printf("%s %s: %s rows equal, %s changed, %s only in the first, %s only in the second, largest difference %g\n", what, a.name.c_str(), with_commas(a.equal).c_str(), with_commas(a.changed).c_str(),
                with_commas(a.first_only).c_str(), with_commas(a.second_only).c_str(), a.largest);
  };
  for (auto const& t : c.tables) line("table", t);
  for (auto const& p : c.parameters) line("dense parameter", p);
  if (c.same()) std::printf("same: every row, parameter and optimizer state, bit by bit\n");
  return c.same() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  CLI::App app{"Says what is in a checkpoint, verifies it, or compares it with another."};
  fs::path directory, other;
  bool check = false;
  app.add_option("checkpoint", directory, "its directory, or that of a run: then the last one")->required();
  app.add_flag("--verify", check, "read every byte and compare with the checksums");
  app.add_option("--compare", other, "another checkpoint: say where the numbers differ");
  try {
    app.parse(argc, argv);
  } catch (CLI::ParseError const& e) {
    return app.exit(e) == 0 ? 0 : 2;
  }
  try {
    bool const show = !check && other.empty();
    fs::path const chosen = checkpoint::existing_directory(choose(directory, show));
    if (show) print(chosen);
    int status = check ? verify(chosen) : 0;
    if (!other.empty()) status = std::max(status, compare(chosen, choose(other, false)));
    return status;
  } catch (nestpipe::config_error const& e) {
    std::fprintf(stderr, "checkpoint_info: %s\n", e.what());
    return 2;
  } catch (std::exception const& e) {
    std::fprintf(stderr, "checkpoint_info: %s\n", e.what());
    return 1;
  }
}
