// SPDX-License-Identifier: BSD-3-Clause
// Copyright (c) The Rockhopper authors
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>

#include "apps/common/endpoint_options.h"
#include "stack/error.h"

namespace rockhopper::apps::ethernet_switch {

/// Runs packet work in DPDK's interrupt thread, between its interrupts. The memif driver (DPDK
/// 22.11) unmaps a lost peer's rings in that thread without regard to a thread that is just reading
/// them; a switch outlives its peers, so its work must not run at the same time.
class InterruptLoop {
 public:
  /// `turn` does a piece of the work; false if there was none. `idle` says what comes then.
  InterruptLoop(std::function<bool()> turn, IdlePolicy idle);
  InterruptLoop(const InterruptLoop&) = delete;
  InterruptLoop& operator=(const InterruptLoop&) = delete;
  ~InterruptLoop() { stop(); }

  /// Once.
  [[nodiscard]] Expected<void> start();
  /// Returns when the last turn is over. Not from within `turn`.
  void stop();
  /// False once it has ended, by stop() or for want of memory.
  [[nodiscard]] bool running() const { return running_.load(std::memory_order_acquire); }

 private:
  static void on_alarm(void* loop) { static_cast<InterruptLoop*>(loop)->run_slice(); }
  void run_slice();
  void end();
  /// Turns until the time slice is over or, to sleep, there is no more work. Returns how many
  /// microseconds to wait before the next slice.
  [[nodiscard]] std::uint64_t turns();

  std::function<bool()> turn_;
  IdlePolicy idle_;
  bool registered_ = false;  ///< the interrupt thread has an lcore id, and with it mempool caches
  std::atomic<bool> stop_{false};
  std::atomic<bool> running_{false};
};

}  // namespace rockhopper::apps::ethernet_switch
