#pragma once
/// @file
/// How the dense reduction is cut: all parameters at once, or in the order in which backward has them.

#include <nestpipe/core/error.hpp>
#include <nestpipe/model/model.hpp>

#include <algorithm>
#include <string>
#include <vector>

namespace nestpipe::engine {

/// Ranges of the reduction: the model's, or one. The one that ends with the last parameter carries the loss too.
/// @throws config_error when the model's buckets do not partition its parameters
template <class Model>
std::vector<model::parameter_range> reduction_buckets(Model const& m, std::size_t parameters, bool several) {
  std::size_t const count = model::weight_buckets(m);
  if (!several || count == 1) return {{0, parameters + 1}};
  std::vector<model::parameter_range> list;
  for (std::size_t b = 0; b < count; ++b) list.push_back(model::bucket_range(m, b));
  auto ascending = list;
  std::sort(ascending.begin(), ascending.end(), [](auto const& a, auto const& b) { return a.first < b.first; });
  std::size_t at = 0;
  for (auto const& r : ascending) {
    require(r.first == at && r.last > r.first, "the model's buckets do not partition its parameters", "parameter " + std::to_string(at),
            "let bucket_range give every parameter to one bucket, and leave none empty");
    at = r.last;
  }
  require(at == parameters, "the model's buckets do not partition its parameters", "they end at " + std::to_string(at) + " of " + std::to_string(parameters),
          "let bucket_range give every parameter to one bucket");
  for (auto& r : list) r.last += r.last == parameters ? 1 : 0;
  return list;
}

}  // namespace nestpipe::engine
