// What is damaged, missing or made for something else is noticed and named.

#include "small_engine.hpp"

#include <nestpipe/checkpoint/inspect.hpp>

#include <doctest/doctest.h>

using namespace checkpoint_test;

namespace {

std::vector<fs::path> files_of(fs::path const& directory) {
  std::vector<fs::path> all;
  for (auto const& entry : fs::directory_iterator{directory}) all.push_back(entry.path());
  std::sort(all.begin(), all.end());
  return all;
}

/// As load, on one rank; on the shared tables of the standard engine.
struct other_model {};

}  // namespace

TEST_CASE("a whole checkpoint has nothing to complain about") {
  scratch_directory dir;
  np::digest const saved = save_small(dir / "c", 3, 200);
  CHECK(np::checkpoint::verify(dir / "c").empty());
  np::digest loaded;
  CHECK(load_small(dir / "c", &loaded) == "");
  CHECK(loaded == saved);
}

TEST_CASE("every flipped byte is detected and its file named") {
  scratch_directory dir;
  save_small(dir / "c", 2, 12);
  np::comm::threads::run(1, [&](np::comm::threads& comm) {
    small_engine<> e{comm};
    std::size_t tried = 0;
    for (fs::path const& p : files_of(dir / "c")) {
      std::string bytes = slurp(p);
      bool const all = p.filename() == "manifest.json";
      std::size_t const stride = all ? 1 : std::max<std::size_t>(1, bytes.size() / 50);
      for (std::size_t at = 0; at < bytes.size(); at += stride) {
        char const was = bytes[at];
        for (int const flip : {1, 32, 255}) {
          if (all && at % 7 != 0 && flip != 32) continue;  // 32 turns small letters into large ones
          bytes[at] = static_cast<char>(was ^ flip);
          spill(p, bytes);
          std::string message;
          try {
            np::checkpoint::load(e, dir / "c");
          } catch (np::data_error const& error) {
            message = error.what();
          }
          if (!has(message, p.filename().string())) FAIL_CHECK(p.string() << " byte " << at << " flip " << flip << ": " << message);
          ++tried;
        }
        bytes[at] = was;
      }
      spill(p, bytes);
    }
    CHECK(tried > 1000);
    np::checkpoint::load(e, dir / "c");  // all is well again
  });
}

TEST_CASE("a file cut short, too long or missing is named") {
  scratch_directory dir;
  save_small(dir / "c", 2, 12);
  for (fs::path const& p : files_of(dir / "c")) {
    std::string const bytes = slurp(p);
    std::string const name = p.filename().string();
    for (std::size_t const size : {std::size_t{0}, std::size_t{1}, bytes.size() / 2, bytes.size() - 1}) {
      spill(p, bytes.substr(0, size));
      CHECK(has(load_small(dir / "c"), name));
      CHECK(np::checkpoint::verify(dir / "c").size() == 1);
    }
    spill(p, bytes + "x");
    CHECK(has(load_small(dir / "c"), name));
    fs::remove(p);
    CHECK(has(load_small(dir / "c"), name));
    CHECK(has(np::checkpoint::verify(dir / "c").at(0), name));
    spill(p, bytes);
  }
  CHECK(load_small(dir / "c") == "");
  spill(dir / "c" / "notes.txt", "mine");
  CHECK(has(np::checkpoint::verify(dir / "c").at(0), "notes.txt"));
  CHECK(load_small(dir / "c") == "");
}

TEST_CASE("a file of another checkpoint is no replacement, even with a manifest that fits it") {
  scratch_directory dir;
  save_small(dir / "a", 1, 12, 1);
  save_small(dir / "b", 1, 12, 2);
  std::string const name = np::checkpoint::read_manifest(dir / "a").files.at(0).name;
  std::string const own = slurp(dir / "a" / name);
  spill(dir / "a" / name, slurp(dir / "b" / name));
  CHECK(has(load_small(dir / "a"), name));
  spill(dir / "a" / name, own);
  // A manifest sealed anew around rows that do not belong to it: the digest tells.
  np::checkpoint::manifest m = np::checkpoint::read_manifest(dir / "a");
  m.files.at(0).sum = np::checkpoint::read_manifest(dir / "b").files.at(0).sum;
  spill(dir / "a" / name, slurp(dir / "b" / name));
  spill(dir / "a" / "manifest.json", np::checkpoint::to_text(m));
  CHECK(has(load_small(dir / "a"), "digest"));
  CHECK(has(np::checkpoint::verify(dir / "a").at(0), "digest"));
  // One that forgets a file.
  spill(dir / "a" / name, own);
  m = np::checkpoint::read_manifest(dir / "a");
  m.files.erase(m.files.begin());
  spill(dir / "a" / "manifest.json", np::checkpoint::to_text(m));
  CHECK(has(load_small(dir / "a"), "digest"));
  CHECK(np::checkpoint::verify(dir / "a").size() == 2);
}

TEST_CASE("names in a manifest do not lead out of the directory") {
  scratch_directory dir;
  save_small(dir / "c");
  np::checkpoint::manifest m = np::checkpoint::read_manifest(dir / "c");
  m.files.at(0).name = "../elsewhere";
  spill(dir / "c" / "manifest.json", np::checkpoint::to_text(m));
  CHECK(has(load_small(dir / "c"), "not a file name"));
}

