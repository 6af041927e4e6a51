#pragma once
/// @file
/// A pass over a dataset before training starts.

#include <nestpipe/data/data.hpp>

#include <utility>

namespace nestpipe::data {

/// Calls f(sample_block const&) with all samples of the first epoch, in order, from a copy of the dataset.
/// @param purpose  what needs the pass, for the message
/// @throws config_error when the data can be read only once; whatever reading throws.
template <class D, class F>
void for_each_block(D dataset, char const* purpose, F&& f) {
  if constexpr (requires { dataset.single_pass(); }) {
    require(!dataset.single_pass(), std::string{purpose} + " needs a pass over the training data first, and standard input can be read only once", {}, "give a file");
  }
  constexpr std::size_t rows = 8192;
  typename D::block block;
  sample_block samples;
  dataset.rewind(0);
  while (std::size_t const n = dataset.frame(block, rows)) {
    dataset.parse(block, 0, n, samples);
    f(std::as_const(samples));
  }
}

}  // namespace nestpipe::data
