#pragma once
/// @file
/// The `route` stage: keys go to their owners, and all ranks agree on the batch.

#include <nestpipe/comm/comm.hpp>
#include <nestpipe/engine/batch.hpp>

#include <algorithm>
#include <array>

namespace nestpipe::engine {

/// Owns the message buffers of routing; the results are in the batch slot.
template <class Channel>
class router {
 public:
  /// @param keep_index  for schedules with two windows, which compare the keys of consecutive batches
  router(Channel channel, embedding::route_shape const& shape, bool keep_index)
      : channel_{std::move(channel)}, shape_{shape}, keep_index_{keep_index} {}

  embedding::route_shape const& shape() const { return shape_; }
  Channel& channel() { return channel_; }

  /// Collective. Two messages: counts with the header, then keys with lists. O(ids of this rank + keys it owns).
  /// @return the sum of all ranks' headers (`end`: how many ranks are at the end)
  batch_header route(embedding_layout const& layout, batch_slot& slot, batch_header const& mine, comm::call_site at) {
    slot.source.build(layout, slot.blocks, shape_);
    batch_header const total = exchange_counts(slot, mine, at);
    slot.owner.expect(shape_);
    exchange_keys(slot, at);
    slot.owner.build(shape_, keep_index_);
    slot.source.land(layout, shape_, false, {});
    return total;
  }

  /// Collective: tells every rank which rows of its first micro-batch come late, because the batch before touches them too.
  void split_first(embedding_layout const& layout, batch_slot& slot, comm::call_site at) {
    std::size_t const ranks = shape_.world_size;
    bytes_to_.assign(ranks, 0);
    bytes_from_.assign(ranks, 0);
    std::size_t out = 0;
    std::size_t in = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      for (std::size_t t = 0; t < shape_.tables; ++t) {
        bytes_to_[r] += slot.owner.row_list(shape_, r, 0, t).size();
        bytes_from_[r] += slot.source.fresh_count(shape_, r, 0, t);
      }
      out += bytes_to_[r];
      in += bytes_from_[r];
    }
    send_.resize(out);
    receive_.resize(in);
    std::byte* to = send_.data();
    for (std::size_t r = 0; r < ranks; ++r) {
      for (std::size_t t = 0; t < shape_.tables; ++t) {
        auto const late = slot.shared.late(t);
        for (std::uint32_t const s : slot.owner.row_list(shape_, r, 0, t)) *to++ = std::byte{late[s]};
      }
    }
    channel_.all_to_all_v(std::span<std::byte const>{send_.span()}, std::span<std::size_t const>{bytes_to_}, receive_.span(),
                          std::span<std::size_t const>{bytes_from_}, at);
    slot.source.land(layout, shape_, true, {reinterpret_cast<std::uint8_t const*>(receive_.data()), in});
  }

 private:
  static constexpr std::size_t header_words = sizeof(batch_header) / sizeof(std::uint32_t);

  batch_header exchange_counts(batch_slot& slot, batch_header const& mine, comm::call_site at) {
    std::size_t const words = header_words + shape_.counts();
    std::size_t const ranks = shape_.world_size;
    send_words_.resize(ranks * words);
    receive_words_.resize(ranks * words);
    for (std::size_t r = 0; r < ranks; ++r) {
      std::memcpy(send_words_.data() + r * words, &mine, sizeof mine);
      std::copy_n(slot.source.counts.data() + r * shape_.counts(), shape_.counts(), send_words_.data() + r * words + header_words);
    }
    equal_.assign(ranks, words);
    comm::all_to_all_v<Channel, std::uint32_t>(channel_, send_words_, equal_, receive_words_, equal_, scratch_, at);
    slot.owner.counts.resize(ranks * shape_.counts());
    batch_header total{};
    for (std::size_t r = 0; r < ranks; ++r) {
      batch_header theirs;
      std::memcpy(static_cast<void*>(&theirs), receive_words_.data() + r * words, sizeof theirs);
      total.samples += theirs.samples;
      total.rows += theirs.rows;
      total.malformed += theirs.malformed;
      total.end += theirs.end;
      total.stop += theirs.stop;
      total.save_written += theirs.save_written;
      total.save_published += theirs.save_published;
      total.save_failed += theirs.save_failed;
      total.save_all += theirs.save_all;
      std::copy_n(receive_words_.data() + r * words + header_words, shape_.counts(), slot.owner.counts.data() + r * shape_.counts());
    }
    return total;
  }

  // Per destination: all keys, their occurrences where they are counted, then all lists.
  void exchange_keys(batch_slot& slot, comm::call_site at) {
    std::size_t const ranks = shape_.world_size;
    std::size_t const counted = shape_.count_occurrences ? 1 : 0;
    std::size_t const key_bytes = sizeof(key_type) + counted * sizeof(std::uint32_t);
    bytes_to_.resize(ranks);
    bytes_from_.resize(ranks);
    std::size_t out = 0;
    std::size_t in = 0;
    for (std::size_t r = 0; r < ranks; ++r) {
      bytes_to_[r] = slot.source.owner_keys[r] * key_bytes + slot.source.owner_lists[r] * sizeof(std::uint32_t);
      bytes_from_[r] = slot.owner.source_keys[r] * key_bytes + slot.owner.source_lists[r] * sizeof(std::uint32_t);
      out += bytes_to_[r];
      in += bytes_from_[r];
    }
    send_.resize(out);
    receive_.resize(in);
    std::byte* to = send_.data();
    key_type const* key = slot.source.keys.data();
    std::uint32_t const* times = slot.source.occurrences.data();
    std::uint32_t const* list = slot.source.lists.data();
    for (std::size_t r = 0; r < ranks; ++r) {
      to = put(to, key, slot.source.owner_keys[r]);
      to = put(to, times, counted * slot.source.owner_keys[r]);
      to = put(to, list, slot.source.owner_lists[r]);
      times += counted * slot.source.owner_keys[r];
      key += slot.source.owner_keys[r];
      list += slot.source.owner_lists[r];
    }
    channel_.all_to_all_v(std::span<std::byte const>{send_.span()}, std::span<std::size_t const>{bytes_to_}, receive_.span(),
                          std::span<std::size_t const>{bytes_from_}, at);
    std::byte const* from = receive_.data();
    key_type* key_in = slot.owner.received.data();
    std::uint32_t* times_in = slot.owner.received_occurrences.data();
    std::uint32_t* list_in = slot.owner.slots.data();
    for (std::size_t r = 0; r < ranks; ++r) {
      from = get(from, key_in, slot.owner.source_keys[r]);
      from = get(from, times_in, counted * slot.owner.source_keys[r]);
      from = get(from, list_in, slot.owner.source_lists[r]);
      times_in += counted * slot.owner.source_keys[r];
      key_in += slot.owner.source_keys[r];
      list_in += slot.owner.source_lists[r];
    }
  }

  template <class T>
  static std::byte* put(std::byte* to, T const* values, std::size_t n) {
    if (n != 0) std::memcpy(to, values, n * sizeof(T));
    return to + n * sizeof(T);
  }
  template <class T>
  static std::byte const* get(std::byte const* from, T* values, std::size_t n) {
    if (n != 0) std::memcpy(values, from, n * sizeof(T));
    return from + n * sizeof(T);
  }

  Channel channel_;
  embedding::route_shape shape_;
  bool keep_index_;
  std::vector<std::uint32_t> send_words_, receive_words_;
  std::vector<std::size_t> equal_, bytes_to_, bytes_from_;
  comm::byte_counts scratch_;
  exec::buffer<std::byte> send_, receive_;
};

}  // namespace nestpipe::engine
