#pragma once
/// @file
/// Files of rows from chunks that came in no order.

#include <nestpipe/checkpoint/rows_file.hpp>
#include <nestpipe/engine/row_snapshot.hpp>

#include <algorithm>

namespace nestpipe::checkpoint {

/// Sorts a chunk by (shard, key) and writes it as one file, reusing its memory: that of a chunk once more.
class chunk_writer {
 public:
  /// @param sum  the rows are added to it. @pre the chunk is not empty. @throws error
  rows_file_entry write(std::filesystem::path const& directory, rows_place const& place, std::size_t part, engine::row_chunk& chunk, digest& sum) {
    std::size_t const n = chunk.keys.size();
    std::size_t const state = place.row_floats - place.dim;
    auto const shard = [&](key_type key) { return shard_of(place.table, key, place.shards); };
    auto const before = [&](key_type a, key_type b) {
      std::uint32_t const sa = shard(a);
      std::uint32_t const sb = shard(b);
      return sa != sb ? sa < sb : a < b;
    };
    std::sort(chunk.removed.begin(), chunk.removed.end(), before);
    order_.resize(n);
    for (std::size_t i = 0; i < n; ++i) order_[i] = {chunk.keys[i], shard(chunk.keys[i]), static_cast<std::uint32_t>(i)};
    std::sort(order_.begin(), order_.end(), [](item const& a, item const& b) { return a.shard != b.shard ? a.shard < b.shard : a.key < b.key; });
    keys_.resize(n);
    embedding_.resize(n * place.dim);
    state_.resize(n * state);
    for (std::size_t i = 0; i < n; ++i) {
      float const* const row = chunk.rows.data() + order_[i].index * place.row_floats;
      keys_[i] = order_[i].key;
      sum.add(place.table, keys_[i], {row, place.row_floats});
      std::copy_n(row, place.dim, embedding_.data() + i * place.dim);
      std::copy_n(row + place.dim, state, state_.data() + i * state);
    }
    rows_file_entry f;
    f.name = rows_file_name(place, part);
    f.table = place.table;
    f.rank = place.rank;
    f.first_shard = place.shards;
    for (auto const* list : {&keys_, &chunk.removed}) {
      if (list->empty()) continue;
      f.first_shard = std::min<std::uint64_t>(f.first_shard, shard(list->front()));
      f.last_shard = std::max<std::uint64_t>(f.last_shard, shard(list->back()));
    }
    f.rows = n;
    f.removed = chunk.removed.size();
    safetensors_writer out;
    out.metadata("table", place.table_name);
    out.add("keys", {n}, std::span<key_type const>{keys_});
    out.add("embedding", {n, place.dim}, std::span<float const>{embedding_.span()});
    if (state != 0) out.add("state", {n, state}, std::span<float const>{state_.span()});
    if (f.removed != 0) out.add("removed", {f.removed}, std::span<key_type const>{chunk.removed});
    f.sum = out.write(directory / f.name);
    return f;
  }

 private:
  struct item {
    key_type key;
    std::uint32_t shard;
    std::uint32_t index;
  };
  std::vector<item> order_;
  std::vector<key_type> keys_;
  exec::buffer<float> embedding_, state_;
};

}  // namespace nestpipe::checkpoint
