#pragma once
/// @file
/// Intervals as Chrome trace events (JSON), which Perfetto and chrome://tracing open.

#include <nestpipe/trace/recorder.hpp>

#include <ostream>

namespace nestpipe::trace {

/// One rank's intervals.
struct rank_intervals {
  std::size_t rank = 0;
  std::vector<interval> intervals;
};

/// Writes all ranks as processes and their lanes as threads; times in microseconds.
/// Format: "Trace Event Format", complete events (ph X) and metadata events (ph M). O(intervals).
inline void write_chrome(std::ostream& out, std::span<rank_intervals const> ranks) {
  out << "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[";
  bool first = true;
  auto const separate = [&] {
    out << (first ? "\n" : ",\n");
    first = false;
  };
  auto const old = out.precision(3);
  auto const flags = out.setf(std::ios::fixed, std::ios::floatfield);
  for (auto const& r : ranks) {
    separate();
    out << "{\"ph\":\"M\",\"name\":\"process_name\",\"pid\":" << r.rank << ",\"args\":{\"name\":\"rank " << r.rank << "\"}}";
    for (std::size_t l = 0; l < exec::lane_count; ++l) {
      separate();
      out << "{\"ph\":\"M\",\"name\":\"thread_name\",\"pid\":" << r.rank << ",\"tid\":" << l << ",\"args\":{\"name\":\"" << exec::name(static_cast<exec::lane>(l)) << "\"}}";
    }
    for (auto const& i : r.intervals) {
      separate();
      out << "{\"ph\":\"X\",\"name\":\"" << exec::name(i.what.what) << "\",\"pid\":" << r.rank << ",\"tid\":" << static_cast<int>(i.self.where)
          << ",\"ts\":" << i.begin * 1e6 << ",\"dur\":" << (i.end - i.begin) * 1e6 << ",\"args\":{\"batch\":" << i.what.batch << ",\"part\":" << i.what.part
          << ",\"rows\":\"" << exec::name(i.what.rows) << "\"}}";
    }
  }
  out << "\n]}\n";
  out.precision(old);
  out.flags(flags);
}

}  // namespace nestpipe::trace
