#pragma once
/// @file
/// What a label may be.

#include <cstdint>

namespace nestpipe::data {

/// binary: a row whose label is not one of the two classes is malformed. regression: any finite number is a label.
enum class label_task : std::uint8_t { binary, regression };

}  // namespace nestpipe::data
