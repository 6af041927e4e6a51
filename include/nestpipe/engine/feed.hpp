#pragma once
/// @file
/// Where a rank's samples come from: ranks of one process share the framing of a dataset and split the parsing; under MPI
/// each rank frames for itself; a stream that cannot be opened twice is framed by rank 0 and travels as bytes.

#include <nestpipe/comm/comm.hpp>
#include <nestpipe/data/data.hpp>
#include <nestpipe/engine/batch.hpp>
#include <nestpipe/exec/worker_pool.hpp>

#include <array>
#include <functional>
#include <memory>
#include <mutex>

namespace nestpipe::engine {

/// Rows [first, last) of micro-batch m among G in a batch of B rows.
struct row_range {
  std::size_t first = 0, last = 0;
};
constexpr row_range micro_batch_rows(std::size_t m, std::size_t micro_batches, std::size_t batch_size) {
  return {m * batch_size / micro_batches, (m + 1) * batch_size / micro_batches};
}

/// Which rows a rank takes.
struct feed_shape {
  std::size_t batch_size = 0;          ///< global
  std::size_t micro_batches = 1;       ///< of one rank
  std::size_t rank = 0;
  std::size_t world_size = 1;
  bool per_rank = false;               ///< each rank has its own dataset and takes batch_size / world_size rows of it
  exec::worker_pool* helpers = nullptr;  ///< parse micro-batches at the same time; must outlive the feed
};

namespace detail {

/// The framed blocks of a dataset, each kept until all local readers have parsed it.
template <class Dataset>
class shared_frames {
 public:
  using block = typename Dataset::block;
  struct frame {
    std::uint64_t epoch = 0, index = 0;
    std::size_t rows = 0;
    std::size_t readers = 0;
    block data;
  };

  explicit shared_frames(Dataset dataset) : dataset_{std::move(dataset)} {}

  /// One more reader; all have joined before the first acquire.
  void join() {
    std::lock_guard lock{mutex_};
    ++readers_;
  }

  /// Block `index` of `epoch`. Never waits for other readers: routing keeps ranks within a few batches of each other.
  /// @param produce  (dataset, block) -> rows: frames the next block
  template <class Produce>
  frame* acquire(std::uint64_t epoch, std::uint64_t index, Produce produce) {
    std::lock_guard lock{mutex_};
    for (auto& f : frames_) {
      if (f->readers != 0 && f->epoch == epoch && f->index == index) return f.get();
    }
    if (epoch < epoch_ || (epoch == epoch_ && (ended_ || index < next_))) return nullptr;  // read ahead past the end
    if (epoch > epoch_) {
      dataset_.rewind(epoch);
      epoch_ = epoch;
      next_ = 0;
      ended_ = false;
    }
    frame& f = free_frame();
    f.rows = produce(dataset_, f.data);
    f.epoch = epoch;
    f.index = index;
    next_ = index + 1;
    if (f.rows == 0) {
      ended_ = true;
      return nullptr;
    }
    f.readers = readers_;
    return &f;
  }

  void release(frame* f) {
    std::lock_guard lock{mutex_};
    --f->readers;
  }

  /// Moves the stream; for one caller while no block is in use (the others' later calls find it done).
  void seek(data::data_position at, std::size_t batch_size) {
    std::lock_guard lock{mutex_};
    std::uint64_t const index = at.row / batch_size;
    if (epoch_ == at.epoch && next_ == index && !ended_) return;
    dataset_.seek(at);
    epoch_ = at.epoch;
    next_ = index;
    ended_ = false;
  }

  Dataset const& dataset() const { return dataset_; }

 private:
  frame& free_frame() {
    for (auto& f : frames_) {
      if (f->readers == 0) return *f;
    }
    frames_.push_back(std::make_unique<frame>());
    return *frames_.back();
  }

  std::mutex mutex_;
  Dataset dataset_;
  std::size_t readers_ = 0;
  std::uint64_t epoch_ = 0;
  std::uint64_t next_ = 0;
  bool ended_ = false;
  std::vector<std::unique_ptr<frame>> frames_;
};

}  // namespace detail

/// A rank's view of a dataset, batch by batch. Collective: every rank reads the same sequence of batches.
class feed {
 public:
  feed() = default;

