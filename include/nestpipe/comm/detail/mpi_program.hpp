#pragma once
/// @file
/// How a program under MPI says its last line and ends.

#include <nestpipe/comm/detail/mpi_runtime.hpp>

#include <time.h>
#include <unistd.h>

#include <atomic>
#include <charconv>
#include <chrono>
#include <csignal>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <string>
#include <string_view>
#include <thread>

namespace nestpipe::comm::detail {

/// Set once this process has said why it ends: it then says nothing more.
inline std::atomic<bool> has_said{false};
inline std::atomic<std::uint64_t> program_rank{0};

/// One line to stderr in one piece, so that lines of several ranks do not mix.
inline void say_line(std::string line) {
  if (has_said.exchange(true)) return;
  line.push_back('\n');
  [[maybe_unused]] auto const written = ::write(STDERR_FILENO, line.data(), line.size());
}

/// The handler of SIGTERM, which a launcher sends to the other ranks when one has died by a signal. Async-signal-safe:
/// lock-free atomics, a buffer on the stack, write, _exit.
inline void sigterm_line(int) {
  if (!has_said.exchange(true)) {
    char line[512];
    std::size_t n = 0;
    auto const text = [&](char const* s) {
      while (*s != '\0' && n + 1 < sizeof line) line[n++] = *s++;
    };
    auto const number = [&](std::uint64_t value) {
      char digits[24];
      *std::to_chars(digits, digits + sizeof digits - 1, value).ptr = '\0';
      text(digits);
    };
    char const* const stage = current_stage.load(std::memory_order_relaxed);
    text("rank ");
    number(program_rank.load(std::memory_order_relaxed));
    text(": stopped by the launcher (another rank died, or the job was cancelled); was in ");
    text(stage == nullptr ? "?" : stage);
    text(", step ");
    number(current_step.load(std::memory_order_relaxed));
    line[n++] = '\n';
    [[maybe_unused]] auto const written = ::write(STDERR_FILENO, line, n);
  }
  timespec const moment{0, 100000000};  // a launcher may drop what a process writes just before it ends
  ::nanosleep(&moment, nullptr);
  ::_exit(1);
}

inline void install_sigterm_line(std::size_t rank) {
  program_rank.store(rank);
  struct sigaction action {};
  action.sa_handler = sigterm_line;
  ::sigaction(SIGTERM, &action, nullptr);
}

/// Says the line, tells the others, ends the job.
[[noreturn]] inline void end_program(mpi_runtime& runtime, std::string const& reason, int status) {
  bool said_by_another = false;
  if (status == 2) {  // every rank refuses the same bad value: the lowest says so for all
    auto const until = std::chrono::steady_clock::now() + std::chrono::milliseconds{100 * (runtime.rank() != 0)};
    while (!runtime.failed() && std::chrono::steady_clock::now() < until)
      std::this_thread::sleep_for(std::chrono::milliseconds{1});
    said_by_another =
        runtime.failed() && runtime.failure().rank() < runtime.rank() && runtime.failure().reason() == reason;
  }
  runtime.abort(reason);
  if (said_by_another) {
    has_said = true;
  } else {
    say_line(runtime.size() == 1 ? reason : "rank " + std::to_string(runtime.rank()) + ": " + reason);
  }
  runtime.end(status);
}

/// From the launcher's environment; 0 where it says nothing.
inline std::size_t local_rank() {
  for (char const* name :
       {"LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_RANK", "MV2_COMM_WORLD_LOCAL_RANK", "MPI_LOCALRANKID", "SLURM_LOCALID"}) {
    char const* const text = std::getenv(name);
    if (text == nullptr) continue;
    std::size_t value = 0;
    char const* const end = text + std::strlen(text);
    if (auto const [stop, code] = std::from_chars(text, end, value); code == std::errc{} && stop == end) return value;
  }
  return 0;
}

}  // namespace nestpipe::comm::detail
