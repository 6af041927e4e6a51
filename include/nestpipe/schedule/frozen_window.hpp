#pragma once
/// @file
/// Overlap inside a batch: rows do not change between its micro-batches, so the exchange of one hides behind the compute of
/// another. Source: NestPipe (arXiv 2604.06956), frozen-window pipelining; the late weight gradients follow zero-bubble
/// pipelines (Qi et al. 2023, arXiv 2401.10241).

#include <nestpipe/schedule/step.hpp>

namespace nestpipe::schedule {

/// Exchange lane: E0 E1 | G0 E2 | G1 E3 | ... | G(N-1); compute lane: C0 C1 ... Two landing buffers for rows, two for gradients.
struct frozen_window {
  using consistency = exact;

  /// Gradients leave as soon as the input half of backward is done; weight halves are computed while they travel, each one
  /// micro-batch late, so that two are left to hide the last exchange.
  bool split_backward = true;

  constexpr std::uint32_t windows() const { return 1; }

  std::vector<frozen_window> variants() const { return {{true}, {false}}; }

  template <class Pipeline>
  void run(Pipeline& p) const {
    one_batch_at_a_time(*this, p);
  }

  /// See plain_micro_batches.
  template <class Pipeline>
  micro_batches_done micro_batches(Pipeline& p, std::uint64_t t, exec::event rows_ready, exec::portion first_rows) const {
    using exec::stage;
    std::uint32_t const n = p.micro_batches();
    // [m % 2]: micro-batches m and m + 2 use the same buffers.
    exec::event rows[2]{}, computed[2]{}, sent[2]{};
    exec::event weights{};
    auto const exchange = [&](std::uint32_t m) {
      // Backward of m - 2 is the landing buffer's last reader.
      rows[m % 2] = p.issue({stage::exchange_rows, t, m, m == 0 ? first_rows : exec::portion::all}, rows_ready, computed[m % 2]);
    };
    auto const add_weights = [&](std::uint32_t m) { weights = weigh(p, t, m, computed[m % 2]); };
    exchange(0);
    if (n > 1) exchange(1);
    for (std::uint32_t m = 0; m < n; ++m) {
      computed[m % 2] = p.issue({stage::forward_backward, t, m}, rows[m % 2], sent[m % 2]);
      if (!split_backward) {
        add_weights(m);
      } else if (m > 0) {
        add_weights(m - 1);
      }
      sent[m % 2] = p.issue({stage::exchange_gradients, t, m}, split_backward ? computed[m % 2] : weights);
      if (m + 2 < n) exchange(m + 2);
    }
    if (split_backward) add_weights(n - 1);
    return {sent[(n - 1) % 2], weights, computed[n % 2]};  // the next batch lands first where n - 2 did
  }
};

}  // namespace nestpipe::schedule
