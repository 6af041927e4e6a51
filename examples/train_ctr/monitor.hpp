#pragma once
/// @file
/// The thread beside the training: it prints progress and listens for a signal to stop.

#include "options.hpp"
#include "watched.hpp"

#include <nestpipe/trainer_config.hpp>

#include <atomic>
#include <functional>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

namespace train_ctr {

/// What the ranks of this process are doing.
enum class phase { opening, training, scoring, saving, done };

class monitor {
 public:
  /// Blocks SIGINT, SIGTERM and SIGUSR1 in this thread and those it starts from now on, so that only the monitor takes them.
  /// Under MPI SIGTERM is left to the library: launchers send it when a rank has died.
  static void block_signals(bool mpi);

  explicit monitor(options const& o);
  monitor(monitor const&) = delete;
  monitor& operator=(monitor const&) = delete;
  ~monitor();

  /// A rank of this process trains from now on: how to ask it to stop, where it is, and how much of the time compute stands still.
  struct rank_view {
    std::function<void()> request_stop;
    std::function<std::optional<exec::op>()> place;
    std::function<double()> idle_share;
  };
  std::size_t add(rank_view view);
  /// It is about to go away.
  void remove(std::size_t id);

  void enter(phase p) { phase_ = p; }
  /// Of rank 0, after every update.
  void step(nestpipe::progress const& p);
  void valid_auc(double auc);
  bool stopping() const { return stopping_; }

  /// A line to standard output that does not mix with the progress line.
  void say(std::string const& line);
  std::vector<std::pair<std::uint64_t, std::uint64_t>> rss_at() const;

 private:
  void run();
  void show(bool last);
  void clear_line();
  [[noreturn]] void give_up(char const* why);

  bool terminal_;
  bool quiet_;
  bool mpi_;
  std::uint64_t first_rank_;
  mutable std::mutex mutex_;
  std::vector<std::pair<std::size_t, rank_view>> ranks_;
  std::size_t next_id_ = 0;
  nestpipe::progress now_{};
  std::uint64_t samples_ = 0;
  std::uint64_t shown_step_ = 0, shown_samples_ = 0;
  double shown_at_ = 0;
  double loss_sum_ = 0, loss_samples_ = 0;
  double auc_;
  bool line_open_ = false;
  std::vector<std::pair<std::uint64_t, std::uint64_t>> rss_at_;
  std::atomic<phase> phase_{phase::opening};
  std::atomic<bool> stopping_{false};
  std::atomic<bool> ending_{false};
  std::thread thread_;
};

/// One line to standard error, in one piece; a second one is dropped.
void fail_line(std::string line);

}  // namespace train_ctr
