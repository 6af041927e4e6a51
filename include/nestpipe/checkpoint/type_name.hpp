#pragma once
/// @file
/// Names of policies in manifests, and what the floats of an optimizer's state are.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace nestpipe::checkpoint {

namespace detail {

template <class T>
constexpr std::string_view spelled_type() {
  std::string_view const s = __PRETTY_FUNCTION__;  // "... [with T = x; ...]" (GCC) or "... [T = x]" (Clang)
  std::size_t const begin = s.find("T = ") + 4;
  return s.substr(begin, s.find_first_of(";]<", begin) - begin);
}

}  // namespace detail

/// The name under which a policy stands in a manifest: what its name() says, or its type without template arguments and without
/// our own namespaces. The same for all compilers.
template <class Policy>
std::string policy_name(Policy const& policy) {
  if constexpr (requires { std::string{policy.name()}; }) {
    return std::string{policy.name()};
  } else {
    std::string_view s = detail::spelled_type<Policy>();
    if (s.starts_with("nestpipe::")) s.remove_prefix(s.rfind(':') + 1);
    return std::string{s};
  }
}

/// As above; of an any_of, the name of its active alternative; of a decorator that says what it does, of what it wraps and that.
template <class Policy>
std::string active_policy_name(Policy const& policy) {
  auto const name = [](auto const& p) -> std::string { return active_policy_name(p); };
  if constexpr (requires { policy.visit([](auto const& p) -> std::string { return policy_name(p); }); }) {
    return policy.visit(name);
  } else if constexpr (requires { policy.layer_name(), policy.inner(); }) {
    std::string const layer = policy.layer_name();
    return active_policy_name(policy.inner()) + (layer.empty() ? "" : ", ") + layer;
  } else {
    return policy_name(policy);
  }
}

/// Consecutive floats of an optimizer's state, named as PyTorch and FBGEMM name them.
struct state_part {
  std::string name;
  std::size_t floats = 0;
};

/// Parts of the state of one row of `dim` floats. @param floats  the optimizer's state_size(dim)
/// For optimizers that are not ours: one part called "state".
inline std::vector<state_part> state_layout(std::string_view optimizer, std::size_t dim, std::size_t floats) {
  std::vector<state_part> parts;
  if (optimizer == "adam" && floats == 2 * dim) {
    parts = {{"exp_avg", dim}, {"exp_avg_sq", dim}};
  } else if (optimizer == "ftrl" && floats == 2 * dim) {
    parts = {{"z", dim}, {"n", dim}};
  } else if (optimizer == "adagrad" && floats == dim) {
    parts = {{"sum", dim}};
  } else if (optimizer == "rowwise_adagrad" && floats == 1) {
    parts = {{"momentum1", 1}};
  } else if (optimizer == "momentum" && floats == dim) {
    parts = {{"momentum_buffer", dim}};
  } else if (floats != 0) {
    parts = {{"state", floats}};
  }
  return parts;
}

}  // namespace nestpipe::checkpoint
