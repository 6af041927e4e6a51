// What is in the files: the same bytes whoever wrote them in what order, readable by others, comparable.

#include "small_engine.hpp"

#include <nestpipe/checkpoint/inspect.hpp>

#include <doctest/doctest.h>

using namespace checkpoint_test;

TEST_CASE("bytes depend on the rows, not on the order in which they came") {
  scratch_directory dir;
  save_small(dir / "a", 1, 500);
  CHECK(on_ranks(1, [&](auto& e) {
          e.fill(500);
          // Rows leave and return: other slots, other order.
          std::vector<np::key_type> keys;
          np::storage::for_each(e.rows().store(0), [&](np::key_type k, auto) { keys.push_back(k); });
          e.rows().store(0).erase(keys);
          std::reverse(keys.begin(), keys.end());
          std::vector<np::storage::row_handle> const unknown(keys.size(), np::storage::no_row);
          std::vector<float> const blank(keys.size() * e.rows().row_floats(0));
          e.rows().store(0).write(keys, unknown, blank.data());
          e.fill(500);
          np::checkpoint::save(e, dir / "b", {1, 100});
        }) == "");
  for (auto const& entry : fs::directory_iterator{dir / "a"}) CHECK(slurp(entry.path()) == slurp(dir / "b" / entry.path().filename()));
}

TEST_CASE("small limits make many files of whole shards, and the same rows") {
  scratch_directory dir;
  np::checkpoint::save_options o;
  o.limits = {.file_bytes = 20 * (8 + 9 * 4), .keys = 100};  // 20 rows of table users a file, 100 keys at once
  np::digest const saved = save_small(dir / "c", 2, 400, 1, o);
  np::checkpoint::manifest const m = np::checkpoint::read_manifest(dir / "c");
  CHECK(m.files.size() > 40);
  std::uint64_t rows = 0;
  for (auto const& f : m.files) {
    if (f.table != 0) continue;
    CHECK(f.rows <= 20);
    CHECK(f.rank == f.first_shard % 2);
    rows += f.rows;
  }
  CHECK(rows == 400);
  CHECK(m.tables[0].rows == 400);
  CHECK(np::checkpoint::verify(dir / "c").empty());
  for (std::size_t const world_size : {1, 3}) {
    np::digest loaded;
    CHECK(load_small(dir / "c", &loaded, world_size) == "");
    CHECK(loaded == saved);
  }
  // Shards stay whole where they fit.
  o.limits = {.file_bytes = 100 * (8 + 9 * 4), .keys = 1 << 20};
  save_small(dir / "whole", 1, 400, 1, o);
  std::uint64_t next = 0;
  for (auto const& f : np::checkpoint::read_manifest(dir / "whole").files) {
    if (f.table != 0) continue;
    CHECK(f.first_shard == next);
    next = f.last_shard + 1;
  }
  CHECK(next == 11);
}

TEST_CASE("a rank reads only files that concern it") {
  np::checkpoint::manifest m;
  m.world_size = 4;
  np::checkpoint::rows_file_entry f;
  f.rank = 2, f.first_shard = 2, f.last_shard = 30;  // shards 2, 6, 10, ...
  using np::checkpoint::detail::concerns;
  CHECK(concerns(f, m, 0, 1));
  CHECK(concerns(f, m, 0, 2));
  CHECK_FALSE(concerns(f, m, 1, 2));
  CHECK(concerns(f, m, 6, 8));
  CHECK_FALSE(concerns(f, m, 3, 8));
  CHECK(concerns(f, m, 1, 3));
  f.last_shard = 2;
  CHECK_FALSE(concerns(f, m, 1, 3));
}

TEST_CASE("the manifest says what the model is") {
  scratch_directory dir;
  save_small(dir / "c", 3, 20, 2);
  np::checkpoint::manifest const m = np::checkpoint::read_manifest(dir / "c");
  CHECK(m.step == 20);
  CHECK(m.samples == 2000);
  CHECK(m.seed == 7);
  CHECK(m.shards == 11);
  CHECK(m.world_size == 3);
  CHECK(m.batch_size == 100);
  CHECK(m.position == np::data::data_position{2, 200});
  CHECK(m.policies.row_optimizer == "adam");
  CHECK(m.policies.dense_optimizer == "adagrad");
  CHECK(m.policies.storage == "hashed");
  REQUIRE(m.tables.size() == 2);
  CHECK(m.tables[1].spec.name == "items/all");
  CHECK(m.tables[1].spec.missing == 0.25f);
  CHECK(m.tables[1].spec.cardinality == 1000);
  CHECK(m.tables[1].spec.init.zero_prefix == 1);
  CHECK(m.tables[1].state_floats == 4);
  CHECK(m.features[2].pooling == np::pooling::sum_and_squares);
  CHECK(m.parameters[1].name == "net.0.bias");
  CHECK(np::checkpoint::to_text(m) == slurp(dir / "c" / "manifest.json"));
}

