#pragma once
/// @file
/// Saving a model and going on from it, with any number of ranks.
///
/// A checkpoint is a directory:
///
/// | file | what |
/// |---|---|
/// | `manifest.json` | what the model is, where training and reading stand, all other files with sizes and checksums (manifest.hpp) |
/// | `dense.safetensors` | dense parameters with optimizer state (dense_file.hpp) |
/// | `rows-<table>-r<rank>-<part>.safetensors` | rows of some shards of a table, written by the rank that owns them (rows_file.hpp) |
///
/// A *delta* (background.hpp) holds the rows changed since the checkpoint beside it that its manifest names as its parent, and
/// everything else in full; chain.hpp puts it together.
///
/// All ranks must see the same directory. How the last good checkpoint survives any crash is told in directory.hpp.
///
/// A table in NumPy, without this library (D is the directory; drop "state" for optimizers that have none):
/// @code{.py}
/// import json, numpy, safetensors.numpy as st
/// m = json.load(open(f"{D}/manifest.json"))
/// parts = [st.load_file(f"{D}/{f['name']}") for f in m["files"] if m["tables"][f["table"]]["name"] == "cat_0"]
/// keys = numpy.concatenate([p["keys"] for p in parts])
/// rows, state = (numpy.concatenate([p[k] for p in parts]) for k in ("embedding", "state"))
/// @endcode

#include <nestpipe/checkpoint/chain.hpp>
#include <nestpipe/checkpoint/dense_file.hpp>
#include <nestpipe/checkpoint/describe.hpp>
#include <nestpipe/checkpoint/detail/agreement.hpp>
#include <nestpipe/checkpoint/directory.hpp>
#include <nestpipe/checkpoint/manifest_text.hpp>
#include <nestpipe/checkpoint/rows_file.hpp>

#include <array>
#include <filesystem>
#include <functional>
#include <memory>
#include <string>
#include <vector>

