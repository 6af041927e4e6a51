#pragma once
/// @file
/// How hard to look for a better spread of samples over micro-batches.

#include <cstdint>
#include <string_view>

namespace nestpipe::embedding {

/// - off: samples stay where the data put them
/// - fast: one greedy pass, about a microsecond a sample
/// - exact: the greedy pass, then exchanges of two samples until none helps any more, a few microseconds a sample. (The optimum
///   itself is NP-hard: this is balanced hypergraph partitioning.)
enum class clustering : std::uint8_t { off, fast, exact };

constexpr std::string_view name(clustering c) { return c == clustering::off ? "off" : c == clustering::fast ? "fast" : "exact"; }

}  // namespace nestpipe::embedding