  /// Collective over `comm`.
  /// @param channel  outlives the feed; used here and, for streams that only rank 0 can read, by read()
  template <class Dataset, class Comm>
  static feed make(Dataset const& dataset, Comm& comm, comm::channel_t<Comm>& channel, feed_shape const& shape) {
    static_assert(data::audit<Dataset>());
    using frames = detail::shared_frames<Dataset>;
    bool scattered = false;
    if constexpr (requires { dataset.single_pass(); }) scattered = dataset.single_pass() && !shape.per_rank && comm.size() > 1;
    auto const create = [&] { return std::make_shared<frames>(dataset); };
    bool const own = shape.per_rank || scattered;
    std::shared_ptr<frames> const shared = own ? create() : comm::share<frames>(comm, create);
    shared->join();
    channel.barrier({"read", 0});

    feed f;
    f.read_ = [shared, shape, scattered, &channel, travelling = std::vector<std::byte>{}](std::uint64_t epoch, std::uint64_t index,
                                                                                          std::uint64_t step, batch_slot& slot) mutable {
      std::size_t const rows = shape.per_rank ? shape.batch_size / shape.world_size : shape.batch_size;
      auto* const frame = shared->acquire(epoch, index, [&](Dataset& d, typename Dataset::block& block) {
        if constexpr (travels<Dataset>) {
          if (scattered) return frame_and_send(d, block, rows, shape.rank, channel, travelling, step);
        }
        return d.frame(block, rows);
      });
      slot.read = {frame == nullptr ? 0 : frame->rows, !shape.per_rank, frame == nullptr || frame->rows < rows};
      slot.blocks.resize(shape.micro_batches);
      auto const one = [&](std::size_t j) {
        row_range const range = shape.per_rank ? micro_batch_rows(j, shape.micro_batches, rows)
                                               : micro_batch_rows(j * shape.world_size + shape.rank, shape.micro_batches * shape.world_size, rows);
        if (frame == nullptr) {
          clear(slot.blocks[j], shared->dataset().schema());
        } else {
          shared->dataset().parse(frame->data, range.first, range.last, slot.blocks[j]);
        }
      };
      if (shape.helpers != nullptr) {
        shape.helpers->run(shape.micro_batches, one);
      } else {
        for (std::size_t j = 0; j < shape.micro_batches; ++j) one(j);
      }
      if (frame != nullptr) shared->release(frame);
    };
    f.seek_ = [shared, shape, &channel](data::data_position at) {
      shared->seek(at, shape.per_rank ? shape.batch_size / shape.world_size : shape.batch_size);
      channel.barrier({"read", 0});  // nobody reads on before the slowest has come here, or it would move the stream back
    };
    f.complaints_ = [shared] {
      std::vector<std::string> lines;
      if constexpr (requires { shared->dataset().complaints(); }) {
        for (auto const& line : shared->dataset().complaints()) lines.emplace_back(line);
      }
      return lines;
    };
    return f;
  }

  explicit operator bool() const { return static_cast<bool>(read_); }

  /// Batch `index` of `epoch` into the slot's blocks; nothing past the end of the epoch. `step` appears in messages.
  void read(std::uint64_t epoch, std::uint64_t index, std::uint64_t step, batch_slot& slot) { read_(epoch, index, step, slot); }
  /// Continues at `at` (a whole number of batches into its epoch). Collective; before the first read.
  void seek(data::data_position at) { seek_(at); }
  /// First malformed lines seen, as text.
  std::vector<std::string> complaints() const { return complaints_(); }

 private:
  template <class Dataset>
  static constexpr bool travels = requires(typename Dataset::block b, std::vector<std::byte> bytes) {
    b.serialize(bytes);
    b.deserialize(std::span<std::byte const>{bytes});
  };

  // Rank 0 frames, all ranks get the block. Under inline or thread lanes this runs in batch order on every rank.
  template <class Dataset, class Channel>
  static std::size_t frame_and_send(Dataset& d, typename Dataset::block& block, std::size_t rows, std::size_t rank, Channel& channel,
                                    std::vector<std::byte>& bytes, std::uint64_t step) {
    std::array<std::uint64_t, 2> head{};
    if (rank == 0) {
      head[0] = d.frame(block, rows);
      bytes.clear();
      block.serialize(bytes);
      head[1] = bytes.size();
    }
    channel.broadcast(std::as_writable_bytes(std::span{head}), 0, {"read", step});
    bytes.resize(head[1]);
    channel.broadcast(std::span{bytes}, 0, {"read", step});
    if (rank != 0) block.deserialize(bytes);
    return head[0];
  }

  static void clear(sample_block& block, schema const& s) {
    block.clear();
    block.dense_width = s.dense;
    block.label_width = s.labels;
    block.ids.features = s.features.size();
  }

  std::function<void(std::uint64_t, std::uint64_t, std::uint64_t, batch_slot&)> read_;
  std::function<void(data::data_position)> seek_;
  std::function<std::vector<std::string>()> complaints_;
};

}  // namespace nestpipe::engine