namespace nestpipe::checkpoint {

/// Where a save stands. On each rank: opened, rows_written; then on rank 0 alone: manifest_written, replacing (between the two
/// renames, only where there was a checkpoint before), published.
enum class save_phase : std::uint8_t { opened, rows_written, manifest_written, replacing, published };

struct save_options {
  rows_limits limits{};
  std::function<void(save_phase)> on_phase{};  ///< called as each phase is reached; an exception in it makes the save fail
};

namespace detail {

/// Collects the texts of all ranks on rank 0, in rank order; elsewhere all but the own one are empty.
template <class Channel>
std::vector<std::string> texts_on_first_rank(Channel& channel, std::size_t rank, std::size_t world_size, std::string const& mine, comm::call_site at) {
  std::uint64_t const length = mine.size();
  std::vector<std::uint64_t> lengths(world_size);
  channel.all_gather(std::as_bytes(std::span{&length, 1}), std::as_writable_bytes(std::span{lengths}), at);
  std::vector<std::size_t> send(world_size, 0);
  std::vector<std::size_t> receive(world_size, 0);
  send[0] = mine.size();
  std::size_t total = 0;
  if (rank == 0) {
    for (std::size_t r = 0; r < world_size; ++r) total += receive[r] = static_cast<std::size_t>(lengths[r]);
  }
  std::string all(total, ' ');
  channel.all_to_all_v(std::as_bytes(std::span{mine.data(), mine.size()}), std::span<std::size_t const>{send}, std::as_writable_bytes(std::span{all.data(), all.size()}),
                       std::span<std::size_t const>{receive}, at);
  std::vector<std::string> out(world_size);
  std::size_t begin = 0;
  for (std::size_t r = 0; r < world_size; ++r) {
    out[r] = all.substr(begin, receive[r]);
    begin += receive[r];
  }
  return out;
}

template <class Engine>
rows_place place_of(Engine const& engine, std::size_t t, std::size_t rank, std::size_t world_size) {
  auto const& spec = engine.rows().table_spec(t);
  return {static_cast<std::uint32_t>(t), spec.name, spec.dim, engine.rows().row_floats(t), engine.config().shards, static_cast<std::uint32_t>(rank), static_cast<std::uint32_t>(world_size)};
}

/// Sum over all ranks, and the dense parameters once. @throws error if those of two ranks differ
template <class Engine>
digest sum_of_digests(Engine& engine, digest const& rows, comm::call_site at) {
  digest dense;
  engine.dense().add_to(dense);
  std::array<std::uint64_t, 4> const mine{rows.low(), rows.high(), dense.low(), dense.high()};
  std::vector<std::array<std::uint64_t, 4>> all(engine.comm().size());
  engine.control().all_gather(std::as_bytes(std::span{mine}), std::as_writable_bytes(std::span{all}), at);
  digest sum = dense;
  for (std::size_t r = 0; r < all.size(); ++r) {
    if (digest::from_words(all[r][2], all[r][3]) != digest::from_words(all[0][2], all[0][3]))
      throw error{"dense parameters differ between ranks", "ranks 0 and " + std::to_string(r) + ", step " + std::to_string(engine.step()), "report this: replicas must be equal"};
    sum += digest::from_words(all[r][0], all[r][1]);
  }
  return sum;
}

/// True if a file may hold rows of shards that `rank` of `world_size` owns.
inline bool concerns(rows_file_entry const& f, manifest const& saved, std::size_t rank, std::size_t world_size) {
  for (std::uint64_t s = f.first_shard; s <= f.last_shard; s += saved.world_size) {
    if (s % world_size == rank) return true;
  }
  return false;
}

/// Removes all rows of a store.
template <class Storage>
void clear(Storage& store) {
  std::vector<key_type> keys;
  storage::for_each(store, [&](key_type key, std::span<float const>) { keys.push_back(key); });
  store.erase(keys);
}

/// Puts those rows of a block into the store that the place's rank owns, moving them to the front of the block.
/// @return how many  @param sum  they are added to it
template <class Storage>
std::uint64_t insert(Storage& store, rows_place const& place, rows_block& block, digest& sum) {
  std::size_t n = 0;
  float* const rows = block.rows.data();
  for (std::size_t i = 0; i < block.keys.size(); ++i) {
    if (owner_of(shard_of(place.table, block.keys[i], place.shards), place.world_size) != place.rank) continue;
    if (n != i) {
      block.keys[n] = block.keys[i];
      std::copy_n(rows + i * place.row_floats, place.row_floats, rows + n * place.row_floats);
    }
    sum.add(place.table, block.keys[n], {rows + n * place.row_floats, place.row_floats});
    ++n;
  }
  constexpr std::size_t batch = 4096;
  std::array<storage::row_handle, batch> unknown;
  unknown.fill(storage::no_row);
  for (std::size_t at = 0; at < n; at += batch) {
    std::size_t const m = std::min(batch, n - at);
    store.write(std::span<key_type const>{block.keys.data() + at, m}, std::span<storage::row_handle const>{unknown.data(), m}, rows + at * place.row_floats);
  }
  return n;
}

}  // namespace detail

/// Writes a checkpoint of the engine to `directory`; one that is there is replaced when the new one is complete and durable.
/// Collective; lanes must be idle. Every rank writes the rows it owns; memory: limits.file_bytes twice and 8 limits.keys.
/// @param position  where reading goes on
/// @throws error, config_error on all ranks if one fails (no space, no permission, ...); what was in `directory` stays then
template <class Engine>
void save(Engine& engine, std::filesystem::path const& directory, data::data_position position, save_options const& options = {}) {
  auto& channel = engine.control();
  std::size_t const rank = engine.comm().rank();
  std::size_t const world_size = engine.comm().size();
  require(!engine.rows().admits(), "checkpoints do not hold the counts of admission yet, so training could not go on as it was", "storage::admitting", "train without admission");
  comm::call_site const at{"save", engine.step()};
  std::string const what = "cannot save the checkpoint " + directory.string();
  auto const reached = [&](save_phase p) {
    if (options.on_phase) options.on_phase(p);
  };
  std::string id = rank == 0 ? detail::fresh_id() : std::string(16, '0');
  channel.broadcast(std::as_writable_bytes(std::span{id.data(), id.size()}), 0, at);

  staged_directory staged;
  manifest m;
  digest own;
  std::vector<rows_file_entry> files;
  try {
    detail::together(channel, rank, world_size, what, at, [&] {
      m = describe(engine, position);
      if (rank == 0) {
        staged.open(directory, id);
      } else {
        staged.join(directory, id);
      }
      reached(save_phase::opened);
    });
    detail::together(channel, rank, world_size, what, at, [&] {
      require(std::filesystem::is_directory(staged.path()), "this rank does not see the directory that rank 0 has made", staged.path().string(),
              "save to a file system that all ranks share");
      rows_writer writer{options.limits};
      for (std::size_t t = 0; t < engine.rows().tables(); ++t)
        writer.write(staged.path(), detail::place_of(engine, t, rank, world_size), engine.rows().store(t), own, files);
      if (rank == 0) m.dense_file = write_dense(staged.path() / dense_name, m.parameters, engine.dense().values(), engine.dense().state());
      reached(save_phase::rows_written);
    });
    m.digest_of_all = detail::sum_of_digests(engine, own, at);
    std::string mine = "[";
    for (auto const& f : files) mine.append(mine.size() == 1 ? "" : ",").append(detail::text_of(f));
    auto const lists = detail::texts_on_first_rank(channel, rank, world_size, mine + "]", at);
    detail::together(channel, rank, world_size, what, at, [&] {
      if (rank != 0) return;
      for (auto const& list : lists) {
        json const parsed = json::parse(list);
        for (auto const& f : parsed.items()) {
          m.files.push_back(detail::rows_file_of(f));
          m.tables.at(m.files.back().table).rows += m.files.back().rows;
        }
      }
      std::string const text = to_text(m);
      std::span<std::byte const> const bytes = std::as_bytes(std::span{text.data(), text.size()});
      detail::write_file(staged.path() / manifest_name, {&bytes, 1});
      reached(save_phase::manifest_written);
      staged.publish([&] { reached(save_phase::replacing); });
      reached(save_phase::published);
    });
  } catch (...) {
    if (rank == 0) staged.discard();
    throw;
  }
}

/// Makes the engine what it was when the checkpoint was saved; rows it had are removed. Collective; lanes must be idle. Every rank
/// reads the files that hold rows it owns, one at a time; of a delta those of the whole chain behind it.
/// @param loaded  if not null, the chain, oldest first
/// @return where reading goes on
/// @throws config_error listing all differences between checkpoint and engine; data_error naming a damaged or missing file. On
///         all ranks. After an error the engine's parameters are unspecified.
template <class Engine>
data::data_position load(Engine& engine, std::filesystem::path const& directory, std::vector<chain_link>* loaded = nullptr) {
  auto& channel = engine.control();
  std::size_t const rank = engine.comm().rank();
  std::size_t const world_size = engine.comm().size();
  require(!engine.rows().admits(), "checkpoints do not hold the counts of admission yet", "storage::admitting", "train without admission");
  comm::call_site const at{"load", engine.step()};
  std::string const what = "cannot load the checkpoint " + directory.string();
  std::vector<chain_link> chain;
  detail::together(channel, rank, world_size, what, at, [&] {
    chain = read_chain(directory);
    manifest const mine = describe(engine, {});
    manifest const& m = chain.back().saved;
    std::string list = position_problem(m, mine);
    for (auto const& link : chain) {
      for (auto const& d : differences(link.saved, mine)) {
        if (list.find(d) == std::string::npos) list.append(list.empty() ? "" : "; ").append(d);
      }
    }
    require(list.empty(), "it does not fit: " + list, {}, "make the trainer as it was when the checkpoint was saved");
  });
  manifest const& m = chain.back().saved;
  rows_reader reader;
  for (std::size_t t = 0; t < m.tables.size(); ++t) detail::clear(engine.rows().store(t));
  for (auto const& link : chain) {
    digest own;
    detail::together(channel, rank, world_size, what, at, [&] {
      read_dense(link.directory / dense_name, link.saved.dense_file, link.saved.parameters, engine.dense().values(), engine.dense().state());
      std::vector<std::uint64_t> rows(m.tables.size(), 0);
      for (auto const& f : link.saved.files) {
        if (!detail::concerns(f, link.saved, rank, world_size)) continue;
        rows_block& block = reader.read(link.directory, detail::place_of(engine, f.table, f.rank, link.saved.world_size), f);
        auto& store = engine.rows().store(f.table);
        store.erase(block.removed);
        rows[f.table] += detail::insert(store, detail::place_of(engine, f.table, rank, world_size), block, own);
      }
      for (std::size_t t = 0; t < rows.size() && chain.size() == 1; ++t) {
        std::uint64_t const stored = engine.rows().store(t).size();
        if (stored != rows[t])
          throw error{"the storage holds " + std::to_string(stored) + " rows after " + std::to_string(rows[t]) + " were loaded", "table " + m.tables[t].spec.name,
                      "give it room for all rows"};
      }
    });
    digest const sum = detail::sum_of_digests(engine, own, at);
    if (sum != link.saved.digest_of_all)
      throw data_error{what + ": what was read from " + link.directory.string() + " has digest " + sum.text() + ", the manifest says " + link.saved.digest_of_all.text(), {}, "use another checkpoint"};
  }
  std::vector<std::uint64_t> mine, all(m.tables.size() * world_size);
  for (std::size_t t = 0; t < m.tables.size(); ++t) mine.push_back(engine.rows().store(t).size());
  if (!mine.empty()) channel.all_gather(std::as_bytes(std::span{mine}), std::as_writable_bytes(std::span{all}), at);
  for (std::size_t t = 0; t < mine.size(); ++t) {
    std::uint64_t stored = 0;
    for (std::size_t r = 0; r < world_size; ++r) stored += all[r * mine.size() + t];
    if (stored != m.tables[t].rows)
      throw data_error{what + ": the storage holds " + std::to_string(stored) + " rows, the manifest says " + std::to_string(m.tables[t].rows), "table " + m.tables[t].spec.name,
                       "give it room for all rows, or use another checkpoint"};
  }
  engine.set_progress(m.step, m.samples);
  data::data_position const position = m.position;
  if (loaded != nullptr) *loaded = std::move(chain);
  return position;
}

/// The columns of the data that the saved model was trained on.
inline schema read_schema(std::filesystem::path const& directory) { return read_manifest(existing_directory(directory)).columns; }

/// What trainer::save and trainer::load do.
template <class Engine>
struct trainer_access {
  static void save(Engine& engine, std::string const& directory, data::data_position position) { checkpoint::save(engine, directory, position); }
  static schema read_schema(std::string const& directory) { return checkpoint::read_schema(directory); }
  /// @param chain  becomes the checkpoints it was read from, for background_save
  static data::data_position load(Engine& engine, std::string const& directory, std::shared_ptr<void const>& chain) {
    auto const links = std::make_shared<std::vector<chain_link>>();
    data::data_position const position = checkpoint::load(engine, directory, links.get());
    chain = links;
    return position;
  }
};

}  // namespace nestpipe::checkpoint
