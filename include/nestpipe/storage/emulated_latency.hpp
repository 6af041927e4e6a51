#pragma once
/// @file
/// A store made slow on purpose, as one on a slow memory or a disk would be. For measuring what a schedule hides; every figure
/// made with it carries label().

#include <nestpipe/storage/storage.hpp>

#include <chrono>
#include <limits>
#include <thread>
#include <utility>

namespace nestpipe::storage {

/// Seconds a batched call, and bytes per second, of reads and writes.
struct latency_options {
  double read_latency = 0;
  double read_bytes_per_second = std::numeric_limits<double>::infinity();
  double write_latency = 0;
  double write_bytes_per_second = std::numeric_limits<double>::infinity();

  bool active() const {
    constexpr double endless = std::numeric_limits<double>::infinity();
    return read_latency > 0 || write_latency > 0 || read_bytes_per_second < endless || write_bytes_per_second < endless;
  }
  std::string label() const {
    if (!active()) return "no emulated storage latency";
    auto const direction = [](char const* name, double latency, double rate) {
      std::string text = std::string{name} + " " + std::to_string(static_cast<std::uint64_t>(latency * 1e6 + 0.5)) + " us a batch";
      if (rate < std::numeric_limits<double>::infinity()) text += " and " + std::to_string(static_cast<std::uint64_t>(rate / 1e3 + 0.5)) + " kB/s";
      return text;
    };
    return "emulated storage, " + direction("reads", read_latency, read_bytes_per_second) + ", " + direction("writes", write_latency, write_bytes_per_second);
  }
};

/// Decorator: `S`, with reads and writes that take at least latency + bytes / bandwidth, the real work included. They sleep,
/// never spin. Only rows that exist are read, and a call without any costs nothing.
template <class S>
class emulated_latency {
  static_assert(audit<S>());

 public:
  emulated_latency() = default;
  /// @throws config_error on a negative latency or a bandwidth that is not positive
  explicit emulated_latency(S inner, latency_options settings = {}) : inner_{std::move(inner)}, settings_{settings} {
    require(settings_.read_latency >= 0 && settings_.write_latency >= 0, "emulated storage latencies must be 0 or more seconds");
    require(settings_.read_bytes_per_second > 0 && settings_.write_bytes_per_second > 0, "emulated storage bandwidths must be positive");
  }

  void open(storage_spec const& spec) {
    row_bytes_ = static_cast<double>(spec.row_floats * sizeof(float));
    inner_.open(spec);
  }
  void read(std::span<key_type const> keys, std::span<row_handle> handles, float* rows) {
    auto const begin = clock::now();
    inner_.read(keys, handles, rows);
    std::size_t present = 0;
    for (row_handle const h : handles) present += h != no_row ? 1 : 0;
    take(begin, present, settings_.read_latency, settings_.read_bytes_per_second);
  }
  void write(std::span<key_type const> keys, std::span<row_handle const> handles, float const* rows) {
    auto const begin = clock::now();
    inner_.write(keys, handles, rows);
    take(begin, keys.size(), settings_.write_latency, settings_.write_bytes_per_second);
  }
  std::uint64_t epoch() const { return inner_.epoch(); }
  void pin(std::span<key_type const> keys) { inner_.pin(keys); }
  void release(std::span<key_type const> keys) { inner_.release(keys); }
  void erase(std::span<key_type const> keys) { inner_.erase(keys); }
  std::uint64_t size() const { return inner_.size(); }
  template <class F>
  void scan(scan_cursor& at, F&& f) const {
    inner_.scan(at, f);
  }
  bool passed(scan_cursor const& at, key_type key) const { return inner_.passed(at, key); }
  storage_counters counters() const { return inner_.counters(); }
  void expect(std::uint64_t batch, std::span<key_type const> keys)
    requires looks_ahead<S>
  {
    inner_.expect(batch, keys);
  }
  void reached(std::uint64_t batch)
    requires looks_ahead<S>
  {
    inner_.reached(batch);
  }

  S const& inner() const { return inner_; }
  latency_options const& settings() const { return settings_; }
  /// For titles of figures.
  std::string label() const { return settings_.label(); }

 private:
  using clock = std::chrono::steady_clock;

  void take(clock::time_point begin, std::size_t rows, double latency, double rate) const {
    if (rows == 0) return;
    double const seconds = latency + static_cast<double>(rows) * row_bytes_ / rate;
    if (seconds > 0) std::this_thread::sleep_until(begin + std::chrono::duration_cast<clock::duration>(std::chrono::duration<double>(seconds)));
  }

  S inner_{};
  latency_options settings_;
  double row_bytes_ = 0;
};

}  // namespace nestpipe::storage
