#pragma once
/// @file
/// A delta and the checkpoints behind it, as one.

#include <nestpipe/checkpoint/directory.hpp>
#include <nestpipe/checkpoint/manifest_text.hpp>
#include <nestpipe/checkpoint/rows_file.hpp>
#include <nestpipe/engine/key_set.hpp>

#include <algorithm>
#include <filesystem>
#include <string>
#include <vector>

namespace nestpipe::checkpoint {

struct chain_link {
  std::filesystem::path directory;
  manifest saved;
  std::uint64_t checksum = 0;  ///< of its manifest
};

/// What `directory` stands for: the full checkpoint, then its deltas in order, `directory` itself last. The parents are beside it.
/// @throws data_error naming the link that is missing, damaged, or not what it was when the delta was made
inline std::vector<chain_link> read_chain(std::filesystem::path const& directory) {
  std::vector<chain_link> links;
  std::filesystem::path at = existing_directory(directory);
  for (;;) {
    chain_link link{at, {}, 0};
    link.saved = read_manifest(at, &link.checksum);
    links.push_back(std::move(link));
    parent_entry const& parent = links.back().saved.parent;
    if (parent.directory.empty()) break;
    std::string const named = "parent of the delta " + links.back().directory.string();
    std::filesystem::path const next = at.parent_path() / parent.directory;
    for (auto const& l : links) {
      if (l.directory == next) throw data_error{"a chain of checkpoints leads back to itself", next.string(), "use another checkpoint"};
    }
    if (!detail::holds_checkpoint(next)) throw data_error{"a checkpoint of the chain is missing: " + next.string(), named, "use another checkpoint"};
    std::uint64_t checksum = 0;
    manifest const m = read_manifest(next, &checksum);
    if (checksum != parent.checksum) throw data_error{"a checkpoint of the chain is not the one the delta was made from: " + next.string(), named, "use another checkpoint"};
    at = next;
  }
  std::reverse(links.begin(), links.end());
  return links;
}

namespace detail {

inline rows_place place_of_file(manifest const& m, rows_file_entry const& f) {
  auto const& t = m.tables[f.table];
  return {static_cast<std::uint32_t>(f.table), t.spec.name, t.spec.dim, t.spec.dim + t.state_floats, static_cast<std::uint32_t>(m.shards), static_cast<std::uint32_t>(f.rank), static_cast<std::uint32_t>(m.world_size)};
}

/// Calls f(block, live) for every file of rows of a table of the whole chain, the newest link first; live[i] says whether row i
/// is what the chain stands for. Memory: one file, and of a chain of several links 12 to 36 bytes a key.
/// @throws data_error naming a damaged file
template <class F>
void for_each_file(std::vector<chain_link> const& chain, std::uint64_t table, F f) {
  rows_reader reader;
  engine::key_set seen;
  std::vector<std::uint8_t> live;
  for (std::size_t l = chain.size(); l-- > 0;) {
    manifest const& m = chain[l].saved;
    for (auto const& file : m.files) {
      if (file.table != table) continue;
      rows_block& block = reader.read(chain[l].directory, place_of_file(m, file), file);
      live.assign(block.keys.size(), 1);
      if (chain.size() > 1) {
        for (std::size_t i = 0; i < live.size(); ++i) live[i] = l == 0 ? !seen.contains(block.keys[i]) : seen.insert(block.keys[i]);
        for (key_type const key : block.removed) seen.insert(key);
      }
      f(block, std::span<std::uint8_t const>{live});
    }
  }
}

}  // namespace detail

}  // namespace nestpipe::checkpoint
