#pragma once
/// @file
/// `schedule::nested`: dual buffers across batches, frozen windows inside them.

#include <nestpipe/schedule/dual_buffer.hpp>
