// ctest:
//
// Policies of your own: an optimizer, a storage and a schedule, each a small class that meets a concept. Nothing is
// registered, derived from, or wrapped in a macro; leave a requirement out and the compiler says which in one sentence.

#include <nestpipe/data/synthetic.hpp>
#include <nestpipe/math/default.hpp>
#include <nestpipe/nestpipe.hpp>

#include <cmath>
#include <cstdio>
#include <cstring>
#include <map>

namespace np = nestpipe;

/// Sign of the momentum (Lion: Chen et al. 2023, arXiv 2302.06675, without decay): one float of state per parameter.
struct lion {
  float rate = 1e-3f, beta1 = 0.9f, beta2 = 0.99f;

  NESTPIPE_HOST_DEVICE std::size_t state_size(std::size_t dim) const { return dim; }
  NESTPIPE_HOST_DEVICE void initialize(float* state, std::size_t dim) const {
    for (std::size_t i = 0; i < dim; ++i) state[i] = 0.0f;
  }
  float prepare(std::uint64_t /*step*/, float rate_factor) const { return rate * rate_factor; }

  template <class Dim>
  NESTPIPE_HOST_DEVICE void update(float* row, float* state, float const* gradient, Dim dim, float step_size) const {
    for (std::size_t i = 0; i < dim; ++i) {
      float const direction = beta1 * state[i] + (1.0f - beta1) * gradient[i];
      row[i] -= direction > 0.0f ? step_size : direction < 0.0f ? -step_size : 0.0f;
      state[i] = beta2 * state[i] + (1.0f - beta2) * gradient[i];
    }
  }
};

/// Rows in a balanced tree: slow, but iterates in key order. A handle is the index of the row in an array that only grows.
class tree_storage {
 public:
  void open(np::storage::storage_spec const& spec) { row_floats_ = spec.row_floats; }

  void read(std::span<np::key_type const> keys, std::span<np::storage::row_handle> handles, float* rows) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      auto const row = index_.find(keys[i]);
      handles[i] = row == index_.end() ? np::storage::no_row : row->second;
      counters_.misses += row == index_.end() ? 1 : 0;
      if (row != index_.end()) std::memcpy(rows + i * row_floats_, rows_.data() + row->second * row_floats_, row_floats_ * sizeof(float));
    }
    counters_.lookups += keys.size();
  }
  void write(std::span<np::key_type const> keys, std::span<np::storage::row_handle const> handles, float const* rows) {
    for (std::size_t i = 0; i < keys.size(); ++i) {
      np::storage::row_handle row = handles[i];
      if (row == np::storage::no_row) {
        auto const [at, created] = index_.try_emplace(keys[i], rows_.size() / row_floats_);
        if (created) rows_.resize(rows_.size() + row_floats_);
        row = at->second;
      }
      std::memcpy(rows_.data() + row * row_floats_, rows + i * row_floats_, row_floats_ * sizeof(float));
    }
  }
  void erase(std::span<np::key_type const> keys) {
    for (np::key_type const key : keys) index_.erase(key);
  }
  void pin(std::span<np::key_type const>) {}      // this store never evicts
  void release(std::span<np::key_type const>) {}
  std::uint64_t epoch() const { return 0; }       // and never moves a row
  std::uint64_t size() const { return index_.size(); }
  np::storage::storage_counters counters() const {
    np::storage::storage_counters c = counters_;
    c.rows = index_.size();
    c.bytes = rows_.capacity() * sizeof(float) + index_.size() * 48;
    return c;
  }
  /// In one portion.
  template <class F>
  void scan(np::storage::scan_cursor& at, F f) const {
    for (auto const& [key, row] : index_) f(key, std::span<float const>{rows_.data() + row * row_floats_, row_floats_});
    at.done = true;
  }
  bool passed(np::storage::scan_cursor const& at, np::key_type) const { return at.done; }

 private:
  std::size_t row_floats_ = 0;
  std::map<np::key_type, std::uint64_t> index_;
  std::vector<float> rows_;
  np::storage::storage_counters counters_;
};

/// The plain loop, except that the next batch is read while this one trains. Any order is right in which every op waits for
/// what it needs.
struct read_one_ahead {
  using consistency = np::schedule::exact;
  constexpr std::uint32_t windows() const { return 1; }

  template <class Pipeline>
  void run(Pipeline& p) const {
    using np::exec::stage;
    std::uint64_t const first = p.first_batch();
    np::exec::event read = p.issue({stage::read, first});
    np::exec::event last{};
    for (std::uint64_t t = first;; ++t) {
      np::exec::event const staged = p.issue({stage::stage, t}, read);
      np::exec::event const routed = p.issue({stage::route, t}, staged, last);
      auto const info = p.agreed(t);
      if (!info.boundary) read = p.issue({stage::read, t + 1}, last);
      if (info.samples != 0) last = np::schedule::one_window_step(np::schedule::plain_micro_batches{}, p, t, routed);
      if (info.boundary) break;
    }
    p.drain();
  }
};

template <class Schedule, class Storage>
std::string train(np::comm::threads& comm) {
  np::trainer<np::model::deepfm<>, Storage, np::comm::threads, Schedule, lion, lion> trainer{{.dim = 8, .batch_size = 512, .micro_batches = 2}, comm};
  auto const trained = trainer.fit(np::data::synthetic{{.rows = 30'000}});
  std::string const digest = trainer.parameters_digest().text();
  if (comm.rank() == 0) std::printf("loss %.4f, parameters_digest %s\n", trained.loss, digest.c_str());
  return digest;
}

int main() {
  bool equal = true;
  np::comm::threads::run(2, [&](np::comm::threads& comm) {
    std::string const own = train<read_one_ahead, tree_storage>(comm);
    std::string const ours = train<np::schedule::sequential, np::storage::hashed<>>(comm);
    if (comm.rank() == 0) equal = own == ours;
  });
  std::puts(equal ? "own storage and schedule give the bits of hashed and sequential" : "the bits differ: this must not happen");
  return equal ? 0 : 1;
}
