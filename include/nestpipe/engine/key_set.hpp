#pragma once
/// @file
/// A set of 64-bit keys that grows without a long pause.

#include <nestpipe/core/random.hpp>

#include <bit>
#include <cstdint>
#include <utility>
#include <vector>

namespace nestpipe::engine {

/// Open addressing in 256 parts by the first bits of the hash. A part doubles when it is between half and four fifths full,
/// each at a load of its own, so that the parts do not all grow in the same step. Every 64-bit key is legal; each can carry a
/// mark. 9 bytes a slot, 12 to 36 bytes a key.
class key_set {
 public:
  /// Place of a key; good until the next insert.
  using place = std::uint64_t;
  static constexpr place none = ~place{0};

  /// Expected O(1). @return whether it is new
  bool insert(key_type key) {
    std::uint64_t const hash = mix64(key);
    std::size_t const number = hash >> 56;
    part& p = parts_[number];
    if (p.keys.empty()) p.resize(16);
    std::size_t at = p.seek(key, hash);
    if (p.state[at] != empty) return false;
    if ((p.used + 1) * 1280 > p.keys.size() * (640 + number * 384 / part_count)) {
      p.resize(2 * p.keys.size());
      at = p.seek(key, hash);
    }
    p.keys[at] = key;
    p.state[at] = held;
    ++p.used;
    ++size_;
    return true;
  }

  place find(key_type key) const {
    std::uint64_t const hash = mix64(key);
    part const& p = parts_[hash >> 56];
    if (p.keys.empty()) return none;
    std::size_t const at = p.seek(key, hash);
    return p.state[at] == empty ? none : (hash >> 56) << 48 | at;
  }
  bool contains(key_type key) const { return find(key) != none; }

  void mark(place p) { parts_[p >> 48].state[p & low] = marked; }
  bool is_marked(place p) const { return parts_[p >> 48].state[p & low] == marked; }

  /// f(key) for the unmarked keys of at least `slots` further slots from `at` on. @return where to go on; none at the end
  template <class F>
  place visit(place at, std::size_t slots, F f) const {
    for (std::size_t number = at >> 48, slot = at & low; number < part_count; ++number, slot = 0) {
      part const& p = parts_[number];
      for (; slot < p.keys.size(); ++slot) {
        if (slots-- == 0) return std::uint64_t{number} << 48 | slot;
        if (p.state[slot] == held) f(p.keys[slot]);
      }
    }
    return none;
  }

  std::uint64_t size() const { return size_; }
  std::uint64_t slots() const {
    std::uint64_t n = 0;
    for (part const& p : parts_) n += p.keys.size();
    return n;
  }
  /// Forgets all keys and gives the memory back.
  void clear() { *this = key_set{}; }

 private:
  static constexpr std::size_t part_count = 256;
  static constexpr place low = (place{1} << 48) - 1;
  enum : std::uint8_t { empty, held, marked };

  struct part {
    std::vector<key_type> keys;
    std::vector<std::uint8_t> state;
    std::size_t used = 0;

    // Where the key is or would go. The first 8 bits of the hash are the same all over a part.
    std::size_t seek(key_type key, std::uint64_t hash) const {
      std::size_t const mask = keys.size() - 1;
      std::size_t at = hash & mask;
      while (state[at] != empty && keys[at] != key) at = (at + 1) & mask;
      return at;
    }
    void resize(std::size_t slots) {
      part larger;
      larger.keys.resize(slots);
      larger.state.resize(slots);
      larger.used = used;
      for (std::size_t i = 0; i < keys.size(); ++i) {
        if (state[i] == empty) continue;
        std::size_t const at = larger.seek(keys[i], mix64(keys[i]));
        larger.keys[at] = keys[i];
        larger.state[at] = state[i];
      }
      *this = std::move(larger);
    }
  };

  std::vector<part> parts_ = std::vector<part>(part_count);
  std::uint64_t size_ = 0;
};

}  // namespace nestpipe::engine