TEST_CASE("a later format is refused by its number") {
  scratch_directory dir;
  save_small(dir / "c");
  std::string text = slurp(dir / "c" / "manifest.json");
  std::string const now = "\"format_version\": 2,";
  text.replace(text.find(now), now.size(), "\"format_version\": 3,");
  // Sealed as its writer would have done.
  std::string const body = text.substr(0, text.find(",\n \"manifest_checksum\""));
  np::checkpoint::file_hash h;
  h.update(body);
  h.update(np::checkpoint::detail::seal_begin);
  h.update(np::checkpoint::detail::seal_end);
  spill(dir / "c" / "manifest.json", body + std::string{np::checkpoint::detail::seal_begin} + np::checkpoint::hex64(h.value()) + std::string{np::checkpoint::detail::seal_end});
  CHECK(has(load_small(dir / "c"), "version 3, this program reads versions up to 2"));
}

TEST_CASE("nothing there, or something else") {
  scratch_directory dir;
  CHECK(has(load_small(dir / "nothing"), "there is no checkpoint"));
  fs::create_directory(dir / "empty");
  CHECK(has(load_small(dir / "empty"), "no manifest.json"));
  CHECK_THROWS_AS(np::checkpoint::read_schema(dir / "nothing"), np::data_error);
  save_small(dir / "c");
  np::schema const columns = np::checkpoint::read_schema(dir / "c");
  CHECK(columns.features == tiny_config().schema.features);
  CHECK(columns.dense == 2);
  CHECK(columns.dense_names == tiny_config().schema.dense_names);
}

TEST_CASE("one message lists all that does not fit") {
  scratch_directory dir;
  save_small(dir / "c", 1, 20, 2);  // stands at row 200
  auto const load_as = [&]<class Engine>(std::type_identity<Engine>, auto change, std::size_t world_size = 1) {
    np::engine::engine_config c = tiny_config();
    std::vector<np::model::parameter> p = tiny_parameters();
    change(c, p);
    return on_ranks<Engine>(world_size, [&](auto& e) { np::checkpoint::load(e, dir / "c"); }, c, p);
  };
  std::type_identity<small_engine<>> const same;
  CHECK(load_as(same, [](auto&, auto&) {}) == "");
  std::string const all = load_as(same, [](auto& c, auto& p) {
    c.seed = 8;
    c.shards = 12;
    c.task = np::model::task::regression;
    c.schema.dense = 3;
    c.layout = {{{"items/all", 5, {np::row_init::kind::normal, 0.2f, 0}, 0.0f, 0}, {"ads", 2}},
                {{"user", "ads", np::pooling::sum}, {"item", "items/all", np::pooling::sum}, {"new", "ads", np::pooling::sum}}};
    p[0].cols = 4;
    p[1].name = "other";
  });
  for (char const* const part :
       {"seed: checkpoint 7, trainer 8", "shards: checkpoint 11, trainer 12", "task: checkpoint binary, trainer regression", "dense columns: checkpoint 2, trainer 3",
        "table users is missing in the trainer", "table ads is missing in the checkpoint", "table items/all, place: checkpoint 1, trainer 0", "table items/all, dim: checkpoint 2, trainer 5",
        "table items/all, optimizer state (floats): checkpoint 4, trainer 10", "table items/all, scale of first values: checkpoint 0.1, trainer 0.2",
        "table items/all, leading zeros of first values: checkpoint 1, trainer 0", "table items/all, value of missing rows: checkpoint 0.25, trainer 0", "feature shown is missing in the trainer",
        "feature new is missing in the checkpoint", "feature user, table: checkpoint users, trainer ads", "feature item, pooling: checkpoint mean, trainer sum",
        "dense parameter net.0.weight, shape: checkpoint (3, 2), trainer (3, 4)", "dense parameter net.0.bias is missing in the trainer", "dense parameter other is missing in the checkpoint"})
    CHECK_MESSAGE(has(all, part), part << " is not in: " << all);
  CHECK_FALSE(has(all, "\n"));
  CHECK(has(load_as(same, [](auto& c, auto&) { c.seed = 8; }, 3), "seed"));
  CHECK_FALSE(has(load_as(same, [](auto& c, auto&) { c.seed = 8; }, 3), "rank"));  // all say the same
  using np::optimizer::adagrad, np::optimizer::adam, np::optimizer::sgd;
  CHECK(has(load_as(std::type_identity<small_engine<tiny_model, sgd>>{}, [](auto&, auto&) {}), "optimizer of rows: checkpoint adam, trainer sgd"));
  CHECK(has(load_as(std::type_identity<small_engine<tiny_model, adam, sgd>>{}, [](auto&, auto&) {}), "optimizer of dense parameters: checkpoint adagrad, trainer sgd"));
  CHECK(has(load_as(std::type_identity<small_engine<other_model>>{}, [](auto&, auto&) {}), "model: checkpoint"));
  CHECK(load_as(same, [](auto& c, auto&) { c.batch_size = 50; }) == "");
  CHECK(has(load_as(same, [](auto& c, auto&) { c.batch_size = 150; }), "row 200, which is no whole number of batches of 150 rows (it was saved with batch size 100)"));
  CHECK(has(load_as(same, [](auto& c, auto&) { c.per_rank_files = true; }), "without files per rank"));
}
