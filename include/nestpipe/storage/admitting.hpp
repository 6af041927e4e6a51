#pragma once
/// @file
/// A store in which a key gets a row only once it has earned one.

#include <nestpipe/storage/count_sketch.hpp>
#include <nestpipe/storage/layers.hpp>

#include <cmath>
#include <limits>
#include <string>

namespace nestpipe::storage {

/// A key gets a row with its `count`-th occurrence, and if `probability` is below 1, from then on with this probability at each:
/// after a number of further occurrences that is drawn once for the key (it is geometric), so that nothing has to be kept but
/// counts, and the answer depends on (seed, table, key, occurrences) only.
struct admission_rule {
  std::uint64_t count = 1;
  double probability = 1.0;

  bool active() const { return count > 1 || probability < 1.0; }
  /// Occurrences that a key must have had to have a row.
  std::uint64_t needed(std::uint64_t seed, std::uint32_t table, key_type key) const {
    std::uint64_t const least = count == 0 ? 1 : count;
    if (!(probability < 1.0)) return least;
    double const u = counter_random{mix64(seed ^ 0xbb67ae8584caa73bULL), table, key}.uniform_double(0);
    double const failures = std::floor(std::log1p(-u) / std::log1p(-probability));
    return failures < 4e9 ? least + static_cast<std::uint64_t>(failures) : std::numeric_limits<std::uint64_t>::max();
  }
  std::string name() const {
    if (!active()) return {};
    return "admits at " + std::to_string(count) + (probability < 1.0 ? ", with probability " + std::to_string(probability) : std::string{});
  }
};

/// Decorator: `S`, with the rule by which keys are admitted. Occurrences are counted by their owner while batches are routed, in
/// the order of batches, in sketches (estimates are never too low: a key may come in early, never late). A key that is not
/// admitted reads the table's default, as in evaluation; its gradient is lost, and it creates nothing.
/// @tparam Policy  has `active()`, `needed(seed, table, key)` as admission_rule, and `name()`
template <class S, class Policy = admission_rule>
class admitting {
  static_assert(audit<S>());

 public:
  static constexpr bool admits_keys = true;

  admitting() = default;
  /// @throws config_error when a probability is not in (0, 1]
  explicit admitting(S inner, Policy policy = {}, sketch_size size = {}) : inner_{std::move(inner)}, policy_{std::move(policy)}, size_{size} {
    if constexpr (requires { policy_.probability; })
      require(policy_.probability > 0 && policy_.probability <= 1, "the probability of admission must be above 0 and at most 1", std::to_string(policy_.probability));
  }

  void open(storage_spec const& spec) { inner_.open(spec); }
  void read(std::span<key_type const> keys, std::span<row_handle> handles, float* rows) { inner_.read(keys, handles, rows); }
  void write(std::span<key_type const> keys, std::span<row_handle const> handles, float const* rows) { inner_.write(keys, handles, rows); }
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
    inner_.scan(at, f);
  }
  bool passed(scan_cursor const& at, key_type key) const { return inner_.passed(at, key); }
  storage_counters counters() const { return inner_.counters(); }

  Policy const& policy() const { return policy_; }
  sketch_size size_of_sketch() const { return size_; }
  S const& inner() const { return inner_; }
  S& inner() { return inner_; }
  std::string layer_name() const { return policy_.name(); }

 private:
  S inner_{};
  Policy policy_{};
  sketch_size size_{};
};

/// What admission has done on one rank.
struct admission_counters {
  std::uint64_t refused_occurrences = 0;
  std::uint64_t dropped_gradients = 0;   ///< keys of a batch, summed over batches
};

namespace detail {
struct layer_admits {
  template <class L>
  static constexpr bool of = requires { requires L::admits_keys; };
};
}  // namespace detail

/// Whether a layer may refuse keys.
template <class S>
inline constexpr bool may_refuse = detail::some_layer<detail::layer_admits, S>();

/// The rule of the layer that admits, if one is in use; valid until the store moves.
struct admission {
  std::uint64_t (*needed_by)(void const* layer, std::uint64_t seed, std::uint32_t table, key_type key) = nullptr;
  void const* layer = nullptr;
  sketch_size size{};

  explicit operator bool() const { return needed_by != nullptr; }
  std::uint64_t needed(std::uint64_t seed, std::uint32_t table, key_type key) const { return needed_by(layer, seed, table, key); }
};
template <class S>
admission admission_of(S const& store) {
  admission found;
  for_each_layer(store, [&](auto const& layer) {
    using layer_type = std::remove_cvref_t<decltype(layer)>;
    if constexpr (detail::layer_admits::of<layer_type>) {
      if (!layer.policy().active()) return;
      found = {[](void const* l, std::uint64_t seed, std::uint32_t table, key_type key) -> std::uint64_t { return static_cast<layer_type const*>(l)->policy().needed(seed, table, key); }, &layer,
               layer.size_of_sketch()};
    }
  });
  return found;
}

}  // namespace nestpipe::storage
