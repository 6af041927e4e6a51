#pragma once
/// @file
/// Files of rows: tensors `keys` (n) U64, `embedding` (n, dim) F32 and, if the optimizer has state, `state` (n, state floats) F32;
/// row i of each belongs to key i. Sorted by (shard, key), so that the bytes depend on the rows only. In deltas also `removed`
/// (m) U64: keys whose rows are gone.

#include <nestpipe/checkpoint/manifest.hpp>
#include <nestpipe/checkpoint/safetensors.hpp>
#include <nestpipe/core/random.hpp>
#include <nestpipe/exec/buffer.hpp>
#include <nestpipe/storage/storage.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace nestpipe::checkpoint {

/// Limits of memory while writing.
struct rows_limits {
  std::size_t file_bytes = std::size_t{64} << 20;      ///< payload of a file, as long as one row fits
  std::size_t keys = std::size_t{16} << 20;            ///< keys sorted at once, as long as one shard fits
};

/// What a row belongs to while it is written or read.
struct rows_place {
  std::uint32_t table = 0;
  std::string table_name;
  std::size_t dim = 0;
  std::size_t row_floats = 0;
  std::uint32_t shards = 1;
  std::uint32_t rank = 0;
  std::uint32_t world_size = 1;
};

/// "rows-<table>-r<rank>-<part>.safetensors"; a table whose name is no good file name is called by its number.
inline std::string rows_file_name(rows_place const& place, std::size_t part) {
  bool plain = !place.table_name.empty() && place.table_name.size() <= 100;
  for (char const c : place.table_name) plain = plain && ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' || c == '.');
  return "rows-" + (plain ? place.table_name : "@" + std::to_string(place.table)) + "-r" + std::to_string(place.rank) + "-" + std::to_string(part) + ".safetensors";
}

/// Writes the rows of a store that this rank owns. Scans for keys as often as the limit on keys asks for, and reads rows
/// batch by batch, as training does. O(rows * row_floats) for fewer rows than `limits.keys`.
class rows_writer {
 public:
  explicit rows_writer(rows_limits limits = {}) : limits_{limits} {}

  /// @param sum  the rows are added to it  @param files  what was written is appended
  /// @throws error
  template <class Storage>
  void write(std::filesystem::path const& directory, rows_place const& place, Storage& store, digest& sum, std::vector<rows_file_entry>& files) {
    count(store, place);
    std::size_t part = 0;
    for (std::uint32_t first = 0; first < place.shards;) {
      std::uint32_t last = first;  // one past
      std::uint64_t total = 0;
      while (last < place.shards && (total == 0 || total + rows_of_[last] <= limits_.keys)) total += rows_of_[last++];
      collect(store, place, first, last);
      write_parts(directory, place, store, first, sum, files, part);
      first = last;
    }
  }

 private:
  // rows_of_[s]: rows of shard s.
  template <class Storage>
  void count(Storage const& store, rows_place const& place) {
    rows_of_.assign(place.shards, 0);
    storage::for_each(store, [&](key_type key, std::span<float const>) { ++rows_of_[shard_of(place.table, key, place.shards)]; });
  }

  // keys_: those of shards [first, last), by shard and key; cut_: where each shard ends.
  template <class Storage>
  void collect(Storage const& store, rows_place const& place, std::uint32_t first, std::uint32_t last) {
    cut_.assign(last - first + 1, 0);
    for (std::uint32_t s = first; s < last; ++s) cut_[s - first + 1] = cut_[s - first] + rows_of_[s];
    keys_.resize(cut_.back());
    if (keys_.empty()) return;
    std::vector<std::uint64_t> next(cut_.begin(), cut_.end() - 1);
    storage::for_each(store, [&](key_type key, std::span<float const>) {
      std::uint32_t const s = shard_of(place.table, key, place.shards);
      if (s >= first && s < last) keys_[next[s - first]++] = key;
    });
    for (std::uint32_t s = first; s < last; ++s)
      std::sort(keys_.begin() + static_cast<std::ptrdiff_t>(cut_[s - first]), keys_.begin() + static_cast<std::ptrdiff_t>(cut_[s - first + 1]));
  }

