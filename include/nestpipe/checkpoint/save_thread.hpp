#pragma once
/// @file
/// The thread of a rank that writes a checkpoint while training goes on.

#include <nestpipe/checkpoint/chunk_file.hpp>
#include <nestpipe/checkpoint/dense_file.hpp>
#include <nestpipe/checkpoint/numbered.hpp>
#include <nestpipe/engine/dense_part.hpp>

#include <atomic>
#include <condition_variable>
#include <deque>
#include <memory>
#include <mutex>
#include <thread>

#if defined(__linux__)
#include <sys/resource.h>
#include <sys/syscall.h>
#endif

namespace nestpipe::checkpoint {

/// One save, as a rank knows it when it begins.
struct save_job {
  std::filesystem::path directory;
  std::string id;                   ///< of the directory under way, the same on every rank
  manifest described;               ///< on rank 0 all that is known already; tables and parameters on every rank
  std::vector<rows_place> places;   ///< (tables) of this rank
  bool delta = false;
  std::size_t keep = 0;
};

/// Takes chunks and dense parameters from the lanes and writes them. A rank whose files are complete leaves a list of them in
/// the directory, the last thing it writes; rank 0, told that all have, makes the manifest from the lists and renames.
class save_thread final : public engine::chunk_sink {
 public:
  save_thread(std::size_t rank, std::size_t world_size) : rank_{rank}, world_size_{world_size} {}
  save_thread(save_thread const&) = delete;
  save_thread& operator=(save_thread const&) = delete;
  ~save_thread() override { stop(); }

  /// @pre the last job is published or abandoned
  void begin(save_job job) {
    std::lock_guard const lock{mutex_};
    job_ = std::move(job);
    files_.clear();
    parts_.assign(job_.places.size(), 0);
    own_ = {};
    rows_.clear();
    opened_ = dense_ready_ = rows_ready_ = publish_ = dense_written_ = false;
    written_ = published_ = failed_ = false;
    problem_ = {};
    busy_ = true;
    if (!thread_.joinable()) thread_ = std::thread{[this] { run(); }};
    changed_.notify_all();
  }

  void take_dense(std::span<float const> values, std::span<float const> state) {
    // Copied on the lane: the next update waits for it, the lock does not.
    values_.assign(values.begin(), values.end());
    state_.assign(state.begin(), state.end());
    std::lock_guard const lock{mutex_};
    dense_ready_ = true;
    changed_.notify_all();
  }

  std::unique_ptr<engine::row_chunk> fresh() override {
    std::lock_guard const lock{mutex_};
    if (free_.empty()) return std::make_unique<engine::row_chunk>();
    auto chunk = std::move(free_.back());
    free_.pop_back();
    return chunk;
  }
  void take(std::unique_ptr<engine::row_chunk> chunk) override {
    std::lock_guard const lock{mutex_};
    queue_.push_back(std::move(chunk));
    waiting_ = queue_.size();
    changed_.notify_all();
  }
  bool keeps_up() const override { return waiting_ < 2; }
  void complete(std::vector<std::uint64_t> rows, std::string problem) override {
    std::lock_guard const lock{mutex_};
    rows_ = std::move(rows);
    if (!problem.empty() && !failed_) fail(error{problem, job_.directory.string(), "give the store more room, or save with lanes idle"});
    rows_ready_ = true;
    changed_.notify_all();
  }

  /// All ranks have written their files. On rank 0 only.
  void publish() {
    std::lock_guard const lock{mutex_};
    publish_ = true;
    changed_.notify_all();
  }

  bool written() const { return written_; }
  bool published() const { return published_; }
  bool failed() const { return failed_; }
  /// Of the manifest published last, on rank 0.
  std::uint64_t manifest_checksum() const { return manifest_checksum_; }

  /// Blocks until this rank's files are complete. @throws what went wrong
  void wait_written() { wait(written_); }
  void wait_published() { wait(published_); }

