#pragma once
/// @file
/// How much of each kind of work a schedule hides: totals and exposed times, for steps in the middle of a run.

#include <nestpipe/trace/recorder.hpp>

#include <ostream>
#include <string_view>

namespace nestpipe::trace {

/// Sums over the steps of batches first .. last-1 alone: from the end of update_dense of the last step before them to that of
/// their last one. Ops of neighbouring batches that run in between count, as they do in a steady state.
/// @param intervals  of one rank, as a recorder keeps them; the steps before `first` must be there too
/// @param steps      set to the number of steps found
/// @complexity O(n log n)
inline stage_times times_between(std::span<interval const> intervals, std::uint64_t first, std::uint64_t last, std::uint64_t& steps) {
  double from = -1;
  double to = -1;
  std::uint64_t n = 0;
  for (auto const& i : intervals) {
    if (i.what.what != exec::stage::update_dense) continue;
    if (i.what.batch < first) from = std::max(from, i.end);
    if (i.what.batch >= first && i.what.batch < last) {
      to = std::max(to, i.end);
      ++n;
    }
  }
  steps = n;
  if (from < 0 || to <= from) {
    steps = 0;
    return {};
  }
  std::vector<interval> sorted(intervals.begin(), intervals.end());
  std::sort(sorted.begin(), sorted.end(), [](interval const& a, interval const& b) {
    return a.end != b.end ? a.end < b.end : a.self.where != b.self.where ? a.self.where < b.self.where : a.self.ticket < b.self.ticket;
  });
  // A recorder counts tickets from 1; those kept may begin later.
  std::array<std::uint64_t, exec::lane_count> before;
  before.fill(~std::uint64_t{0});
  for (auto const& i : sorted) {
    auto& b = before[static_cast<std::size_t>(i.self.where)];
    b = std::min(b, i.self.ticket - 1);
  }
  auto const renumber = [&](exec::event& e) {
    std::uint64_t const b = before[static_cast<std::size_t>(e.where)];
    e.ticket = e.ticket > b ? e.ticket - b : 0;
  };
  for (auto& i : sorted) {
    renumber(i.self);
    for (std::size_t k = 0; k < i.dependencies; ++k) renumber(i.after[k]);
  }
  // Gaps are attributed by looking back along what was waited for, so the recorder hears of everything before the window too.
  recorder again{sorted.size() + 1};
  bool counting = false;
  for (auto const& i : sorted) {
    if (i.end > to) break;
    if (!counting && i.end > from) {
      again.reset_times();
      counting = true;
    }
    again.add(i);
  }
  return again.times();
}

/// One kind of work.
struct exposed_time {
  double total = 0;    ///< seconds running
  double exposed = 0;  ///< seconds the compute lane stood idle because of it
};

/// The kinds that reports speak of.
struct exposure {
  exposed_time input;       ///< read, stage
  exposed_time lookup;      ///< route, retrieve, write_back
  exposed_time rows;        ///< exchange_rows
  exposed_time gradients;   ///< exchange_gradients
  exposed_time all_reduce;  ///< reduce_dense
  double compute = 0;       ///< seconds the compute lane was busy
  double other = 0;         ///< seconds it was idle while nothing that it waited for ran: hand-over between threads, the issuing thread
  double idle() const { return input.exposed + lookup.exposed + rows.exposed + gradients.exposed + all_reduce.exposed + other; }
};

/// @param steps  the sums are divided by it
inline exposure summarize(stage_times const& t, std::uint64_t steps = 1) {
  double const n = steps == 0 ? 1.0 : static_cast<double>(steps);
  auto const sum = [&](std::initializer_list<exec::stage> stages) {
    exposed_time e;
    for (exec::stage const s : stages) {
      e.total += t.total[static_cast<std::size_t>(s)] / n;
      e.exposed += t.exposed[static_cast<std::size_t>(s)] / n;
    }
    return e;
  };
  using exec::stage;
  exposure e;
  e.input = sum({stage::read, stage::stage});
  e.lookup = sum({stage::route, stage::retrieve, stage::write_back});
  e.rows = sum({stage::exchange_rows});
  e.gradients = sum({stage::exchange_gradients});
  e.all_reduce = sum({stage::reduce_dense});
  e.compute = t.compute / n;
  e.other = t.unattributed / n;
  return e;
}

/// A table for people: one line per kind, milliseconds and share of the step.
inline void write_exposure(std::ostream& out, exposure const& e, double step_seconds) {
  auto const old = out.precision(2);
  auto const flags = out.setf(std::ios::fixed, std::ios::floatfield);
  double const share = step_seconds > 0 ? 100 / step_seconds : 0;
  auto const line = [&](std::string_view name, exposed_time const& x) {
    out << "  " << name << ": " << x.total * 1e3 << " ms, exposed " << x.exposed * 1e3 << " ms (" << x.exposed * share << " % of the step)\n";
  };
  line("input", e.input);
  line("lookup", e.lookup);
  line("row exchange", e.rows);
  line("gradient exchange", e.gradients);
  line("all-reduce", e.all_reduce);
  out << "  compute: " << e.compute * 1e3 << " ms busy; idle for no recorded reason " << e.other * 1e3 << " ms\n";
  out.precision(old);
  out.flags(flags);
}

}  // namespace nestpipe::trace
