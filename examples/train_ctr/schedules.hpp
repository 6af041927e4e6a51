#pragma once
/// @file
/// The schedules this program can choose from.

#include "options.hpp"

#include <nestpipe/schedule/any_of.hpp>
#include <nestpipe/schedule/nested.hpp>
#include <nestpipe/schedule/prefetch.hpp>

namespace train_ctr {

using any_schedule = nestpipe::schedule::any_of<nestpipe::schedule::sequential, nestpipe::schedule::prefetch, nestpipe::schedule::dual_buffer<>, nestpipe::schedule::frozen_window,
                                                nestpipe::schedule::nested>;

inline std::vector<std::string> schedule_names() { return {"sequential", "prefetch", "dual_buffer", "frozen_window", "nested"}; }
inline std::vector<std::string> coming_schedules() { return {"bounded_staleness"}; }

inline any_schedule make_schedule(options const& o) {
  nestpipe::schedule::frozen_window inside;
  inside.split_backward = o.split_backward != "off";
  if (o.schedule == "frozen_window") return inside;
  auto const deep = [&](auto s) {
    if (o.look_ahead != 0) s.routes = o.look_ahead;
    return s;
  };
  if (o.schedule == "prefetch") return deep(nestpipe::schedule::prefetch{});
  if (o.schedule == "dual_buffer") {
    nestpipe::schedule::dual_buffer<> d;
    d.early = o.early_rows != "off";
    return deep(d);
  }
  if (o.schedule == "nested") {
    nestpipe::schedule::nested n;
    n.inner = inside;
    n.early = o.early_rows != "off";
    return deep(n);
  }
  return nestpipe::schedule::sequential{};
}

}  // namespace train_ctr