  /// Ends the thread; an unfinished checkpoint is removed.
  void stop() noexcept {
    {
      std::lock_guard const lock{mutex_};
      quitting_ = true;
      changed_.notify_all();
    }
    if (thread_.joinable()) thread_.join();
    quitting_ = false;
    queue_.clear();
    waiting_ = 0;
    if (busy_ && !published_ && opened_ && rank_ == 0) staged_.discard();
    busy_ = false;
  }

 private:
  void wait(std::atomic<bool> const& what) {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] { return what || failed_; });
    if (failed_) std::rethrow_exception(problem_);
  }

  // With the lock held.
  template <class Error>
  void fail(Error const& e) {
    problem_ = std::make_exception_ptr(e);
    failed_ = true;
  }

  void run() {
#if defined(__linux__)
    ::setpriority(PRIO_PROCESS, static_cast<::id_t>(::syscall(SYS_gettid)), 10);  // training goes first; no matter if refused
#endif
    std::unique_lock lock{mutex_};
    for (;;) {
      changed_.wait(lock, [&] { return quitting_ || (busy_ && (!queue_.empty() || (!failed_ && has_work()))); });
      if (quitting_) return;
      std::unique_ptr<engine::row_chunk> chunk;
      if (!queue_.empty()) {
        chunk = std::move(queue_.front());
        queue_.pop_front();
        waiting_ = queue_.size();
      }
      try {
        if (!failed_) {
          if (!opened_) {
            unlocked(lock, [&] { open(); });
            opened_ = true;
          }
          if (chunk) {
            unlocked(lock, [&] { write(*chunk); });
          } else if (dense_ready_ && !dense_written_) {
            unlocked(lock, [&] { write_dense_part(); });
            dense_written_ = true;
          } else if (dense_written_ && rows_ready_ && !written_) {
            unlocked(lock, [&] { write_list(); });
            written_ = true;
          } else if (publish_ && !published_) {
            unlocked(lock, [&] { finish(); });
            published_ = true;
          }
        }
      } catch (std::exception const&) {
        if (!failed_) problem_ = std::current_exception();
        failed_ = true;
      }
      if (chunk) {
        chunk->clear();
        free_.push_back(std::move(chunk));
      }
      changed_.notify_all();
    }
  }
  bool has_work() const {
    return !opened_ || (dense_ready_ && !dense_written_) || (dense_written_ && rows_ready_ && queue_.empty() && !written_) || (publish_ && !published_);
  }
  template <class F>
  static void unlocked(std::unique_lock<std::mutex>& lock, F f) {
    lock.unlock();
    try {
      f();
    } catch (...) {
      lock.lock();
      throw;
    }
    lock.lock();
  }

  void open() {
    if (rank_ == 0) {
      std::filesystem::create_directories(job_.directory.parent_path());
      tidy_all(job_.directory.parent_path(), job_.id);
      staged_.open(job_.directory, job_.id);
    } else {
      staged_.join_early(job_.directory, job_.id);
    }
  }

  void write(engine::row_chunk& chunk) {
    if (chunk.keys.empty() && chunk.removed.empty()) return;
    files_.push_back(writer_.write(staged_.path(), job_.places[chunk.table], parts_[chunk.table]++, chunk, own_));
  }

  void write_dense_part() {
    digest replica;
    std::span<float const> values{values_};
    std::span<float const> state{state_};
    for (std::uint32_t i = 0; i < job_.described.parameters.size(); ++i) {
      auto const& p = job_.described.parameters[i];
      replica.add(engine::dense_stream + i, 0, values.first(p.rows * p.cols));
      replica.add(engine::dense_stream + i, 1, state.first(p.rows * p.state_floats));
      values = values.subspan(p.rows * p.cols);
      state = state.subspan(p.rows * p.state_floats);
    }
    replica_ = replica;
    if (rank_ == 0) job_.described.dense_file = write_dense(staged_.path() / dense_name, job_.described.parameters, values_, state_);
  }

  static std::string list_name(std::size_t rank) { return "files-r" + std::to_string(rank) + ".json"; }

  void write_list() {
    std::string text = "{\"digest\": \"" + own_.text() + "\", \"dense\": \"" + replica_.text() + "\", \"rows\": [";
    for (std::size_t t = 0; t < rows_.size(); ++t) text.append(t == 0 ? "" : ",").append(std::to_string(rows_[t]));
    text += "], \"files\": [";
    for (std::size_t i = 0; i < files_.size(); ++i) text.append(i == 0 ? "\n" : ",\n").append(detail::text_of(files_[i]));
    text += "]}\n";
    std::span<std::byte const> const bytes = std::as_bytes(std::span{text.data(), text.size()});
    detail::write_file(staged_.path() / list_name(rank_), {&bytes, 1});
  }

  void finish() {
    namespace fs = std::filesystem;
    manifest& m = job_.described;
    m.digest_of_all = replica_;
    for (std::size_t r = 0; r < world_size_; ++r) {
      fs::path const path = staged_.path() / list_name(r);
      if (!fs::is_regular_file(path)) throw error{"rank 0 does not see a file that rank " + std::to_string(r) + " has written", path.string(), "save to a file system that all ranks share"};
      std::vector<std::byte> bytes;
      detail::read_file(path, bytes);
      json const list = json::parse({reinterpret_cast<char const*>(bytes.data()), bytes.size()});
      if (list.at("dense").text() != replica_.text())
        throw error{"dense parameters differ between ranks", "ranks 0 and " + std::to_string(r) + ", step " + std::to_string(m.step), "report this: replicas must be equal"};
      std::string const& sum = list.at("digest").text();
      std::uint64_t low = 0, high = 0;
      parse_hex64(std::string_view{sum}.substr(0, 16), high);
      parse_hex64(std::string_view{sum}.substr(16), low);
      m.digest_of_all += digest::from_words(low, high);
      for (auto const& f : list.at("files").items()) m.files.push_back(detail::rows_file_of(f));
      for (std::size_t t = 0; t < m.tables.size(); ++t) m.tables[t].rows += list.at("rows").items().at(t).u64();
    }
    for (std::size_t r = 0; r < world_size_; ++r) fs::remove(staged_.path() / list_name(r));
    std::string const text = to_text(m);
    std::span<std::byte const> const bytes = std::as_bytes(std::span{text.data(), text.size()});
    manifest_checksum_ = detail::write_file(staged_.path() / manifest_name, {&bytes, 1}).checksum;
    staged_.publish([] {});
    try {
      if (job_.keep != 0) keep_last(job_.directory.parent_path(), job_.keep);
    } catch (std::exception const& e) {
      throw error{std::string{"it is saved, but older ones cannot be removed: "} + e.what()};
    }
  }

  std::size_t rank_, world_size_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::thread thread_;
  bool quitting_ = false;
  bool busy_ = false;

  // Handed over under the lock.
  save_job job_;
  std::deque<std::unique_ptr<engine::row_chunk>> queue_;
  std::vector<std::unique_ptr<engine::row_chunk>> free_;
  std::atomic<std::size_t> waiting_{0};
  std::vector<float> values_, state_;
  std::vector<std::uint64_t> rows_;
  bool dense_ready_ = false, rows_ready_ = false, publish_ = false;
  std::atomic<bool> written_{false}, published_{false}, failed_{false};
  std::exception_ptr problem_;
  std::atomic<std::uint64_t> manifest_checksum_{0};

  // Of the thread.
  bool opened_ = false, dense_written_ = false;
  staged_directory staged_;
  chunk_writer writer_;
  std::vector<std::size_t> parts_;
  std::vector<rows_file_entry> files_;
  digest own_, replica_;
};

}  // namespace nestpipe::checkpoint
