#include "monitor.hpp"

#include <unistd.h>

#include <chrono>
#include <cmath>
#include <csignal>
#include <cstdio>
#include <fstream>
#include <limits>

namespace train_ctr {
namespace {

double seconds() { return std::chrono::duration<double>(std::chrono::steady_clock::now().time_since_epoch()).count(); }

sigset_t signals(bool mpi) {
  sigset_t set;
  sigemptyset(&set);
  sigaddset(&set, SIGINT);
  sigaddset(&set, SIGUSR1);
  if (!mpi) sigaddset(&set, SIGTERM);
  return set;
}

std::uint64_t resident_bytes() {
  std::ifstream file{"/proc/self/statm"};
  std::uint64_t size = 0, resident = 0;
  file >> size >> resident;
  return resident * static_cast<std::uint64_t>(::sysconf(_SC_PAGESIZE));
}

constexpr double patience_seconds = 5;  // for the ranks to agree on a stop

}  // namespace

void fail_line(std::string line) {
  static std::atomic<bool> said{false};
  if (said.exchange(true)) return;
  for (char& c : line) {
    if (c == '\n' || c == '\r') c = ' ';
  }
  line = "train_ctr: " + line + "\n";
  [[maybe_unused]] auto const written = ::write(STDERR_FILENO, line.data(), line.size());
}

void monitor::block_signals(bool mpi) {
  sigset_t const set = signals(mpi);
  ::pthread_sigmask(SIG_BLOCK, &set, nullptr);
}

monitor::monitor(options const& o)
    : terminal_{!o.mpi && ::isatty(STDOUT_FILENO) == 1},  // launchers give every process a terminal of their own
      quiet_{o.quiet},
      mpi_{o.mpi},
      first_rank_{o.mpi ? launched().rank : 0},
      auc_{std::numeric_limits<double>::quiet_NaN()} {
  thread_ = std::thread{[this] { run(); }};
}

monitor::~monitor() {
  ending_ = true;
  thread_.join();
  std::lock_guard lock{mutex_};
  clear_line();
}

std::size_t monitor::add(rank_view view) {
  std::lock_guard lock{mutex_};
  if (stopping_) view.request_stop();
  ranks_.emplace_back(next_id_, std::move(view));
  return next_id_++;
}

void monitor::remove(std::size_t id) {
  std::lock_guard lock{mutex_};
  std::erase_if(ranks_, [&](auto const& r) { return r.first == id; });
}

void monitor::step(nestpipe::progress const& p) {
  std::lock_guard lock{mutex_};
  now_ = p;
  samples_ += p.batch_samples;
  loss_sum_ += p.loss * static_cast<double>(p.batch_samples);
  loss_samples_ += static_cast<double>(p.batch_samples);
  if (shown_at_ == 0) shown_at_ = seconds();
  if (p.step == 500 || p.step == 2000) rss_at_.emplace_back(p.step, resident_bytes());
}

void monitor::valid_auc(double auc) {
  std::lock_guard lock{mutex_};
  auc_ = auc;
}

std::vector<std::pair<std::uint64_t, std::uint64_t>> monitor::rss_at() const {
  std::lock_guard lock{mutex_};
  return rss_at_;
}

void monitor::say(std::string const& line) {
  std::lock_guard lock{mutex_};
  clear_line();
  std::printf("%s\n", line.c_str());
  std::fflush(stdout);
}

void monitor::clear_line() {
  if (!line_open_) return;
  std::printf("\r\033[K");
  std::fflush(stdout);
  line_open_ = false;
}

/// With the lock held.
void monitor::show(bool last) {
  double const now = seconds();
  double const passed = now - shown_at_;
  if (quiet_ || first_rank_ != 0 || last || phase_ != phase::training || now_.step == shown_step_ || shown_at_ == 0 || passed < (terminal_ ? 0.25 : 5.0)) return;
  double const rate = static_cast<double>(samples_ - shown_samples_) / passed;
  double share = 0;
  if (!ranks_.empty()) share = ranks_.front().second.idle_share();
  char line[200], auc[32] = "-";
  if (std::isfinite(auc_)) std::snprintf(auc, sizeof auc, "%.5f", auc_);
  std::snprintf(line, sizeof line, "epoch %llu  step %llu  %.0f samples/s  loss %.5f  valid AUC %s  exposed %.0f %%", static_cast<unsigned long long>(now_.epoch),
                static_cast<unsigned long long>(now_.step), rate, loss_sum_ / loss_samples_, auc, 100 * share);
  if (terminal_) {
    std::printf("\r%s\033[K", line);
    line_open_ = true;
  } else {
    std::printf("%s\n", line);
  }
  std::fflush(stdout);
  shown_step_ = now_.step;
  shown_samples_ = samples_;
  shown_at_ = now;
  loss_sum_ = loss_samples_ = 0;
}

void monitor::give_up(char const* why) {
  std::string line = "stopped by a signal: ";
  line += why;
  std::unique_lock lock{mutex_, std::try_to_lock};
  if (lock.owns_lock()) {
    clear_line();
    std::optional<exec::op> place;
    for (auto const& [id, view] : ranks_) {
      if (!place) place = view.place();
    }
    char const* const other = phase_ == phase::opening ? "opening the data" : phase_ == phase::scoring ? "evaluate" : phase_ == phase::saving ? "save" : "between steps";
    line += " (stage " + (place ? std::string{exec::name(place->what)} : std::string{other}) + ", step " + std::to_string(now_.step) + "); nothing was saved";
  }
  fail_line(line);
  ::_exit(1);
}

void monitor::run() {
  sigset_t const set = signals(mpi_);
  timespec const wait{0, 50'000'000};
  double asked = 0;
  double first_signal = 0;
  while (!ending_) {
    int const got = ::sigtimedwait(&set, nullptr, &wait);
    if (got > 0) {
      // A launcher may signal this process and its group at once: only a later one is a second thought.
      if (stopping_ && seconds() - first_signal > 1) give_up("it came twice");
      if (stopping_) continue;
      stopping_ = true;
      first_signal = seconds();
      asked = seconds();
      std::lock_guard lock{mutex_};
      for (auto const& [id, view] : ranks_) view.request_stop();
    }
    // An evaluation or a checkpoint may take its time; a batch may not.
    phase const p = phase_;
    if (p == phase::scoring || p == phase::saving || p == phase::done) asked = stopping_ ? seconds() : 0;
    if (stopping_ && seconds() - asked > patience_seconds) give_up("the ranks did not agree within 5 seconds");
    std::lock_guard lock{mutex_};
    show(ending_);
  }
}

}  // namespace train_ctr
