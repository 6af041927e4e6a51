#pragma once
/// @file
/// Stages, lanes, ops and events, where executors and schedules look for them.

#include <nestpipe/core/stage.hpp>
