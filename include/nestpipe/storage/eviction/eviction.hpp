#pragma once
/// @file
/// What an eviction policy is: which rows of a full fast tier go down first. It ranks, nothing else: the tier keeps a small mark
/// per row, and when it needs room it looks at many rows at once and moves the least worth of them, several per cent of the tier
/// in one write. So no policy keeps lists, and exact ranks cost a few nanoseconds a row moved.
///
/// | requirement on E (copyable value) | meaning |
/// |---|---|
/// | `typename E::mark` | what it keeps per row in the fast tier: trivially copyable, at most 8 bytes; value-initialised for a row that has just come up |
/// | `e.open(rows)` | the fast tier holds about so many rows; may be called again when that has doubled |
/// | `e.used(mark, key, now)` | a batch needs the row; `now` counts batches |
/// | `e.worth(mark, now)` | -> std::uint64_t below 2^63: rows with the least leave first |
/// | `e.bytes()` | memory the policy itself holds |
/// | `E::needs_due` (optional, false) | whether it asks when rows are needed next: then `e.worth(mark, now, due)`, where `due` is in how many batches the row is needed as far as that is known, else 0 |

#include <nestpipe/core/config.hpp>

#include <concepts>
#include <cstdint>
#include <type_traits>

namespace nestpipe::storage::eviction {

template <class E>
concept has_mark = requires { typename E::mark; } && std::is_trivially_copyable_v<typename E::mark> && sizeof(typename E::mark) <= 8;
template <class E>
concept has_open = requires(E& e, std::uint64_t rows) { e.open(rows); };
template <class E>
concept has_used = requires(E& e, typename E::mark& m, key_type k, std::uint32_t now) { e.used(m, k, now); };

template <class E>
constexpr bool needs_due() {
  if constexpr (requires { E::needs_due; }) {
    return E::needs_due;
  } else {
    return false;
  }
}
template <class E>
concept has_worth = (needs_due<E>() && requires(E const& e, typename E::mark const& m, std::uint32_t now) {
                      { e.worth(m, now, now) } -> std::same_as<std::uint64_t>;
                    }) || (!needs_due<E>() && requires(E const& e, typename E::mark const& m, std::uint32_t now) {
                      { e.worth(m, now) } -> std::same_as<std::uint64_t>;
                    });
template <class E>
concept has_bytes = requires(E const& e) {
  { e.bytes() } -> std::convertible_to<std::uint64_t>;
};
template <class E>
concept policy = has_mark<E> && has_open<E> && has_used<E> && has_worth<E> && has_bytes<E> && std::copy_constructible<E> && std::movable<E>;

template <class E>
consteval bool audit() {
  static_assert(has_mark<E>, "eviction policy [1/6]: define a trivially copyable member type mark of at most 8 bytes");
  static_assert(has_open<E>, "eviction policy [2/6]: provide open(std::uint64_t rows)");
  if constexpr (has_mark<E>) {
    static_assert(has_used<E>, "eviction policy [3/6]: provide used(mark&, key_type, std::uint32_t now)");
    static_assert(has_worth<E>, "eviction policy [4/6]: provide std::uint64_t worth(mark const&, std::uint32_t now) const, with a third argument due if needs_due");
  }
  static_assert(has_bytes<E>, "eviction policy [5/6]: provide bytes() const");
  static_assert(std::copy_constructible<E> && std::movable<E>, "eviction policy [6/6]: must be copyable and movable");
  return true;
}

}  // namespace nestpipe::storage::eviction
