#pragma once
/// @file
/// The manifest as text and back.

#include <nestpipe/checkpoint/manifest.hpp>
#include <nestpipe/checkpoint/type_name.hpp>

namespace nestpipe::checkpoint {

inline constexpr char const* manifest_name = "manifest.json";
inline constexpr char const* dense_name = "dense.safetensors";

namespace detail {

// The last line holds the hash of all other bytes of the file.
inline constexpr std::string_view seal_begin = ",\n \"manifest_checksum\": \"";
inline constexpr std::string_view seal_end = "\"\n}\n";

template <class Enum, std::size_t N>
Enum enum_of(json const& j, char const* const (&names)[N]) {
  for (std::size_t i = 0; i < N; ++i) {
    if (j.text() == names[i]) return static_cast<Enum>(i);
  }
  throw data_error{"unknown word: " + j.text()};
}

inline void write_sum(json_writer& w, file_sum const& s) { w.key("bytes").value(s.bytes).key("checksum").value(hex64(s.checksum)); }
inline file_sum read_sum(json const& j) {
  file_sum s{j.at("bytes").u64(), 0};
  if (!parse_hex64(j.at("checksum").text(), s.checksum)) throw data_error{"a checksum is not 16 hexadecimal digits"};
  return s;
}

inline void write_state(json_writer& w, std::string const& optimizer, std::size_t dim, std::size_t floats) {
  w.key("state_floats").value(std::uint64_t{floats}).key("state").open('[');
  for (auto const& part : state_layout(optimizer, dim, floats))
    w.open('{').key("name").value(part.name).key("floats").value(std::uint64_t{part.floats}).close('}');
  w.close(']');
}

/// Names come from a file: they must not lead out of the directory. @throws data_error
inline void check_file_name(std::string const& name) {
  if (name.empty() || name.find('/') != std::string::npos || name.find('\0') != std::string::npos || name == "." || name == "..") throw data_error{"not a file name: " + name};
}

inline std::string text_of(rows_file_entry const& f) {
  json_writer w;
  w.open('{').key("name").value(f.name).key("table").value(f.table).key("rank").value(f.rank).key("first_shard").value(f.first_shard);
  w.key("last_shard").value(f.last_shard).key("rows").value(f.rows);
  if (f.removed != 0) w.key("removed").value(f.removed);
  write_sum(w, f.sum);
  return w.close('}').take();
}
inline rows_file_entry rows_file_of(json const& j) {
  rows_file_entry f{j.at("name").text(), j.at("table").u64(), j.at("rank").u64(), j.at("first_shard").u64(), j.at("last_shard").u64(), j.at("rows").u64(), 0, read_sum(j)};
  if (json const* const removed = j.find("removed")) f.removed = removed->u64();
  check_file_name(f.name);
  return f;
}

}  // namespace detail

/// A JSON text, one line per table, parameter and file, that carries its own checksum.
inline std::string to_text(manifest const& m) {
  using namespace detail;
  json_writer w;
  auto const list = [&](char const* name, auto const& items, auto write) {
    w.line(1).key(name).open('[');
    for (auto const& item : items) write(item);
    if (!items.empty()) w.line(1);
    w.close(']');
  };
  w.open('{');
  w.line(1).key("format").value("nestpipe checkpoint").line(1).key("format_version").value(format_version);
  w.line(1).key("library_version").value(std::to_string(version.major_number) + "." + std::to_string(version.minor_number) + "." + std::to_string(version.patch_number));
  w.line(1).key("step").value(m.step).line(1).key("samples").value(m.samples);
  w.line(1).key("position").open('{').key("epoch").value(m.position.epoch).key("row").value(m.position.row).close('}');
  w.line(1).key("random").open('{').key("seed").value(m.seed).close('}');
  w.line(1).key("shards").value(m.shards).line(1).key("batch_size").value(m.batch_size).line(1).key("micro_batches").value(m.micro_batches);
  w.line(1).key("world_size").value(m.world_size).line(1).key("per_rank_files").value(m.per_rank_files);
  w.line(1).key("data_transform").value(m.data_transform).line(1).key("data_order").value(m.data_order);
  if (!m.parent.directory.empty()) w.line(1).key("parent").open('{').key("directory").value(m.parent.directory).key("manifest_checksum").value(hex64(m.parent.checksum)).close('}');
  w.line(1).key("task").value(task_name(m.task)).line(1).key("digest").value(m.digest_of_all.text());
  w.line(1).key("policies").open('{').key("model").value(m.policies.model).key("row_optimizer").value(m.policies.row_optimizer);
  w.key("dense_optimizer").value(m.policies.dense_optimizer).key("storage").value(m.policies.storage).close('}');
  w.line(1).key("columns").open('{').key("dense").value(std::uint64_t{m.columns.dense}).key("labels").value(std::uint64_t{m.columns.labels});
  w.key("dense_names").open('[');
  for (auto const& name : m.columns.dense_names) w.value(name);
  w.close(']').close('}');
  list("features", m.features, [&](feature const& f) {
    w.line(2).open('{').key("name").value(f.name).key("table").value(f.table).key("pooling").value(pooling_name(f.pooling)).close('}');
  });
  list("tables", m.tables, [&](table_entry const& t) {
    w.line(2).open('{').key("name").value(t.spec.name).key("rows").value(t.rows).key("dim").value(std::uint64_t{t.spec.dim});
    write_state(w, m.policies.row_optimizer, t.spec.dim, t.state_floats);
    w.key("init").open('{').key("distribution").value(init_name(t.spec.init.distribution)).key("scale").value(t.spec.init.scale);
    w.key("zero_prefix").value(std::uint64_t{t.spec.init.zero_prefix}).close('}');
    w.key("missing").value(t.spec.missing).key("cardinality").value(t.spec.cardinality).close('}');
  });
  list("parameters", m.parameters, [&](parameter_entry const& p) {
    w.line(2).open('{').key("name").value(p.name).key("shape").open('[').value(p.rows).value(p.cols).close(']');
    write_state(w, m.policies.dense_optimizer, p.cols, p.state_floats);
    w.close('}');
  });
  w.line(1).key("dense_file").open('{').key("name").value(dense_name);
  write_sum(w, m.dense_file);
  w.close('}');
  std::string text = w.take();
  text += ",\n \"files\": [";
  for (std::size_t i = 0; i < m.files.size(); ++i) text.append(i == 0 ? "\n  " : ",\n  ").append(text_of(m.files[i]));
  text += m.files.empty() ? "]" : "\n ]";
  file_hash hash;
  hash.update(text);
  hash.update(seal_begin);
  hash.update(seal_end);
  return text.append(seal_begin).append(hex64(hash.value())).append(seal_end);
}

/// The text must be what to_text wrote, to the last byte. @param where  named in messages. @throws data_error when a byte has changed or the version is not ours
inline manifest manifest_of(std::string_view text, std::string const& where) {
  using namespace detail;
  std::size_t const seal = seal_begin.size() + 16 + seal_end.size();
  bool intact = text.size() > seal && text.ends_with(seal_end) && text.substr(text.size() - seal).starts_with(seal_begin);
  if (intact) {
    std::string_view const body = text.substr(0, text.size() - seal);
    file_hash hash;
    hash.update(body);
    hash.update(seal_begin);
    hash.update(seal_end);
    intact = text.substr(text.size() - seal + seal_begin.size(), 16) == hex64(hash.value());
  }
  if (!intact) throw data_error{"the manifest is damaged: its checksum does not fit", where, "use another checkpoint"};
  try {
    json const j = json::parse(text);
    if (j.at("format").text() != "nestpipe checkpoint") throw data_error{"not a checkpoint of this library"};
    if (std::uint64_t const v = j.at("format_version").u64(); v == 0 || v > format_version)
      throw data_error{"its format has version " + std::to_string(v) + ", this program reads versions up to " + std::to_string(format_version)};
    manifest m;
    m.step = j.at("step").u64();
    m.samples = j.at("samples").u64();
    m.position = {j.at("position").at("epoch").u64(), j.at("position").at("row").u64()};
    m.seed = j.at("random").at("seed").u64();
    m.shards = j.at("shards").u64();
    m.batch_size = j.at("batch_size").u64();
    m.micro_batches = j.at("micro_batches").u64();
    m.world_size = j.at("world_size").u64();
    m.per_rank_files = j.at("per_rank_files").boolean();
    m.data_transform = j.at("data_transform").text();
    m.data_order = j.at("data_order").text();
    if (json const* const parent = j.find("parent")) {
      m.parent.directory = parent->at("directory").text();
      check_file_name(m.parent.directory);
      if (!parse_hex64(parent->at("manifest_checksum").text(), m.parent.checksum)) throw data_error{"a checksum is not 16 hexadecimal digits"};
    }
    m.task = enum_of<enum model::task>(j.at("task"), task_names);
    std::string const& digits = j.at("digest").text();
    std::uint64_t low = 0;
    std::uint64_t high = 0;
    if (digits.size() != 32 || !parse_hex64(std::string_view{digits}.substr(0, 16), high) || !parse_hex64(std::string_view{digits}.substr(16), low))
      throw data_error{"the digest is not 32 hexadecimal digits"};
    m.digest_of_all = digest::from_words(low, high);
    json const& p = j.at("policies");
    m.policies = {p.at("model").text(), p.at("row_optimizer").text(), p.at("dense_optimizer").text(), p.at("storage").text()};
    json const& c = j.at("columns");
    m.columns.dense = c.at("dense").u64();
    m.columns.labels = c.at("labels").u64();
    for (auto const& name : c.at("dense_names").items()) m.columns.dense_names.push_back(name.text());
    for (auto const& f : j.at("features").items()) {
      m.features.push_back({f.at("name").text(), f.at("table").text(), enum_of<pooling>(f.at("pooling"), pooling_names)});
      m.columns.features.push_back(m.features.back().name);
    }
    for (auto const& t : j.at("tables").items()) {
      json const& init = t.at("init");
      std::uint64_t const prefix = init.at("zero_prefix").u64();
      table spec{t.at("name").text(), t.at("dim").u64(),
                 {enum_of<row_init::kind>(init.at("distribution"), init_names), init.at("scale").number(), static_cast<std::uint32_t>(prefix)},
                 t.at("missing").number(), t.at("cardinality").u64()};
      m.tables.push_back({std::move(spec), t.at("state_floats").u64(), t.at("rows").u64()});
    }
    for (auto const& e : j.at("parameters").items()) {
      auto const& shape = e.at("shape").items();
      if (shape.size() != 2) throw data_error{"a parameter's shape has not two numbers"};
      m.parameters.push_back({e.at("name").text(), shape[0].u64(), shape[1].u64(), e.at("state_floats").u64()});
    }
    m.dense_file = read_sum(j.at("dense_file"));
    for (auto const& f : j.at("files").items()) {
      m.files.push_back(rows_file_of(f));
      if (m.files.back().table >= m.tables.size()) throw data_error{"file " + m.files.back().name + " belongs to no table"};
    }
    if (m.world_size == 0 || m.shards == 0) throw data_error{"no ranks or no shards"};
    return m;
  } catch (data_error const& e) {
    throw data_error{std::string{"cannot read the manifest: "} + e.what(), where};
  }
}

/// The manifest of a directory. @param checksum  if not null, of the file. @throws data_error
inline manifest read_manifest(std::filesystem::path const& directory, std::uint64_t* checksum = nullptr) {
  std::vector<std::byte> bytes;
  detail::read_file(directory / manifest_name, bytes);
  if (checksum != nullptr) *checksum = file_hash::of(bytes);
  return manifest_of({reinterpret_cast<char const*>(bytes.data()), bytes.size()}, (directory / manifest_name).string());
}

}  // namespace nestpipe::checkpoint
