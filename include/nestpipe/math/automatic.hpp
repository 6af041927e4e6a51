#pragma once
/// @file
/// The name of "the best matrix product this build has", without pulling it in.

namespace nestpipe::math {

/// Default backend of the models. Declared here, defined in <nestpipe/math/default.hpp>, so that the umbrella header needs
/// neither oneDNN nor Eigen; a program that instantiates a model with it must include that header.
struct automatic;

}  // namespace nestpipe::math
