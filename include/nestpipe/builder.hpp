#pragma once
/// @file
/// A trainer put together by name, in any order; what is missing or given twice is one sentence from the compiler.

#include <nestpipe/optimizer/adam.hpp>
#include <nestpipe/optimizer/rowwise_adagrad.hpp>
#include <nestpipe/schedule/nested.hpp>
#include <nestpipe/storage/hashed.hpp>
#include <nestpipe/trainer.hpp>

#include <tuple>
#include <type_traits>
#include <utility>

namespace nestpipe {

namespace detail {

enum class builder_part : std::uint8_t { model, storage, comm, schedule, row_optimizer, dense_optimizer, executor, reduction, config };

template <builder_part Name, class Value>
struct built {
  static constexpr builder_part name = Name;
  using type = Value;
  Value value;
};
/// A part that is a type and not a value.
template <builder_part Name, class Type>
struct built_type {
  static constexpr builder_part name = Name;
  using type = Type;
};

template <builder_part Name, class Default>
constexpr auto find_part(std::tuple<> const&) {
  return built<Name, Default>{};
}
/// The part of that name, or its default.
template <builder_part Name, class Default, class First, class... Rest>
constexpr auto find_part(std::tuple<First, Rest...> const& parts) {
  if constexpr (First::name == Name) {
    return std::get<0>(parts);
  } else {
    return std::apply([](auto const&, auto const&... rest) { return find_part<Name, Default>(std::tuple<Rest...>{rest...}); }, parts);
  }
}

template <builder_part Name, class Default, class Tuple>
using part_type = typename decltype(find_part<Name, Default>(std::declval<Tuple const&>()))::type;

template <class Tuple>
using built_trainer =
    trainer<part_type<builder_part::model, void*, Tuple>, part_type<builder_part::storage, storage::hashed<>, Tuple>, part_type<builder_part::comm, void*, Tuple>,
            part_type<builder_part::schedule, schedule::nested, Tuple>, part_type<builder_part::row_optimizer, optimizer::rowwise_adagrad, Tuple>,
            part_type<builder_part::dense_optimizer, optimizer::adam, Tuple>, part_type<builder_part::executor, exec::thread_lanes, Tuple>,
            part_type<builder_part::reduction, reduction::ordered, Tuple>>;

template <class Tuple>
built_trainer<Tuple> build_trainer(Tuple const& parts) {
  using type = built_trainer<Tuple>;
  typename type::policies p{find_part<builder_part::model, void*>(parts).value,
                            find_part<builder_part::storage, storage::hashed<>>(parts).value,
                            find_part<builder_part::schedule, schedule::nested>(parts).value,
                            find_part<builder_part::row_optimizer, optimizer::rowwise_adagrad>(parts).value,
                            find_part<builder_part::dense_optimizer, optimizer::adam>(parts).value,
                            find_part<builder_part::reduction, reduction::ordered>(parts).value};
  return type{find_part<builder_part::config, trainer_config>(parts).value, find_part<builder_part::comm, void*>(parts).value, std::move(p)};
}

}  // namespace detail

/// Collects policies as configured values and builds the trainer. A value: every call returns a new builder, so that a common
/// part can be kept and finished in several ways.
///
/// | call | if left out |
/// |---|---|
/// | `model(m)`, `comm(c)` | an error |
/// | `config(trainer_config)` | the configuration's own defaults |
/// | `storage(s)` | storage::hashed<> |
/// | `schedule(s)` | schedule::nested |
/// | `row_optimizer(o)`, `dense_optimizer(o)` | optimizer::rowwise_adagrad, optimizer::adam |
/// | `executor<E>()` | exec::thread_lanes |
/// | `reduction(r)` | reduction::ordered |
template <class... Parts>
class trainer_builder {
  using part = detail::builder_part;

  template <part Name>
  static constexpr bool has = ((Parts::name == Name) || ...);

 public:
  explicit trainer_builder(std::tuple<Parts...> parts) : parts_{std::move(parts)} {}

  template <class M>
  auto model(M m) const {
    static_assert(!has<part::model>, "trainer builder: model(...) was given twice");
    return with<part::model>(std::move(m));
  }
  template <class S>
  auto storage(S s) const {
    static_assert(!has<part::storage>, "trainer builder: storage(...) was given twice");
    return with<part::storage>(std::move(s));
  }
  template <class C>
  auto comm(C c) const {
    static_assert(!has<part::comm>, "trainer builder: comm(...) was given twice");
    return with<part::comm>(std::move(c));
  }
  template <class S>
  auto schedule(S s) const {
    static_assert(!has<part::schedule>, "trainer builder: schedule(...) was given twice");
    return with<part::schedule>(std::move(s));
  }
  template <class O>
  auto row_optimizer(O o) const {
    static_assert(!has<part::row_optimizer>, "trainer builder: row_optimizer(...) was given twice");
    return with<part::row_optimizer>(std::move(o));
  }
  template <class O>
  auto dense_optimizer(O o) const {
    static_assert(!has<part::dense_optimizer>, "trainer builder: dense_optimizer(...) was given twice");
    return with<part::dense_optimizer>(std::move(o));
  }
  template <class R>
  auto reduction(R r) const {
    static_assert(!has<part::reduction>, "trainer builder: reduction(...) was given twice");
    return with<part::reduction>(std::move(r));
  }
  /// A template, so that a builder which already has one is refused where it is called.
  template <class Config = trainer_config>
  auto config(Config c) const {
    static_assert(!has<part::config>, "trainer builder: config(...) was given twice");
    return with<part::config>(trainer_config{std::move(c)});
  }
  /// Executors own threads, so the trainer makes its own; trainer.executor() reaches it for settings.
  template <class E>
  auto executor() const {
    static_assert(!has<part::executor>, "trainer builder: executor<...>() was given twice");
    return append(detail::built_type<part::executor, E>{});
  }

  /// The trainer itself, made in place: it is neither copied nor moved.
  /// @throws config_error as the trainer's constructor does
  auto build() const {
    static_assert(has<part::model>, "trainer builder: missing model(...)");
    static_assert(has<part::comm>, "trainer builder: missing comm(...)");
    if constexpr (has<part::model> && has<part::comm>) return detail::build_trainer(parts_);
  }

 private:
  template <part Name, class Value>
  auto with(Value value) const {
    return append(detail::built<Name, Value>{std::move(value)});
  }
  template <class Part>
  auto append(Part added) const {
    return std::apply([&](auto const&... have) { return trainer_builder<Parts..., Part>{std::tuple<Parts..., Part>{have..., std::move(added)}}; }, parts_);
  }

  std::tuple<Parts...> parts_;
};

/// Begins a trainer: `make_trainer().model(m).comm(c).config(cfg).build()`.
inline trainer_builder<> make_trainer() { return trainer_builder<>{std::tuple<>{}}; }

}  // namespace nestpipe
