#pragma once
/// @file
/// A store whose rows are kept in a narrower format.

#include <nestpipe/exec/buffer.hpp>
#include <nestpipe/storage/detail/unopened_copy.hpp>
#include <nestpipe/storage/layers.hpp>
#include <nestpipe/storage/row_codec.hpp>

#include <algorithm>
#include <vector>

namespace nestpipe::storage {

/// How an update's result becomes a value of the format.
/// - stochastic: up or down at random, right in the mean. Small updates are not lost, whatever the rate (Gupta et al., ICML 2015).
/// - nearest: updates smaller than half a step of the format vanish.
enum class rounding : std::uint8_t { stochastic, nearest };

struct encoding {
  enum rounding rounding = rounding::stochastic;
  bool encode_state = false;  ///< the optimizer's state too, as one more encoded vector; else it stays as it is
};

/// Decorator: `S`, which is given rows of fewer floats: the embedding as `Codec` packs it, then the state. Windows hold floats
/// of 32 bits; rows are rounded right after their update, by `round`, so that a row which stays in a window is the same as one
/// that went through storage: exact schedules stay exact. Random bits come from (seed, table, key, step), whoever computes.
///
/// `write` takes any row and stores the nearest one of the format: exactly, if it was rounded before.
template <class S, row_codec Codec>
class encoded {
  static_assert(audit<S>());

 public:
  encoded() = default;
  explicit encoded(S inner, Codec codec = {}, encoding how = {}) : inner_{std::move(inner)}, codec_{std::move(codec)}, how_{how} {}

  void open(storage_spec const& spec) {
    require(spec.row_floats >= spec.dim + spec.extra_floats, "storage::encoded: a row is shorter than its parts", "table " + spec.table_name);
    row_floats_ = spec.row_floats;
    dim_ = spec.dim;
    state_ = row_floats_ - dim_ - spec.extra_floats;
    extra_ = spec.extra_floats;
    packed_dim_ = codec_.packed_floats(dim_);
    packed_state_ = how_.encode_state ? codec_.packed_floats(state_) : state_;
    storage_spec packed = spec;
    packed.dim = packed_dim_;
    packed.row_floats = packed_floats();
    inner_.open(packed);
  }

  void read(std::span<key_type const> keys, std::span<row_handle> handles, float* rows) {
    if (exact()) return inner_.read(keys, handles, rows);
    packed_->resize(keys.size() * packed_floats());
    inner_.read(keys, handles, packed_->data());
    with_widths([&](auto const& codec, auto dim) {
      for (std::size_t i = 0; i < keys.size(); ++i) {
        if (handles[i] != no_row) unpack(codec, dim, packed_->data() + i * packed_floats(), rows + i * row_floats_);
      }
    });
  }
  void write(std::span<key_type const> keys, std::span<row_handle const> handles, float const* rows) {
    if (exact()) return inner_.write(keys, handles, rows);
    packed_->resize(keys.size() * packed_floats());
    with_widths([&](auto const& codec, auto dim) {
      for (std::size_t i = 0; i < keys.size(); ++i) pack(codec, dim, rows + i * row_floats_, packed_->data() + i * packed_floats());
    });
    inner_.write(keys, handles, packed_->data());
  }
  std::uint64_t epoch() const { return inner_.epoch(); }
  void pin(std::span<key_type const> keys) { inner_.pin(keys); }
  void release(std::span<key_type const> keys) { inner_.release(keys); }
  void expect(std::uint64_t batch, std::span<key_type const> keys)
    requires looks_ahead<S>
  {
    inner_.expect(batch, keys);
  }
  void reached(std::uint64_t batch)
    requires looks_ahead<S>
  {
    inner_.reached(batch);
  }
  void erase(std::span<key_type const> keys) { inner_.erase(keys); }
  std::uint64_t size() const { return inner_.size(); }
  template <class F>
  void scan(scan_cursor& at, F&& f) const {
    if (exact()) return inner_.scan(at, f);
    std::vector<float> row(row_floats_);
    inner_.scan(at, [&](key_type key, std::span<float const> packed) {
      unpack(codec_, dim_, packed.data(), row.data());
      f(key, std::span<float const>{row});
    });
  }
  bool passed(scan_cursor const& at, key_type key) const { return inner_.passed(at, key); }
  storage_counters counters() const { return inner_.counters(); }

  /// Whether rows have to be rounded.
  bool rounds() const { return !exact(); }
  /// Embedding and state of a row (dim + state floats) to what is kept of them.
  void round(float* row, counter_random const& random) const {
    with_widths([&](auto const& codec, auto dim) {
      if (how_.rounding == rounding::stochastic) {
        codec.round(row, dim, random);
        if (how_.encode_state) codec.round(row + dim, state_, counter_random{random.bits(~std::uint64_t{0}), 1, 0});
      } else {
        round_nearest(codec, row, dim);
        if (how_.encode_state) round_nearest(codec, row + dim, state_);
      }
    });
  }

  S const& inner() const { return inner_; }
  S& inner() { return inner_; }
  Codec const& codec() const { return codec_; }
  /// For reports and checkpoints.
  std::string layer_name() const {
    if (exact()) return {};
    return codec_.name() + (how_.rounding == rounding::nearest ? " rounded to nearest" : "") + (how_.encode_state ? " with state" : "");
  }

 private:
  bool exact() const {
    if constexpr (requires { codec_.exact(); }) {
      return codec_.exact();
    } else {
      return false;
    }
  }
  std::size_t packed_floats() const { return packed_dim_ + packed_state_ + extra_; }

  // One visit of the codec and of the width per call.
  template <class F>
  void with_widths(F f) const {
    auto const with_codec = [&](auto const& codec) { with_fixed_dim(dim_, [&](auto dim) { f(codec, dim); }); };
    if constexpr (requires { codec_.visit(with_codec); }) {
      codec_.visit(with_codec);
    } else {
      with_codec(codec_);
    }
  }
  template <class C, class Dim>
  void pack(C const& codec, Dim dim, float const* row, float* packed) const {
    codec.encode(row, dim, packed);
    if (how_.encode_state) {
      codec.encode(row + dim, state_, packed + packed_dim_);
    } else {
      std::copy_n(row + dim, state_, packed + packed_dim_);
    }
    std::copy_n(row + dim + state_, extra_, packed + packed_dim_ + packed_state_);
  }
  template <class C, class Dim>
  void unpack(C const& codec, Dim dim, float const* packed, float* row) const {
    codec.decode(packed, dim, row);
    if (how_.encode_state) {
      codec.decode(packed + packed_dim_, state_, row + dim);
    } else {
      std::copy_n(packed + packed_dim_, state_, row + dim);
    }
    std::copy_n(packed + packed_dim_ + packed_state_, extra_, row + dim + state_);
  }
  template <class C, class Dim>
  static void round_nearest(C const& codec, float* row, Dim dim) {
    constexpr std::size_t most = 256;
    float packed[most];
    std::vector<float> large;
    float* const p = codec.packed_floats(dim) <= most ? packed : (large.resize(codec.packed_floats(dim)), large.data());
    codec.encode(row, dim, p);
    codec.decode(p, dim, row);
  }

  S inner_{};
  Codec codec_{};
  encoding how_{};
  std::size_t row_floats_ = 0, dim_ = 0, state_ = 0, extra_ = 0;
  std::size_t packed_dim_ = 0, packed_state_ = 0;
  detail::unopened_copy<exec::buffer<float>> packed_;
};

}  // namespace nestpipe::storage
