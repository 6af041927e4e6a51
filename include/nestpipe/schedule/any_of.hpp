#pragma once
/// @file
/// One of several schedules, chosen at run time; itself a schedule.

#include <nestpipe/schedule/schedule.hpp>

#include <type_traits>
#include <utility>
#include <variant>

namespace nestpipe::schedule {

namespace detail {

/// The weakest promise of several: exact only if all are, else the first that is not.
template <class First, class... Rest>
struct weakest {
  using type = First;
};
template <class Second, class... Rest>
struct weakest<exact, Second, Rest...> {
  using type = typename weakest<Second, Rest...>::type;
};

}  // namespace detail

/// Meets the schedule concept with one visit per run.
template <class... Ss>
class any_of {
  static_assert(sizeof...(Ss) > 0, "schedule::any_of: name at least one schedule");
  static_assert((audit<Ss>() && ...));

 public:
  using consistency = typename detail::weakest<typename Ss::consistency...>::type;

  /// The first alternative with its defaults.
  any_of() = default;

  template <class S>
    requires(std::is_same_v<S, Ss> || ...)
  any_of(S chosen) : held_{std::move(chosen)} {}  // NOLINT: implicit, so that a schedule goes wherever an any_of is asked for

  std::size_t index() const { return held_.index(); }

  std::uint32_t windows() const {
    return std::visit([](auto const& s) -> std::uint32_t { return s.windows(); }, held_);
  }

  std::vector<any_of> variants() const {
    return std::visit(
        [](auto const& s) {
          std::vector<any_of> list;
          for (auto const& v : schedule::variants(s)) list.emplace_back(v);
          return list;
        },
        held_);
  }

  bool early_rows() const {
    return std::visit([](auto const& s) -> bool { return schedule::early_rows(s); }, held_);
  }

  template <class Pipeline>
  void run(Pipeline& p) const {
    std::visit([&](auto const& s) { s.run(p); }, held_);
  }

 private:
  std::variant<Ss...> held_{};
};

}  // namespace nestpipe::schedule
