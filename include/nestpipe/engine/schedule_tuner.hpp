#pragma once
/// @file
/// Which variant of a schedule pays is measured, not guessed: each runs for a few steps between two boundaries, rank 0 reads
/// the trace, and its choice is made known to all. All variants are exact, so the choice never shows in the bits.

#include <nestpipe/comm/comm.hpp>
#include <nestpipe/schedule/schedule.hpp>
#include <nestpipe/trace/recorder.hpp>

#include <limits>
#include <span>

namespace nestpipe::engine {

template <class Schedule>
class schedule_tuner {
 public:
  explicit schedule_tuner(Schedule const& given) : active_{given} {}

  /// The schedule to run now.
  Schedule const& active() const { return active_; }

  /// Before a run: makes the next variant active while there is one to try. The first is tried twice, since the first run
  /// also warms up. Not collective: every rank does the same.
  /// @param steps  per variant; 0: nothing is tried
  bool next(Schedule const& given, std::uint64_t steps) {
    if (steps == 0 || done_) return false;
    if (candidates_.empty()) candidates_ = schedule::variants(given);
    if (candidates_.size() < 2) {
      done_ = true;
      return false;
    }
    active_ = candidates_[turn_ == 0 ? 0 : turn_ - 1];
    return true;
  }

  /// After the run of a variant, lanes idle. Collective after the last one.
  /// @param from, to  stage times of this rank before and after
  template <comm::channel Channel>
  void tried(trace::stage_times const& from, trace::stage_times const& to, std::uint64_t steps, Channel& control, comm::call_site at) {
    if (steps == 0) return;  // the epoch ended first: again
    double const seconds = (to.compute + to.idle() - from.compute - from.idle()) / static_cast<double>(steps);
    if (turn_ > 0 && seconds < best_seconds_) {
      best_seconds_ = seconds;
      best_ = turn_ - 1;
    }
    if (++turn_ <= candidates_.size()) return;
    std::uint64_t choice = best_;
    control.broadcast(std::as_writable_bytes(std::span{&choice, 1}), 0, at);
    active_ = candidates_[choice];
    done_ = true;
  }

 private:
  Schedule active_;
  std::vector<Schedule> candidates_;
  std::size_t turn_ = 0;
  std::uint64_t best_ = 0;
  double best_seconds_ = std::numeric_limits<double>::infinity();
  bool done_ = false;
};

}  // namespace nestpipe::engine