  template <class Storage>
  void write_parts(std::filesystem::path const& directory, rows_place const& place, Storage& store, std::uint32_t first, digest& sum,
                   std::vector<rows_file_entry>& files, std::size_t& part) {
    std::size_t const most = std::max<std::size_t>(1, limits_.file_bytes / (sizeof(key_type) + place.row_floats * sizeof(float)));
    for (std::size_t at = 0; at < keys_.size();) {
      std::size_t end = std::min(at + most, keys_.size());
      auto const shard_at = [&](std::size_t i) { return first + static_cast<std::uint32_t>(std::upper_bound(cut_.begin(), cut_.end(), i) - cut_.begin()) - 1; };
      // Whole shards, unless one alone is too large.
      if (end < keys_.size() && cut_[shard_at(end) - first] > at) end = cut_[shard_at(end) - first];
      rows_file_entry f;
      f.name = rows_file_name(place, part++);
      f.table = place.table;
      f.rank = place.rank;
      f.first_shard = shard_at(at);
      f.last_shard = shard_at(end - 1);
      f.rows = end - at;
      f.sum = write_file(directory / f.name, place, store, {keys_.data() + at, end - at}, sum);
      files.push_back(std::move(f));
      at = end;
    }
  }

  template <class Storage>
  detail::file_sum write_file(std::filesystem::path const& path, rows_place const& place, Storage& store, std::span<key_type const> keys, digest& sum) {
    std::size_t const n = keys.size();
    std::size_t const state = place.row_floats - place.dim;
    embedding_.resize(n * place.dim);
    state_.resize(n * state);
    rows_.resize(batch * place.row_floats);
    handles_.resize(batch);
    for (std::size_t at = 0; at < n; at += batch) {
      std::size_t const m = std::min(batch, n - at);
      std::span<storage::row_handle> const handles{handles_.data(), m};
      store.read(keys.subspan(at, m), handles, rows_.data());
      for (std::size_t i = 0; i < m; ++i) {
        if (handles[i] == storage::no_row) throw error{"a row vanished while it was saved", "table " + place.table_name + ", key " + std::to_string(keys[at + i])};
        float const* const row = rows_.data() + i * place.row_floats;
        sum.add(place.table, keys[at + i], {row, place.row_floats});
        std::copy_n(row, place.dim, embedding_.data() + (at + i) * place.dim);
        std::copy_n(row + place.dim, state, state_.data() + (at + i) * state);
      }
    }
    safetensors_writer out;
    out.metadata("table", place.table_name);
    out.add("keys", {n}, keys);
    out.add("embedding", {n, place.dim}, std::span<float const>{embedding_.span()});
    if (state != 0) out.add("state", {n, state}, std::span<float const>{state_.span()});
    return out.write(path);
  }

  static constexpr std::size_t batch = 4096;
  rows_limits limits_;
  std::vector<std::uint64_t> rows_of_, cut_;
  std::vector<key_type> keys_;
  std::vector<storage::row_handle> handles_;
  exec::buffer<float> rows_, embedding_, state_;
};

/// One file of rows in memory.
struct rows_block {
  std::vector<key_type> keys;    ///< (n)
  exec::buffer<float> rows;      ///< (n, row_floats): embedding, then state, as stores hold them
  std::vector<key_type> removed; ///< keys that have no row any more
};

/// Reads and checks files of rows, reusing its memory; a block lasts until the next read.
class rows_reader {
 public:
  /// @param place  of the rank that wrote the file. @throws data_error naming the file
  rows_block& read(std::filesystem::path const& directory, rows_place const& place, rows_file_entry const& file) {
    std::filesystem::path const path = directory / file.name;
    std::string const where = path.string();
    detail::read_checked(path, file.sum, bytes_);
    safetensors_view const view{bytes_, where};
    std::size_t const n = file.rows;
    std::size_t const state = place.row_floats - place.dim;
    if (n > bytes_.size() || file.removed > bytes_.size()) throw data_error{"the manifest says more rows than the file can hold", where};
    block_.keys.resize(n);
    block_.rows.resize(n * place.row_floats);
    embedding_.resize(n * place.dim);
    state_.resize(n * state);
    view.read("keys", {n}, std::span<key_type>{block_.keys});
    view.read("embedding", {n, place.dim}, embedding_.span());
    if (state != 0) view.read("state", {n, state}, state_.span());
    block_.removed.resize(file.removed);
    if (file.removed != 0) view.read("removed", {file.removed}, std::span<key_type>{block_.removed});
    auto const check = [&](key_type key) {
      std::uint32_t const shard = shard_of(place.table, key, place.shards);
      if (owner_of(shard, place.world_size) != place.rank || shard < file.first_shard || shard > file.last_shard)
        throw data_error{"key " + std::to_string(key) + " does not belong into this file", where};
    };
    for (key_type const key : block_.removed) check(key);
    for (std::size_t i = 0; i < n; ++i) {
      check(block_.keys[i]);
      float* const row = block_.rows.data() + i * place.row_floats;
      std::copy_n(embedding_.data() + i * place.dim, place.dim, row);
      std::copy_n(state_.data() + i * state, state, row + place.dim);
    }
    return block_;
  }

 private:
  std::vector<std::byte> bytes_;
  exec::buffer<float> embedding_, state_;
  rows_block block_;
};

}  // namespace nestpipe::checkpoint