TEST_CASE("checkpoints of other numbers of ranks hold the same, and differences are counted") {
  scratch_directory dir;
  save_small(dir / "a", 1, 100, 1);
  save_small(dir / "b", 3, 100, 1);
  auto const same = np::checkpoint::compare(dir / "a", dir / "b");
  CHECK(same.same());
  REQUIRE(same.tables.size() == 2);
  CHECK(same.tables[0].equal == 100);
  CHECK(same.parameters.size() == 2);

  CHECK(on_ranks(1, [&](auto& e) {
          e.fill(100);
          np::key_type const gone[] = {~np::key_type{0}};
          e.rows().store(0).erase(gone);
          std::vector<np::key_type> const keys{0, 12345};
          std::vector<np::storage::row_handle> h(2);
          std::vector<float> row(2 * e.rows().row_floats(0), 0.0f);
          e.rows().store(0).read(keys, h, row.data());
          row[1] += 0.5f;
          e.rows().store(0).write(keys, h, row.data());
          e.dense().state()[0] += 1;
          np::checkpoint::save(e, dir / "c", {});
        }) == "");
  auto const other = np::checkpoint::compare(dir / "a", dir / "c");
  CHECK_FALSE(other.same());
  CHECK(other.settings.empty());
  CHECK(other.tables[0].first_only == 1);
  CHECK(other.tables[0].second_only == 1);
  CHECK(other.tables[0].changed == 1);
  CHECK(other.tables[0].equal == 98);
  CHECK(other.tables[0].largest == doctest::Approx(0.5));
  CHECK(other.tables[1].same());
  CHECK(other.parameters[0].changed == 1);
  CHECK(other.parameters[0].largest == 0);  // state only
}

TEST_CASE("Python reads a table, with the safetensors package where it is installed and without it") {
  if (std::system("python3 -c 1 >/dev/null 2>&1") != 0) {
    MESSAGE("left out: there is no python3");
    return;
  }
  scratch_directory dir;
  save_small(dir / "c", 2, 30);
  spill(dir / "read.py", R"(
import json, struct, sys
D, table = sys.argv[1], sys.argv[2]
m = json.load(open(f"{D}/manifest.json"))
try:
    import numpy, safetensors.numpy as st
    parts = [st.load_file(f"{D}/{f['name']}") for f in m["files"] if m["tables"][f["table"]]["name"] == table]
    keys = numpy.concatenate([p["keys"] for p in parts])
    rows, state = (numpy.concatenate([p[k] for p in parts]) for k in ("embedding", "state"))
    keys, rows, state = [int(k) for k in keys], rows.tolist(), state.tolist()
except ImportError:
    keys, rows, state = [], [], []
    for f in m["files"]:
        if m["tables"][f["table"]]["name"] != table: continue
        b = open(f"{D}/{f['name']}", "rb").read()
        n = struct.unpack("<Q", b[:8])[0]
        head, data = json.loads(b[8:8 + n]), b[8 + n:]
        def tensor(name, code):
            t = head[name]
            begin, end = t["data_offsets"]
            flat = struct.unpack("<" + str((end - begin) // struct.calcsize(code)) + code, data[begin:end])
            w = t["shape"][1] if len(t["shape"]) == 2 else 1
            return [list(flat[i:i + w]) if len(t["shape"]) == 2 else flat[i] for i in range(0, len(flat), w)]
        keys += tensor("keys", "Q"); rows += tensor("embedding", "f"); state += tensor("state", "f")
for k, r, s in zip(keys, rows, state):
    print(k, *[struct.pack("<f", x).hex() for x in r + s])
)");
  std::string const command = "python3 '" + (dir / "read.py").string() + "' '" + (dir / "c").string() + "' items/all > '" + (dir / "out").string() + "'";
  REQUIRE(std::system(command.c_str()) == 0);
  std::vector<std::string> expected;
  CHECK(on_ranks(1, [&](auto& e) {
          e.fill(30);
          np::storage::for_each(e.rows().store(1), [&](np::key_type key, std::span<float const> row) {
            std::string line = std::to_string(key);
            for (float const x : row) {
              line += " ";
              for (std::size_t i = 0; i < 4; ++i) line += np::checkpoint::hex64(std::bit_cast<std::uint32_t>(x) >> (8 * i)).substr(14);
            }
            expected.push_back(std::move(line));
          });
        }) == "");
  std::vector<std::string> lines;
  std::ifstream in{dir / "out"};
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  std::sort(lines.begin(), lines.end());
  std::sort(expected.begin(), expected.end());
  CHECK(expected.size() == 30);
  CHECK(lines == expected);
}
